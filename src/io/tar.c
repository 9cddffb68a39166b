/* tar.c: from header to header through a tar archive.
 *
 * Promises: every header's checksum is verified and every reported member lies inside the file; names are keys, free of NUL
 * and at most 1 MiB long, never paths that anything is written to; memory is bounded. Leaves to others: reading the members.
 * Layout: a 512-byte header, then the data padded to 512; long names and sizes are in separate headers before it (pax 'x'
 * and 'g', GNU 'L'). */
#include "io/tar.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"

#include <inttypes.h>
#include <string.h>

#define BLOCK         512u
#define EXTENSION_MAX ((uint64_t)1 << 20) /* of one pax header or long name */

/* Fields of a pax header that apply to the members after it. */
struct pax {
    char *path; /* NULL: nothing */
    bool has_size, sparse;
    uint64_t size;
};

struct tar_walk {
    int fd;
    char *own_path;      /* NULL: `path` belongs to the caller */
    const char *path;
    const uint8_t *data; /* of an archive in memory, whose first byte is at offset `base`; NULL: it is a file */
    uint64_t base;
    bool ran_short;      /* the last failure: the archive ends too early */
    uint64_t file_size;  /* its end */
    uint64_t start;      /* of the first header of the current member */
    uint64_t next;          /* where the next header starts */
    uint8_t header[BLOCK];  /* the current one… */
    uint64_t header_offset; /* …and its place */
    struct pax global, local;
    char *long_name; /* of a GNU 'L' header; NULL: none */
    char *name;      /* name of the last member returned */
    size_t name_size;
};

static pst_status corrupt(const struct tar_walk *w, pst_error *reterr, const char *what)
{
    return pst_fail_at(reterr, PST_ECORRUPT, w->path, PST_NOWHERE, w->header_offset, "tar: %s", what);
}

/* The archive ends before what a header promises. */
static pst_status cut_short(struct tar_walk *w, pst_error *reterr, const char *what)
{
    w->ran_short = true;
    return corrupt(w, reterr, what);
}

static pst_status no_memory(const struct tar_walk *w, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_ENOMEM, w->path, PST_NOWHERE, w->header_offset, "tar: out of memory");
}

pst_status tar_walk_open(struct tar_walk **ret, int fd, const char *path, pst_error *reterr)
{
    struct file_info info;
    pst_status st = file_fstat(fd, path, &info, reterr);
    if (st != PST_OK)
        return st;
    if (!info.is_regular)
        return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE, "tar: not a regular file; save it as one first");
    struct tar_walk *w = mem_zalloc(sizeof(*w));
    if (w)
        w->path = w->own_path = mem_strdup(path);
    if (!w || !w->path) {
        tar_walk_close(w);
        return fail_memory_at(reterr, path, "tar");
    }
    w->fd = fd;
    w->file_size = info.size;
    *ret = w;
    return PST_OK;
}

pst_status tar_walk_create(struct tar_walk **ret, const char *path, pst_error *reterr)
{
    struct tar_walk *w = mem_zalloc(sizeof(*w));
    if (!w)
        return fail_memory_at(reterr, path, "tar");
    w->fd = -1;
    w->path = path;
    *ret = w;
    return PST_OK;
}

bool tar_walk_ran_short(const struct tar_walk *w)
{
    return w->ran_short;
}

/* Reads `length` bytes at `offset`, or fewer at the end. */
static pst_status read_at(struct tar_walk *w, void *to, size_t length, uint64_t offset, size_t *ret_got, pst_error *reterr)
{
    if (!w->data)
        return file_read_at(w->fd, w->path, to, length, offset, ret_got, reterr);
    uint64_t left = offset < w->file_size ? w->file_size - offset : 0;
    *ret_got = left < length ? (size_t)left : length;
    if (*ret_got)
        memcpy(to, w->data + (offset - w->base), *ret_got);
    return PST_OK;
}

static void pax_clear(struct pax *p)
{
    mem_free(p->path);
    *p = (struct pax){0};
}

struct tar_walk *tar_walk_close(struct tar_walk *w)
{
    if (w) {
        pax_clear(&w->global);
        pax_clear(&w->local);
        mem_free(w->long_name);
        mem_free(w->name);
        mem_free(w->own_path);
    }
    mem_free(w);
    return NULL;
}

