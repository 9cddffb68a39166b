/* fuzz_example.c: any bytes as an Example. Parsing, walking, inferring and building must agree on what they mean:
 *
 *   walk takes it      → infer takes it, unless a name holds a NUL; parse finds no damage and has the same values
 *   infer takes it     → the inferred schema parses it, with the same values
 *   parse takes it     → a batch of it twice has its values twice
 *   names are UTF-8    → built anew from the walk, it walks the same */
#include "expect.h"

#include <penstock/example.h>

#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define SCHEMA                                                                                                                 \
    "x:float[2] y:int64 s:bytes[*] r:float[*,2] d:int64[3]=7 \"\":bytes[*] image/encoded:bytes[*] image/format:bytes=jpeg"
#define FEATURES 8

static bool same_values(const pst_value *a, const pst_value *b)
{
    if (a->kind != b->kind || a->count != b->count)
        return false;
    if (a->count == 0)
        return true;
    if (a->kind != PST_BYTES)
        return memcmp(a->data, b->data, a->count * (a->kind == PST_INT64 ? 8 : 4)) == 0;
    const pst_bytes *x = a->data, *y = b->data;
    for (size_t i = 0; i < a->count; i++)
        if (x[i].length != y[i].length || (x[i].length && memcmp(x[i].data, y[i].data, x[i].length) != 0))
            return false;
    return true;
}

static const pst_value *find(const pst_named_value *named, size_t count, pst_bytes name)
{
    for (size_t i = 0; i < count; i++)
        if (named[i].name.length == name.length && memcmp(named[i].name.data, name.data, name.length) == 0)
            return &named[i].value;
    return NULL;
}

/* The parsed values are those of the walk. */
static void check_values(const pst_schema *schema, const pst_value *values, const pst_named_value *named, size_t count)
{
    for (size_t i = 0; i < pst_schema_count(schema); i++) {
        const char *name = pst_schema_feature(schema, i)->name;
        const pst_value *walked = find(named, count, (pst_bytes){(const uint8_t *)name, strlen(name)});
        EXPECT(values[i].present == (walked && walked->present));
        if (values[i].present)
            EXPECT(same_values(&values[i], walked));
    }
}

static void check_inferred(const pst_inference *inference, const uint8_t *data, size_t size, const pst_named_value *named,
                           size_t count)
{
    pst_error error;
    pst_schema *schema;
    pst_parser *parser;
    EXPECT(pst_inference_schema(inference, &schema, &error) == PST_OK);
    EXPECT(pst_parser_create(&parser, schema, NULL, &error) == PST_OK);
    pst_value *values = calloc(pst_schema_count(schema) + 1, sizeof(*values));
    EXPECT(pst_parser_parse(parser, data, size, values, &error) == PST_OK);
    check_values(schema, values, named, count);
    free(values);
    pst_parser_destroy(parser);
    pst_schema_destroy(schema);
}

static void check_rebuilt(const pst_named_value *named, size_t count)
{
    pst_error error;
    pst_builder *builder;
    pst_parser *parser;
    pst_bytes message;
    const pst_named_value *again;
    size_t again_count, added = 0;
    EXPECT(pst_builder_create(&builder, &error) == PST_OK);
    EXPECT(pst_parser_create(&parser, NULL, NULL, &error) == PST_OK);
    for (size_t i = 0; i < count; i++) {
        const pst_value *v = &named[i].value;
        char *name = strndup((const char *)named[i].name.data, named[i].name.length);
        pst_status st = PST_OK;
        float *aligned = calloc(v->count + 1, sizeof(*aligned));
        if (v->kind == PST_FLOAT && v->count > 0)
            memcpy(aligned, v->data, v->count * sizeof(*aligned));
        if (v->kind == PST_BYTES)
            st = pst_builder_add_bytes(builder, name, v->data, v->count, &error);
        else if (v->kind == PST_FLOAT)
            st = pst_builder_add_floats(builder, name, aligned, v->count, &error);
        else if (v->kind == PST_INT64)
            st = pst_builder_add_int64s(builder, name, v->data, v->count, &error);
        EXPECT(st == PST_OK);
        added += v->present;
        free(aligned);
        free(name);
    }
    EXPECT(pst_builder_finish(builder, &message, &error) == PST_OK);
    EXPECT(pst_parser_walk(parser, message.data, message.length, &again, &again_count, &error) == PST_OK);
    EXPECT(again_count == added);
    for (size_t i = 0; i < again_count; i++) {
        const pst_value *v = find(named, count, again[i].name);
        EXPECT(v && same_values(v, &again[i].value));
    }
    pst_parser_destroy(parser);
    pst_builder_destroy(builder);
}

static void check_batch(pst_parser *parser, const uint8_t *data, size_t size, const pst_value *values)
{
    pst_error error;
    pst_column columns[FEATURES];
    size_t counts[FEATURES];
    for (size_t i = 0; i < FEATURES; i++)
        counts[i] = values[i].count; /* the values themselves are gone with the next call */
    EXPECT(pst_parser_parse_batch(parser, (pst_bytes[]){{data, size}, {data, size}}, 2, columns, &error) == PST_OK);
    for (size_t i = 0; i < FEATURES; i++) {
        EXPECT(columns[i].rows == 2 && columns[i].values.count == 2 * counts[i]);
        EXPECT(!columns[i].row_splits || columns[i].row_splits[1] * 2 == columns[i].row_splits[2]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pst_error error;
    pst_schema *schema;
    pst_parser *parser, *walker;
    pst_inference *inference;
    pst_value values[FEATURES];
    const pst_named_value *named = NULL;
    size_t count = 0;
    EXPECT(pst_schema_parse(&schema, SCHEMA, &error) == PST_OK && pst_schema_count(schema) == FEATURES);
    EXPECT(pst_parser_create(&parser, schema, NULL, &error) == PST_OK);
    EXPECT(pst_parser_create(&walker, NULL, NULL, &error) == PST_OK);
    EXPECT(pst_inference_create(&inference, NULL, &error) == PST_OK);

    pst_status parsed = pst_parser_parse(parser, data, size, values, &error);
    pst_status walked = pst_parser_walk(walker, data, size, &named, &count, &error);
    pst_status inferred = pst_inference_add(inference, data, size, &error);
    bool nul = false, utf8 = true;
    for (size_t i = 0; walked == PST_OK && i < count; i++) {
        nul |= memchr(named[i].name.data, '\0', named[i].name.length) != NULL;
        utf8 &= text_is_utf8(named[i].name.data, named[i].name.length);
    }
    EXPECT(inferred == (nul ? PST_EUNSUPPORTED : walked));
    if (walked == PST_OK) {
        EXPECT(parsed == PST_OK || parsed == PST_ETYPE || parsed == PST_ENOTFOUND);
        if (parsed == PST_OK)
            check_values(schema, values, named, count);
        if (!nul)
            check_inferred(inference, data, size, named, count);
        if (!nul && utf8)
            check_rebuilt(named, count);
    }
    if (parsed == PST_OK)
        check_batch(parser, data, size, values);

    pst_inference_destroy(inference);
    pst_parser_destroy(walker);
    pst_parser_destroy(parser);
    pst_schema_destroy(schema);
    return 0;
}
