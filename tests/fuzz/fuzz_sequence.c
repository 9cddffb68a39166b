/* fuzz_sequence.c: any bytes as a SequenceExample. What is accepted keeps its promises: splits rise and end with the
 * values, fixed lists have their shape in every step. */
#include "expect.h"

#include <penstock/example.h>

#define LISTS "f:float[2]=[] i:int64[*] s:bytes[*] r:float[*,2]"
#define COUNT 4

static void check_column(const pst_column *c, const pst_feature *f)
{
    size_t inner = f->layout == PST_RAGGED ? 2 : 1;
    EXPECT(c->values.kind == f->kind && c->row_splits && c->row_splits[0] == 0);
    for (size_t i = 0; i < c->rows; i++) {
        EXPECT(c->row_splits[i] <= c->row_splits[i + 1]);
        EXPECT(f->layout != PST_FIXED || c->row_splits[i + 1] - c->row_splits[i] == 2);
    }
    EXPECT((size_t)c->row_splits[c->rows] * inner == c->values.count);
    uint64_t sum = 0; /* every byte that a value points to is readable */
    for (size_t i = 0; i < c->values.count; i++) {
        const pst_bytes *b = f->kind == PST_BYTES ? (const pst_bytes *)c->values.data + i : NULL;
        for (size_t k = 0; b && k < b->length; k++)
            sum += b->data[k];
    }
    EXPECT(sum != UINT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pst_error error;
    pst_schema *context, *lists;
    pst_sequence_parser *parser;
    pst_value values[2];
    pst_column columns[COUNT];
    EXPECT(pst_schema_parse(&context, "c:int64=3 d:bytes[*]", &error) == PST_OK);
    EXPECT(pst_schema_parse(&lists, LISTS, &error) == PST_OK);
    EXPECT(pst_sequence_parser_create(&parser, context, lists, NULL, &error) == PST_OK);
    if (pst_sequence_parser_parse(parser, data, size, values, columns, &error) == PST_OK) {
        EXPECT(values[0].kind == PST_INT64 && values[0].count == 1 && values[1].kind == PST_BYTES);
        for (size_t i = 0; i < COUNT; i++)
            check_column(&columns[i], pst_schema_feature(lists, i));
    }
    pst_sequence_parser_destroy(parser);
    pst_schema_destroy(lists);
    pst_schema_destroy(context);
    return 0;
}