/* ---- Headers ---- */

/* A field (12 bytes at most) of octal digits, or of GNU's base-256 (top bit set, then big-endian). False: neither, or
 * over 64 bits. */
static bool parse_number(const uint8_t *field, size_t length, uint64_t *ret)
{
    uint64_t value = 0;
    if (field[0] & 0x80) {
        for (size_t i = 0; i < length; i++) {
            if (value >> 56)
                return false; /* negative numbers, too, end here: their upper bytes are 0xff */
            value = value << 8 | (i ? field[i] : field[i] & 0x7f);
        }
        *ret = value;
        return true;
    }
    size_t i = 0;
    while (i < length && field[i] == ' ')
        i++;
    for (; i < length && field[i] >= '0' && field[i] <= '7'; i++)
        value = value << 3 | (uint64_t)(field[i] - '0');
    *ret = value;
    return i == length || field[i] == 0 || field[i] == ' ';
}

/* Old writers summed signed bytes; both sums are in use. */
static bool checksum_matches(const uint8_t *header)
{
    uint64_t stored;
    uint32_t plain = 0;
    int32_t signed_sum = 0;
    for (size_t i = 0; i < BLOCK; i++) {
        uint8_t byte = i >= 148 && i < 156 ? ' ' : header[i];
        plain += byte;
        signed_sum += (int8_t)byte;
    }
    return parse_number(header + 148, 8, &stored) && (stored == plain || (signed_sum >= 0 && stored == (uint32_t)signed_sum));
}

static bool is_zero(const uint8_t *data, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (data[i])
            return false;
    return true;
}

static pst_status bad_checksum(const struct tar_walk *w, pst_error *reterr)
{
    const uint8_t *h = w->header;
    if (w->header_offset)
        return corrupt(w, reterr, "the header's checksum is wrong: the archive is damaged here");
    if (h[0] == 0x1f && h[1] == 0x8b)
        return corrupt(w, reterr, "this is gzip-compressed, not a plain tar; decompress it first");
    return corrupt(w, reterr, "the first header's checksum is wrong: damaged, or not a tar archive");
}

/* Reads the next header that is not zero; END after the last. */
static pst_status read_header(struct tar_walk *w, pst_error *reterr)
{
    for (unsigned zeros = 0; zeros < 2; zeros++) {
        size_t got = 0;
        w->header_offset = w->next;
        pst_status st = read_at(w, w->header, BLOCK, w->next, &got, reterr);
        if (st != PST_OK)
            return st;
        w->ran_short = got < BLOCK;
        if (got < BLOCK) {
            if (is_zero(w->header, got))
                return PST_END;
            return cut_short(w, reterr, "the file ends inside a header: it is truncated");
        }
        w->next += BLOCK;
        if (!is_zero(w->header, BLOCK))
            return checksum_matches(w->header) ? PST_OK : bad_checksum(w, reterr);
    }
    return PST_END;
}

/* Moves `next` past the `size` bytes of data at it. */
static pst_status step_over(struct tar_walk *w, uint64_t size, pst_error *reterr)
{
    uint64_t left = w->next < w->file_size ? w->file_size - w->next : 0;
    w->ran_short = size > left;
    if (size > left)
        return pst_fail_at(reterr, PST_ECORRUPT, w->path, PST_NOWHERE, w->header_offset,
                           "tar: a member of %" PRIu64 " bytes, but %" PRIu64 " are left: the file is truncated", size, left);
    w->next += (size + BLOCK - 1) / BLOCK * BLOCK;
    return PST_OK;
}

/* ---- Extensions ---- */

/* The data of the current header, NUL-terminated; the caller frees it. */
static pst_status read_extension(struct tar_walk *w, uint64_t size, char **ret, pst_error *reterr)
{
    uint64_t offset = w->next;
    size_t got = 0;
    pst_status st = step_over(w, size, reterr);
    if (st != PST_OK)
        return st;
    if (size > EXTENSION_MAX)
        return pst_fail_at(reterr, PST_ELIMIT, w->path, PST_NOWHERE, w->header_offset,
                           "tar: an extended header of %" PRIu64 " bytes; at most %" PRIu64 " are accepted", size,
                           EXTENSION_MAX);
    char *data = mem_alloc((size_t)size + 1);
    if (!data)
        return no_memory(w, reterr);
    st = read_at(w, data, (size_t)size, offset, &got, reterr);
    if (st == PST_OK && got < size)
        st = cut_short(w, reterr, "the file ends inside an extended header: it is truncated");
    if (st != PST_OK) {
        mem_free(data);
        return st;
    }
    data[size] = 0;
    *ret = data;
    return PST_OK;
}

