/* npy.c: the header of a .npy: a Python dict literal with exactly 'descr', 'fortran_order' and 'shape'.
 *
 * Promises: any spacing, quotes and order of the keys that Python would read; nothing else. An array is reported only if it
 * fits in the file, except that an array without elements may have dimensions of any size. Leaves to others: the elements. */
#include "io/npy.h"

#include "base/le.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAGIC       "\x93NUMPY"
#define MAGIC_BYTES 6u
#define MAX_RANK    (sizeof(((struct npy_header *)0)->shape) / sizeof(uint64_t))

struct parser {
    const char *at, *end;
    const char *path;
    size_t offset; /* of the literal, in the file */
    const char *begin;
    pst_error *reterr;
};

static pst_status expected(const struct parser *p, const char *what)
{
    char found[32];
    if (p->at == p->end)
        snprintf(found, sizeof(found), "its end");
    else
        snprintf(found, sizeof(found), *p->at >= ' ' && *p->at < 127 ? "'%c'" : "byte %d", (unsigned char)*p->at);
    return pst_fail_at(p->reterr, PST_ECORRUPT, p->path, PST_NOWHERE, p->offset + (size_t)(p->at - p->begin),
                       "npy: the header should have %s here, not %s", what, found);
}

static void skip_space(struct parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r'))
        p->at++;
}

/* Skips `c` and the spaces before it, if present. */
static bool take(struct parser *p, char c)
{
    skip_space(p);
    if (p->at == p->end || *p->at != c)
        return false;
    p->at++;
    return true;
}

static bool take_word(struct parser *p, const char *word)
{
    size_t n = strlen(word);
    skip_space(p);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n) != 0)
        return false;
    p->at += n;
    return true;
}

/* A short string in either quotes, without escapes. */
static bool take_string(struct parser *p, char *ret, size_t size)
{
    skip_space(p);
    if (p->at == p->end || (*p->at != '\'' && *p->at != '"'))
        return false;
    const char *start = p->at + 1, *close = memchr(start, *p->at, (size_t)(p->end - start));
    if (!close || (size_t)(close - start) >= size || memchr(start, '\\', (size_t)(close - start)))
        return false;
    memcpy(ret, start, (size_t)(close - start));
    ret[close - start] = 0;
    p->at = close + 1;
    return true;
}

static bool take_number(struct parser *p, uint64_t *ret)
{
    uint64_t value = 0;
    skip_space(p);
    const char *start = p->at;
    for (; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++)
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, (uint64_t)(*p->at - '0'), &value))
            return false;
    if (p->at == start)
        return false;
    if (p->at < p->end && *p->at == 'L') /* as Python 2 wrote its long integers */
        p->at++;
    *ret = value;
    return true;
}

static pst_status unsupported(const struct parser *p, const char *dtype, const char *remedy)
{
    return pst_fail_at(p->reterr, PST_EUNSUPPORTED, p->path, PST_NOWHERE, PST_NOWHERE, "npy: dtype %s is not supported; %s",
                       dtype, remedy);
}

/* '<f4', '|S10', … */
static pst_status parse_dtype(struct parser *p, struct npy_header *h)
{
    char dtype[24];
    skip_space(p);
    if (p->at < p->end && *p->at == '[')
        return unsupported(p, "with named fields", "save each field as an array of its own");
    if (!take_string(p, dtype, sizeof(dtype)))
        return expected(p, "a dtype such as '<f4'");
    struct parser q = {.at = dtype + 1, .end = dtype + strlen(dtype)};
    char order = dtype[0], kind = order && q.at < q.end ? *q.at++ : 0;
    if (kind == 'O')
        return unsupported(p, dtype, "objects are pickled: convert the array to numbers or fixed-length bytes (S)");
    uint64_t width = 0;
    if (!strchr("<>|=", order) || !kind || !take_number(&q, &width) || q.at != q.end)
        return unsupported(p, dtype, "convert the array to a plain number type first");
    bool known = kind == 'b'                  ? width == 1
                 : kind == 'i' || kind == 'u' ? width == 1 || width == 2 || width == 4 || width == 8
                 : kind == 'f'                ? width == 2 || width == 4 || width == 8
                 : kind == 'U'                ? width > 0 && width <= UINT32_MAX / 4
                                              : kind == 'S' && width > 0 && width <= UINT32_MAX;
    if (!known)
        return unsupported(p, dtype, "convert it with astype to bool, (u)int8 to 64, float16 to 64, S or U");
    width *= kind == 'U' ? 4 : 1; /* counted in characters */
    if (order == '|' && width > 1 && kind != 'S')
        return pst_fail_at(p->reterr, PST_ECORRUPT, p->path, PST_NOWHERE, PST_NOWHERE, "npy: dtype %s lacks its byte order",
                           dtype);
    h->kind = kind;
    h->width = (unsigned)width;
    h->swapped = order == '>' && width > 1 && kind != 'S';
    return PST_OK;
}

