/* pack_options.c: options in, one checked description of the work out.
 *
 * Promises: a name that becomes part of a file name holds nothing but word characters, shares sum to 1, numbers are
 * in range. Leaves to others: whether the options fit the sources (pack_source.c), and whether OUT can be written. */
#include "pack/pack_options.h"

#include "base/cpu.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "codec/stream.h"
#include "io/file.h"
#include "io/parse_number.h"
#include "io/remote/remote.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_SHARD_SIZE (UINT64_C(256) << 20)
#define MAX_SHARDS         100000u /* names have five digits */
#define MAX_SIDE           65535u
#define MAX_AUGMENT        1000u
#define MAX_WORKERS        1024u

/* Copies `*s` into the arena, so that the caller's texts may go away. */
static bool keep(struct pack_config *c, const char **s)
{
    if (!*s)
        return true;
    *s = arena_strndup(&c->arena, *s, strlen(*s));
    return *s != NULL;
}

static bool is_word(const char *s, size_t n, const char *extra)
{
    for (size_t i = 0; i < n; i++)
        if (!is_letter(s[i]) && !is_digit(s[i]) && s[i] != '_' && !strchr(extra, s[i]))
            return false;
    return n > 0;
}

/* A name that readers of TFDS folders accept: a letter, then word characters. The output folder's own is bent to that. */
static pst_status read_name(struct pack_config *c, pst_error *reterr)
{
    const char *given = c->options.name;
    if (given) {
        if (!is_letter(given[0]) || !is_word(given, strlen(given), "") || strlen(given) > 128)
            return pst_fail(reterr, PST_EINVAL,
                            "name \"%s\": expected a letter followed by letters, digits and _ (at most 128)", given);
        c->name = given;
        return PST_OK;
    }
    size_t n = strlen(c->out);
    while (n && c->out[n - 1] == '/')
        n--;
    size_t begin = n;
    while (begin && c->out[begin - 1] != '/')
        begin--;
    char *name = arena_alloc(&c->arena, n - begin + sizeof("data_"));
    if (!name)
        return fail_memory(reterr, "reading the options");
    char *at = name;
    if (begin == n || !is_letter(c->out[begin]))
        at = stpcpy(at, begin == n || c->out[begin] == '.' ? "data" : "data_");
    for (size_t i = begin; i < n && c->out[begin] != '.'; i++)
        *at++ = is_word(c->out + i, 1, "") ? c->out[i] : '_';
    *at = 0;
    c->name = name;
    return PST_OK;
}

/* Cuts "a=b,c=d" into pairs, in place of a copy. The pair's value may be empty, its name not. */
static pst_status next_pair(char **at, char **ret_name, char **ret_value, const char *option, pst_error *reterr)
{
    char *pair = *at, *comma = strchr(pair, ','), *equals;
    if (comma)
        *comma = 0;
    *at = comma ? comma + 1 : pair + strlen(pair);
    equals = strchr(pair, '=');
    if (!equals || equals == pair)
        return pst_fail(reterr, PST_EINVAL, "%s: \"%s\" is not of the form NAME=VALUE", option, pair);
    *equals = 0;
    *ret_name = pair;
    *ret_value = equals + 1;
    return PST_OK;
}

static size_t count_pairs(const char *s)
{
    size_t n = 1;
    for (; *s; s++)
        n += *s == ',';
    return n;
}

static pst_status read_share(struct pack_share *share, const char *name, const char *value, pst_error *reterr)
{
    size_t n = strlen(value);
    bool percent = n && value[n - 1] == '%';
    share->name = name;
    bool ok = number_float(value, n - percent, &share->share);
    if (ok && percent)
        share->share /= 100;
    if (!is_word(name, strlen(name), "-") || strlen(name) > 64)
        return pst_fail(reterr, PST_EINVAL, "split \"%s\": a name has " PACK_SPLIT_LETTERS " (at most 64)", name);
    if (!ok || !(share->share > 0 && share->share <= 1))
        return pst_fail(reterr, PST_EINVAL, "split %s=%s: expected a share above 0 and up to 1, as in train=0.9,val=0.1", name,
                        value);
    return PST_OK;
}

static pst_status read_split(struct pack_config *c, pst_error *reterr)
{
    const char *given = c->options.split ? c->options.split : "train=1";
    char *at = arena_strndup(&c->arena, given, strlen(given)), *name = NULL, *value = NULL;
    c->shares = arena_alloc(&c->arena, count_pairs(given) * sizeof(*c->shares));
    if (!at || !c->shares)
        return fail_memory(reterr, "reading the options");
    double sum = 0;
    do {
        struct pack_share *share = &c->shares[c->share_count];
        pst_status st = next_pair(&at, &name, &value, "split", reterr);
        if (st == PST_OK)
            st = read_share(share, name, value, reterr);
        if (st < 0)
            return st;
        for (size_t i = 0; i < c->share_count; i++)
            if (strcmp(c->shares[i].name, name) == 0)
                return pst_fail(reterr, PST_EINVAL, "split: \"%s\" is named twice", name);
        share->upto = sum += share->share;
        c->share_count++;
    } while (*at);
    if (fabs(sum - 1) > 1e-6)
        return pst_fail(reterr, PST_EINVAL, "split: the shares sum to %g; they must sum to 1", sum);
    c->shares[c->share_count - 1].upto = INFINITY; /* whatever rounding left over */
    return PST_OK;
}