static pst_status pax_set(struct tar_walk *w, struct pax *p, const char *key, size_t key_length, const char *value,
                          size_t length, pst_error *reterr)
{
    if (key_length == 4 && memcmp(key, "path", 4) == 0) {
        if (memchr(value, 0, length))
            return corrupt(w, reterr, "a NUL in a member's name");
        char *path = length ? mem_strndup(value, length) : NULL; /* an empty value takes an earlier one back */
        if (length && !path)
            return no_memory(w, reterr);
        mem_free(p->path);
        p->path = path;
    } else if (key_length == 4 && memcmp(key, "size", 4) == 0) {
        p->has_size = length > 0;
        p->size = 0;
        for (size_t i = 0; i < length; i++) {
            if (value[i] < '0' || value[i] > '9' || p->size > (UINT64_MAX - 9) / 10)
                return corrupt(w, reterr, "a pax size that is not a number of bytes");
            p->size = p->size * 10 + (uint64_t)(value[i] - '0');
        }
    } else if (key_length > 11 && memcmp(key, "GNU.sparse.", 11) == 0) {
        p->sparse = true;
    }
    return PST_OK;
}

/* Records "LENGTH KEY=VALUE\n", the length counting all of itself. */
static pst_status pax_parse(struct tar_walk *w, struct pax *p, const char *data, size_t length, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (size_t at = 0; st == PST_OK && at < length;) {
        size_t record = 0, i = at;
        if (data[at] == 0 && is_zero((const uint8_t *)data + at, length - at))
            break; /* some writers count the padding */
        for (; i < length && data[i] >= '0' && data[i] <= '9' && record <= length; i++)
            record = record * 10 + (size_t)(data[i] - '0');
        /* At least "= \n" must follow the digits. */
        if (i >= length || data[i] != ' ' || record > length - at || record < i + 3 - at || data[at + record - 1] != '\n')
            return corrupt(w, reterr, "a pax header with a record of the wrong length");
        const char *key = data + i + 1, *end = data + at + record - 1, *equals = memchr(key, '=', (size_t)(end - key));
        if (!equals)
            return corrupt(w, reterr, "a pax header with a record that has no '='");
        st = pax_set(w, p, key, (size_t)(equals - key), equals + 1, (size_t)(end - equals - 1), reterr);
        at += record;
    }
    return st;
}

static pst_status read_pax(struct tar_walk *w, struct pax *p, uint64_t size, pst_error *reterr)
{
    char *data = NULL;
    pst_status st = read_extension(w, size, &data, reterr);
    if (st == PST_OK)
        st = pax_parse(w, p, data, (size_t)size, reterr);
    mem_free(data);
    return st;
}

static pst_status read_long_name(struct tar_walk *w, uint64_t size, pst_error *reterr)
{
    char *data = NULL;
    pst_status st = read_extension(w, size, &data, reterr);
    if (st != PST_OK)
        return st;
    size_t length = strlen(data);
    if (!is_zero((const uint8_t *)data + length, (size_t)size - length))
        st = corrupt(w, reterr, "a NUL in a member's name");
    mem_free(st == PST_OK ? w->long_name : data);
    if (st == PST_OK)
        w->long_name = data;
    return st;
}

/* An old GNU sparse header may be followed by further maps of holes, each telling whether another comes. */
static pst_status skip_sparse_maps(struct tar_walk *w, pst_error *reterr)
{
    uint8_t map[BLOCK];
    size_t got = 0;
    for (bool more = w->header[482] != 0; more; more = map[504] != 0) {
        pst_status st = read_at(w, map, BLOCK, w->next, &got, reterr);
        if (st != PST_OK)
            return st;
        if (got < BLOCK)
            return cut_short(w, reterr, "the file ends inside a sparse member: it is truncated");
        w->next += BLOCK;
    }
    return PST_OK;
}

/* ---- Members ---- */