/* (), (3,), (3, 4) */
static pst_status parse_shape(struct parser *p, struct npy_header *h)
{
    bool comma = true;
    if (!take(p, '('))
        return expected(p, "a shape such as (3, 4)");
    for (h->rank = 0; !take(p, ')'); h->rank++) {
        uint64_t n;
        if (!comma || !take_number(p, &n))
            return expected(p, comma ? "a dimension" : "',' or ')'");
        if (h->rank == MAX_RANK)
            return pst_fail_at(p->reterr, PST_EUNSUPPORTED, p->path, PST_NOWHERE, PST_NOWHERE,
                               "npy: more than %zu dimensions; reshape the array", MAX_RANK);
        h->shape[h->rank] = n;
        comma = take(p, ',');
    }
    return h->rank == 1 && !comma ? expected(p, "a comma after the only dimension") : PST_OK;
}

static pst_status parse_value(struct parser *p, const char *key, struct npy_header *h)
{
    if (strcmp(key, "descr") == 0)
        return parse_dtype(p, h);
    if (strcmp(key, "shape") == 0)
        return parse_shape(p, h);
    h->fortran = take_word(p, "True");
    return h->fortran || take_word(p, "False") ? PST_OK : expected(p, "True or False");
}

static pst_status parse_dict(struct parser *p, struct npy_header *h)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    unsigned seen = 0;
    bool comma = true;
    if (!take(p, '{'))
        return expected(p, "'{'");
    while (!take(p, '}')) {
        char key[16];
        if (!comma)
            return expected(p, "',' or '}'");
        size_t k = 0;
        const char *at = (skip_space(p), p->at);
        bool is_key = take_string(p, key, sizeof(key));
        while (is_key && k < 3 && strcmp(key, keys[k]) != 0)
            k++;
        if (!is_key || k == 3 || (seen & 1u << k)) {
            p->at = at;
            return expected(p, "one of the keys 'descr', 'fortran_order', 'shape', each once,");
        }
        if (!take(p, ':'))
            return expected(p, "':'");
        pst_status st = parse_value(p, key, h);
        if (st != PST_OK)
            return st;
        seen |= 1u << k;
        comma = take(p, ',');
    }
    skip_space(p);
    while (p->at < p->end && *p->at == 0) /* some writers pad with NUL */
        p->at++;
    if (p->at != p->end)
        return expected(p, "nothing more");
    if (seen != 7)
        return expected(p, "all of the keys 'descr', 'fortran_order' and 'shape'");
    return PST_OK;
}

/* The product of the shape, against the bytes that are there. */
static pst_status check_size(struct npy_header *h, uint64_t file_size, const char *path, pst_error *reterr)
{
    uint64_t bytes = 0;
    bool overflow = false, empty = false;
    h->elements = 1;
    for (size_t i = 0; i < h->rank; i++) {
        empty |= h->shape[i] == 0;
        overflow |= __builtin_mul_overflow(h->elements, h->shape[i], &h->elements);
    }
    if (empty) {
        h->elements = 0;
        return PST_OK;
    }
    overflow |= __builtin_mul_overflow(h->elements, h->width, &bytes);
    if (overflow || bytes > file_size - h->data_offset)
        return pst_fail_at(reterr, PST_ECORRUPT, path, PST_NOWHERE, h->data_offset,
                           "npy: the shape asks for %s%" PRIu64 " bytes, %" PRIu64 " follow: truncated or damaged",
                           overflow ? "more than " : "", overflow ? UINT64_MAX : bytes, file_size - h->data_offset);
    return PST_OK;
}

