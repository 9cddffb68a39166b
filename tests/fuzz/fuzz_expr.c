/* fuzz_expr.c: any text as an expression. Accepted text is bound to fields of every kind and computed, for a few values and for
 * many: no crash, the same values in any chunks. A refusal has a message. */
#include "expect.h"

#include "lang/expr.h"

#include <stdlib.h>
#include <string.h>

#define MANY 300 /* more than a chunk */

static const pst_field fields[] = {
    {.name = "a", .dtype = PST_DTYPE_I64, .alias = -1},
    {.name = "b", .dtype = PST_DTYPE_F32, .rank = 1, .shape = {MANY}, .alias = -1},
    {.name = "c", .dtype = PST_DTYPE_U8, .rank = 1, .shape = {MANY}, .alias = -1},
    {.name = "s", .dtype = PST_DTYPE_BYTES, .alias = -1},
    {.name = "e", .dtype = PST_DTYPE_F64, .rank = 1, .shape = {PST_ANY}, .alias = -1},
};

static void note_read(void *user, size_t field)
{
    EXPECT(field < sizeof(fields) / sizeof(*fields));
    ++*(size_t *)user;
}

static void check_values(const struct expr *e, const pst_tensor *in, size_t values)
{
    static uint64_t whole[MANY], part[EXPR_CHUNK];
    EXPECT(values <= MANY);
    for (size_t at = 0; at < values; at += EXPR_CHUNK) {
        size_t count = values - at < EXPR_CHUNK ? values - at : EXPR_CHUNK;
        EXPECT(expr_compute(e, in, at, count, whole + at, NULL) == PST_OK);
    }
    for (size_t at = 0; at < values; at += 7) {
        size_t count = values - at < 7 ? values - at : 7;
        EXPECT(expr_compute(e, in, at, count, part, NULL) == PST_OK);
        EXPECT(memcmp(part, whole + at, count * sizeof(*part)) == 0);
    }
}

static void check(const char *text)
{
    static float b[MANY];
    static uint8_t c[MANY];
    int64_t a = -7;
    pst_bytes s = {(const uint8_t *)"n01440764", 9};
    for (size_t i = 0; i < MANY; i++) {
        b[i] = (float)i * 0.5f - 20;
        c[i] = (uint8_t)i;
    }
    pst_spec spec = {.count = sizeof(fields) / sizeof(*fields), .field = fields};
    pst_tensor in[] = {{.dtype = PST_DTYPE_I64, .data = &a},
                       {.dtype = PST_DTYPE_F32, .rank = 1, .shape = {MANY}, .data = b},
                       {.dtype = PST_DTYPE_U8, .rank = 1, .shape = {MANY}, .data = c},
                       {.dtype = PST_DTYPE_BYTES, .data = &s},
                       {.dtype = PST_DTYPE_F64, .rank = 1, .shape = {0}, .data = b}};
    static struct expr e;
    enum expr_type type;
    size_t shape, values, reads = 0;
    pst_error error = {0};
    pst_status st = expr_parse(&e, text, &error);
    if (st == PST_OK)
        st = expr_bind(&e, &spec, note_read, &reads, &type, &shape, &error);
    if (st == PST_OK && type != EXPR_BYTES)
        st = expr_check(&e, in, &values, &error);
    if (st < 0)
        EXPECT(error.message[0] && error.status == st);
    else if (type != EXPR_BYTES)
        check_values(&e, in, values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    EXPECT(text);
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    check(text);
    free(text);
    return 0;
}