static pst_status read_renames(struct pack_config *c, pst_error *reterr)
{
    const char *given = c->options.features;
    if (!given || !*given)
        return PST_OK;
    char *at = arena_strndup(&c->arena, given, strlen(given)), *name = NULL, *value = NULL;
    c->renames = arena_alloc(&c->arena, count_pairs(given) * sizeof(*c->renames));
    if (!at || !c->renames)
        return fail_memory(reterr, "reading the options");
    do {
        pst_status st = next_pair(&at, &name, &value, "features", reterr);
        if (st < 0)
            return st;
        for (size_t i = 0; i < c->rename_count; i++)
            if (strcmp(c->renames[i].from, name) == 0)
                return pst_fail(reterr, PST_EINVAL, "features: \"%s\" is named twice", name);
        c->renames[c->rename_count++] = (struct pack_rename){name, value};
    } while (*at);
    return PST_OK;
}

static bool read_side(uint32_t *ret, const char **s)
{
    uint64_t value = 0;
    const char *at = *s;
    while (is_digit(*at) && value <= MAX_SIDE)
        value = value * 10 + (uint64_t)(*at++ - '0');
    bool ok = at != *s && value > 0 && value <= MAX_SIDE;
    *ret = (uint32_t)value;
    *s = at;
    return ok;
}

static pst_status read_resize(struct pack_config *c, pst_error *reterr)
{
    const char *s = c->options.resize;
    if (!s)
        return PST_OK;
    uint32_t first = 0;
    bool ok = read_side(&first, &s);
    if (ok && *s == 0) {
        c->short_side = first;
        return PST_OK;
    }
    ok = ok && (*s == 'x' || *s == 'X');
    s += ok;
    c->width = first;
    if (!ok || !read_side(&c->height, &s) || *s)
        return pst_fail(reterr, PST_EINVAL,
                        "resize \"%s\": expected a short side as in 256, or WIDTHxHEIGHT as in 320x240 (1 to %u)",
                        c->options.resize, MAX_SIDE);
    return PST_OK;
}

/* Which levels there are, the compressor knows. */
static pst_status check_level(const pst_pack_options *o, pst_error *reterr)
{
    struct compressor *c = NULL;
    pst_status st = compressor_create(&c, o->compression, o->level, reterr);
    compressor_destroy(c);
    return st;
}

static pst_status check_numbers(pst_pack_options *o, pst_error *reterr)
{
    if (o->shards > MAX_SHARDS)
        return pst_fail(reterr, PST_EINVAL, "shards: %" PRIu32 " is above %u", o->shards, MAX_SHARDS);
    if (o->quality < 0 || o->quality > 100)
        return pst_fail(reterr, PST_EINVAL, "quality: %d is not within 1 to 100", o->quality);
    if (o->channels != 0 && o->channels != 1 && o->channels != 3)
        return pst_fail(reterr, PST_EINVAL, "channels: %" PRIu32 "; expected 1 (gray) or 3 (RGB)", o->channels);
    if (o->format == PST_IMAGE_GIF || o->format == PST_IMAGE_BMP || o->format >= PST_IMAGE_FORMATS)
        return pst_fail(reterr, PST_EINVAL, "format: images are written as jpeg, png, webp, raw or yuv420");
    if (o->augment > MAX_AUGMENT)
        return pst_fail(reterr, PST_EINVAL, "augment: %" PRIu32 " is above %u copies", o->augment, MAX_AUGMENT);
    if (o->workers > MAX_WORKERS)
        return pst_fail(reterr, PST_EINVAL, "workers: %u is above %u", o->workers, MAX_WORKERS);
    if (o->part > o->parts || (o->parts && !o->part) || o->parts > MAX_SHARDS)
        return pst_fail(reterr, PST_EINVAL,
                        "part %" PRIu32 "/%" PRIu32 ": expected a part from 1 to the number of parts (at most %u)", o->part,
                        o->parts, MAX_SHARDS);
    if (o->part && o->join)
        return pst_fail(reterr, PST_EINVAL, "part and join exclude each other; join once after all parts");
    if (o->compression > PST_COMPRESSION_ZSTD)
        return pst_fail(reterr, PST_EINVAL, "compression: unknown");
    if (!o->shard_size)
        o->shard_size = DEFAULT_SHARD_SIZE;
    if (!o->workers)
        o->workers = cpu_cores();
    if (o->compression == PST_COMPRESSION_AUTO)
        o->compression = PST_COMPRESSION_NONE;
    if (!o->version)
        o->version = "1.0.0";
    return o->compression == PST_COMPRESSION_NONE ? PST_OK : check_level(o, reterr);
}