pst_status npy_parse(struct npy_header *ret, const void *data, size_t length, uint64_t file_size, const char *path,
                     pst_error *reterr)
{
    const uint8_t *d = data;
    struct npy_header h = {0};
    if (length < 10 || memcmp(d, MAGIC, MAGIC_BYTES) != 0)
        return pst_fail_at(reterr, PST_ECORRUPT, path, PST_NOWHERE, 0, "npy: does not start like a NumPy array");
    unsigned version = d[MAGIC_BYTES];
    if (version < 1 || version > 3)
        return pst_fail_at(reterr, PST_EUNSUPPORTED, path, PST_NOWHERE, MAGIC_BYTES,
                           "npy: format version %u, where 1 to 3 are read", version);
    size_t start = version == 1 ? 10 : 12;
    uint64_t literal = version == 1 ? le16(d + 8) : length < start ? UINT64_MAX : le32(d + 8);
    if (start > file_size || literal > file_size - start)
        return pst_fail_at(reterr, PST_ECORRUPT, path, PST_NOWHERE, start, "npy: the header extends past the end: truncated");
    if (literal > length - start)
        return pst_fail_at(reterr, PST_ELIMIT, path, PST_NOWHERE, start,
                           "npy: a header of %" PRIu64 " bytes; at most %zu are accepted", literal, length - start);
    h.data_offset = start + literal;
    const char *begin = (const char *)d + start;
    struct parser p = {.at = begin, .end = begin + literal, .path = path, .offset = start, .begin = begin, .reterr = reterr};
    pst_status st = parse_dict(&p, &h);
    if (st == PST_OK)
        st = check_size(&h, file_size, path, reterr);
    if (st == PST_OK)
        *ret = h;
    return st;
}

/* ---- Elements ---- */

bool npy_text(const uint8_t *from, size_t width, bool swapped, uint8_t *to, size_t *ret_length)
{
    size_t n = 0, end = width / 4;
    while (end > 0 && le32(from + end * 4 - 4) == 0)
        end--;
    for (size_t i = 0; i < end; i++) {
        uint32_t c = swapped ? __builtin_bswap32(le32(from + i * 4)) : le32(from + i * 4);
        if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
            return false;
        if (c < 0x80) {
            to[n++] = (uint8_t)c;
            continue;
        }
        unsigned more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3; /* bytes after the first */
        to[n++] = (uint8_t)((0xf00u >> (more + 1) & 0xf0) | c >> (6 * more));
        while (more-- > 0)
            to[n++] = (uint8_t)(0x80 | (c >> (6 * more) & 0x3f));
    }
    *ret_length = n;
    return true;
}

void npy_gather(uint8_t *to, const uint8_t *first, size_t width, const uint64_t *shape, size_t rank, size_t stride)
{
    uint64_t index[MAX_RANK] = {0};
    size_t step[MAX_RANK] = {stride}, at = 0;
    for (size_t d = 0; d < rank; d++)
        if (shape[d] == 0)
            return;
    for (size_t d = 1; d < rank; d++)
        step[d] = step[d - 1] * (size_t)shape[d - 1];
    for (size_t d = rank; d != SIZE_MAX;) {
        memcpy(to, first + at, width);
        to += width;
        for (d = rank - 1; d != SIZE_MAX; d--) { /* counts up, the last dimension fastest */
            at += step[d];
            if (++index[d] < shape[d])
                break;
            at -= step[d] * (size_t)shape[d];
            index[d] = 0;
        }
    }
}
