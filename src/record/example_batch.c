/* example_batch.c: Examples one after the other into columns.
 *
 * Each Example is parsed on its own and its values are appended; a batch fails with its first bad Example, by number. */
#include "record/parser.h"

#include "base/error.h"
#include "base/memory.h"

static pst_status begin_batch(pst_parser *parser, pst_error *reterr)
{
    size_t count = parser->plan.count;
    bool ok = true;
    if (!parser->columns)
        parser->columns = mem_array(count, sizeof(*parser->columns));
    if (!parser->values)
        parser->values = mem_array(count, sizeof(*parser->values));
    ok = parser->columns && parser->values;
    for (size_t i = 0; ok && i < count; i++)
        ok = column_reset(&parser->columns[i], parser->plan.features[i].kind);
    return ok ? PST_OK : fail_memory(reterr, "allocating the columns of a batch");
}

static pst_status add_example(pst_parser *parser, const pst_bytes *example, size_t number, pst_error *reterr)
{
    pst_error why;
    pst_status st = pst_parser_parse(parser, example->data, example->length, parser->values, &why);
    if (st < 0)
        return pst_fail(reterr, st, "example %zu of the batch: %s", number, why.message);
    for (size_t i = 0; i < parser->plan.count; i++) {
        const struct planned *f = &parser->plan.features[i];
        const pst_value *v = &parser->values[i];
        if (!column_add_row(&parser->columns[i], v->data, v->count, f->layout == PST_RAGGED ? f->product : 1))
            return pst_fail(reterr, PST_ENOMEM, "example %zu of the batch: out of memory for feature '%s'", number, f->name);
    }
    return PST_OK;
}

pst_status pst_parser_parse_batch(pst_parser *parser, const pst_bytes *examples, size_t count, pst_column *columns,
                                  pst_error *reterr)
{
    pst_status st = begin_batch(parser, reterr);
    for (size_t i = 0; i < count && st == PST_OK; i++)
        st = add_example(parser, &examples[i], i, reterr);
    if (st < 0)
        return st;
    for (size_t i = 0; i < parser->plan.count; i++) {
        columns[i] = column_view(&parser->columns[i], true);
        if (parser->plan.features[i].layout == PST_FIXED)
            columns[i].row_splits = NULL;
    }
    return PST_OK;
}