/* TFDS reads versions as three numbers. */
static pst_status check_version(const char *version, pst_error *reterr)
{
    unsigned numbers = 0;
    const char *at = version;
    while (is_digit(*at)) {
        while (is_digit(*at))
            at++;
        numbers++;
        if (*at == '.' && numbers < 3)
            at++;
        else
            break;
    }
    if (numbers != 3 || *at)
        return pst_fail(reterr, PST_EINVAL, "version \"%s\": expected three numbers as in 1.0.0", version);
    return PST_OK;
}

char *pack_part_folder(const char *out, uint32_t part, uint32_t parts)
{
    char name[sizeof("part-00003-of-00064") + 12];
    snprintf(name, sizeof(name), PACK_PART_PRINT, part, parts);
    return file_join(out, name);
}

static pst_status choose_folder(struct pack_config *c, pst_error *reterr)
{
    const pst_pack_options *o = &c->options;
    c->whole = c->shard_folder = c->out;
    if (!o->part)
        return PST_OK;
    char *folder = pack_part_folder(c->whole, o->part, o->parts);
    c->out = folder ? arena_strndup(&c->arena, folder, strlen(folder)) : NULL;
    mem_free(folder);
    if (!remote_is(c->whole))
        c->shard_folder = c->out;
    return c->out ? PST_OK : fail_memory(reterr, "reading the options");
}

pst_status pack_config_init(struct pack_config *c, const char *out, const pst_pack_options *options, pst_error *reterr)
{
    memset(c, 0, sizeof(*c));
    arena_init(&c->arena);
    pst_status st = options_take(&c->options, sizeof(c->options), options, reterr);
    if (st < 0)
        goto fail;
    c->out = out;
    pst_pack_options *o = &c->options;
    if (!keep(c, &c->out) || !keep(c, &o->from) || !keep(c, &o->columns) || !keep(c, &o->name) || !keep(c, &o->version) ||
        !keep(c, &o->features) || !keep(c, &o->split) || !keep(c, &o->resize)) {
        st = fail_memory(reterr, "reading the options");
        goto fail;
    }
    st = check_numbers(o, reterr);
    if (st == PST_OK && o->bad)
        st = pst_policy_parse(&c->bad, o->bad, reterr);
    o->bad = NULL; /* the caller's text */
    if (st == PST_OK)
        st = check_version(o->version, reterr);
    if (st == PST_OK)
        st = read_name(c, reterr);
    if (st == PST_OK)
        st = read_split(c, reterr);
    if (st == PST_OK)
        st = read_renames(c, reterr);
    if (st == PST_OK)
        st = read_resize(c, reterr);
    if (st == PST_OK && (o->part || o->join) && o->force && remote_is(c->out))
        st = pst_fail_at(reterr, PST_EUNSUPPORTED, c->out, PST_NOWHERE, PST_NOWHERE,
                         "in a store, one part cannot tell the output of other commands from that of the other parts; remove what is "
                         "there and pack without force");
    if (st == PST_OK)
        st = choose_folder(c, reterr);
    if (st == PST_OK)
        return PST_OK;
fail:
    pack_config_finish(c);
    return st;
}

void pack_config_finish(struct pack_config *c)
{
    arena_finish(&c->arena);
    memset(c, 0, sizeof(*c));
}

bool pack_config_touches_images(const struct pack_config *c)
{
    const pst_pack_options *o = &c->options;
    return o->resize || o->format != PST_IMAGE_UNKNOWN || o->quality || o->channels || o->augment;
}

bool pack_config_keeps_entropy(const struct pack_config *c)
{
    return c->options.entropy && c->options.compression == PST_COMPRESSION_NONE;
}

static void describe_text(struct text *t, const char *name, const char *value)
{
    text_addf(t, "    \"%s\": ", name);
    text_add_json(t, value ? value : "", value ? strlen(value) : 0);
    text_add(t, ",\n");
}

static void describe_number(struct text *t, const char *name, uint64_t value)
{
    text_addf(t, "    \"%s\": \"%" PRIu64 "\",\n", name, value);
}

void pack_config_describe(const struct pack_config *c, struct text *t)
{
    const pst_pack_options *o = &c->options;
    char delimiter[2] = {o->delimiter, 0};
    describe_text(t, "columns", o->columns);
    describe_text(t, "delimiter", delimiter);
    describe_text(t, "header", o->no_header ? "no" : "yes");
    describe_text(t, "name", c->name);
    describe_text(t, "version", o->version);
    describe_text(t, "features", o->features);
    describe_number(t, "shards", o->shards);
    describe_number(t, "shard_size", o->shard_size);
    describe_text(t, "split", o->split);
    describe_text(t, "shuffle", o->shuffle ? "yes" : "no");
    describe_number(t, "seed", o->shuffle || o->augment ? o->seed : 0);
    describe_text(t, "compression", pst_compression_name(o->compression));
    describe_number(t, "level", (uint64_t)(int64_t)o->level);
    describe_text(t, "resize", o->resize);
    describe_text(t, "format", o->format == PST_IMAGE_UNKNOWN ? "" : pst_image_format_name(o->format));
    describe_number(t, "quality", (uint64_t)o->quality);
    describe_number(t, "channels", o->channels);
    describe_number(t, "augment", o->augment);
}
