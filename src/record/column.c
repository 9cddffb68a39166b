/* column.c: see column.h. */
#include "record/column.h"

#include "base/memory.h"

bool column_reset(struct column *c, pst_kind kind)
{
    void *splits = c->splits;
    bool ok = mem_grow(&splits, &c->splits_capacity, 1, sizeof(*c->splits)) == 0;
    c->splits = splits;
    c->rows = 0;
    feature_reset(&c->values);
    c->values.kind = kind;
    if (ok)
        c->splits[0] = 0;
    return ok;
}

bool column_add_row(struct column *c, const void *values, size_t count, uint64_t inner)
{
    void *splits = c->splits;
    bool ok = mem_grow(&splits, &c->splits_capacity, c->rows + 2, sizeof(*c->splits)) == 0;
    c->splits = splits;
    if (!ok || !feature_append(&c->values, values, count))
        return false;
    c->splits[++c->rows] = (int64_t)(c->values.count / inner);
    return true;
}

pst_column column_view(const struct column *c, bool present)
{
    return (pst_column){{c->values.kind, present, c->values.count, c->values.data}, c->rows, c->splits};
}

void column_finish(struct column *c)
{
    mem_free(c->splits);
    feature_finish(&c->values);
    *c = (struct column){0};
}