/* Keeps the name, by precedence: pax, GNU, the header's own (with its prefix, where the header is POSIX ustar). */
static bool keep_name(struct tar_walk *w)
{
    const char *h = (const char *)w->header;
    const char *extended = w->local.path ? w->local.path : w->long_name ? w->long_name : w->global.path;
    bool posix = memcmp(h + 257, "ustar", 6) == 0;
    size_t prefix = posix && !extended ? strnlen(h + 345, 155) : 0, start = prefix ? prefix + 1 : 0;
    size_t length = extended ? strlen(extended) : strnlen(h, 100);
    if (mem_grow((void **)&w->name, &w->name_size, start + length + 1, 1) < 0)
        return false;
    if (prefix) {
        memcpy(w->name, h + 345, prefix);
        w->name[prefix] = '/';
    }
    memcpy(w->name + start, extended ? extended : h, length);
    w->name[start + length] = 0;
    return true;
}

static void forget_extensions(struct tar_walk *w)
{
    pax_clear(&w->local);
    mem_free(w->long_name);
    w->long_name = NULL;
}

/* Handles a header that is not an extension. `*ret_told` is true when it is a regular file, returned in `ret`. */
static pst_status take_member(struct tar_walk *w, uint64_t size, struct tar_member *ret, bool *ret_told, pst_error *reterr)
{
    uint8_t type = w->header[156];
    bool regular = type == '0' || type == 0 || type == '7';
    bool sparse = w->local.sparse || w->global.sparse;
    pst_status st = type == 'S' ? skip_sparse_maps(w, reterr) : PST_OK;
    if (st != PST_OK)
        return st;
    if (w->local.has_size || w->global.has_size)
        size = w->local.has_size ? w->local.size : w->global.size;
    if (type >= '1' && type <= '6')
        size = 0; /* links, devices, folders and FIFOs have no data, whatever they say */
    uint64_t offset = w->next;
    st = step_over(w, size, reterr);
    if (st != PST_OK)
        return st;
    if (!keep_name(w))
        return no_memory(w, reterr);
    const char *name = w->name;
    forget_extensions(w);
    uint64_t start = w->start;
    w->start = w->next;
    size_t length = strlen(name);
    bool folder = length && name[length - 1] == '/'; /* as the oldest archives mark one */
    *ret_told = regular && !sparse && !folder;
    if (*ret_told)
        *ret = (struct tar_member){name, offset, size, start};
    return PST_OK;
}

void tar_walk_set(struct tar_walk *w, const char *path, const void *data, size_t length, uint64_t base)
{
    pax_clear(&w->global);
    forget_extensions(w);
    w->path = path;
    w->data = data;
    w->base = w->next = w->start = base;
    w->file_size = base + length;
    w->ran_short = false;
}

bool tar_walk_has_globals(const struct tar_walk *w)
{
    return w->global.path || w->global.has_size || w->global.sparse;
}

pst_status tar_walk_next(struct tar_walk *w, struct tar_member *ret, pst_error *reterr)
{
    pst_status st;
    for (bool told = false; !told;) {
        uint64_t size = 0;
        st = read_header(w, reterr);
        if (st == PST_OK && !parse_number(w->header + 124, 12, &size))
            st = corrupt(w, reterr, "a header whose size is not a number");
        if (st != PST_OK)
            return st;
        switch (w->header[156]) {
        case 'x':
        case 'X': /* Solaris' first draft of the same */
            pax_clear(&w->local);
            st = read_pax(w, &w->local, size, reterr);
            break;
        case 'g':
            st = read_pax(w, &w->global, size, reterr);
            break;
        case 'L':
            st = read_long_name(w, size, reterr);
            break;
        case 'K': /* the target of a link */
            st = step_over(w, size, reterr);
            break;
        default:
            st = take_member(w, size, ret, &told, reterr);
        }
        if (st != PST_OK)
            return st;
    }
    return PST_OK;
}

const char *tar_folder_of(const char *name, size_t *ret_length)
{
    const char *end = strrchr(name, '/'), *begin = end ? end : name;
    while (begin > name && begin[-1] != '/')
        begin--;
    size_t length = end ? (size_t)(end - begin) : 0;
    *ret_length = length == 1 && begin[0] == '.' ? 0 : length;
    return begin;
}
