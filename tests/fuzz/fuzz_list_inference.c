/* fuzz_list_inference.c: any bytes as a SequenceExample whose feature lists are inferred. The inferred schema reads the message
 * that it came from, a second look at the message does not change it, and a message without lists makes every fixed list
 * optional. */
#include "expect.h"

#include "base/memory.h"
#include "record/list_inference.h"

#include <penstock/example.h>
#include <string.h>

static void check_parses(const pst_schema *lists, const uint8_t *data, size_t size)
{
    pst_error error;
    pst_schema *context;
    pst_sequence_parser *parser;
    size_t count = pst_schema_count(lists);
    pst_column *columns = calloc(count + 1, sizeof(*columns));
    pst_value values[1];
    EXPECT(columns && pst_schema_create(&context, NULL, 0, &error) == PST_OK);
    EXPECT(pst_sequence_parser_create(&parser, context, lists, NULL, &error) == PST_OK);
    pst_status st = pst_sequence_parser_parse(parser, data, size, values, columns, &error);
    EXPECT(st == PST_OK || st == PST_ECORRUPT); /* the context is not the inference's concern */
    for (size_t i = 0; st == PST_OK && i < count; i++)
        EXPECT(columns[i].values.kind == pst_schema_feature(lists, i)->kind);
    pst_sequence_parser_destroy(parser);
    pst_schema_destroy(context);
    free(columns);
}

static void check_optional(const pst_schema *lists)
{
    for (size_t i = 0; i < pst_schema_count(lists); i++) {
        const pst_feature *f = pst_schema_feature(lists, i);
        EXPECT(f->kind != PST_KIND_NONE && f->name && (f->layout == PST_FIXED || f->layout == PST_VARIABLE));
        EXPECT(f->layout != PST_FIXED || f->has_default);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pst_error error;
    struct list_inference inference = {0};
    uint64_t before = mem_live();
    pst_status st = list_inference_add(&inference, data, size, &error);
    EXPECT(st == PST_OK || st == PST_ECORRUPT || st == PST_ETYPE || st == PST_EUNSUPPORTED || st == PST_ELIMIT);
    if (st == PST_OK) {
        pst_schema *once, *again, *optional;
        EXPECT(list_inference_schema(&inference, &once, &error) == PST_OK);
        EXPECT(list_inference_add(&inference, data, size, &error) == PST_OK);
        EXPECT(list_inference_schema(&inference, &again, &error) == PST_OK);
        EXPECT(list_inference_add(&inference, "", 0, &error) == PST_OK);
        EXPECT(list_inference_schema(&inference, &optional, &error) == PST_OK);
        EXPECT(pst_schema_count(once) == pst_schema_count(again) && pst_schema_count(once) == pst_schema_count(optional));
        check_parses(once, data, size);
        check_optional(optional);
        pst_schema_destroy(once);
        pst_schema_destroy(again);
        pst_schema_destroy(optional);
    }
    list_inference_finish(&inference);
    EXPECT(mem_live() == before);
    return 0;
}
