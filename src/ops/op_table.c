/* op_table.c: looking things up in the table of operations. */
#include "ops/op_table.h"

#include <string.h>

const pst_op_class *pst_op_at(size_t i)
{
    for (size_t at = 0; at < i; at++)
        if (!op_table[at].op)
            return plugin_op_at(i - at);
    return op_table[i].op ? op_table[i].op : plugin_op_at(0);
}

const pst_op_class *pst_op_find(const char *name)
{
    for (const struct op_entry *e = op_table; e->op; e++)
        if (strcmp(e->op->name, name) == 0)
            return e->op;
    for (size_t i = 0; plugin_op_at(i); i++)
        if (strcmp(plugin_op_at(i)->name, name) == 0)
            return plugin_op_at(i);
    return NULL;
}

static const struct op_entry *entry_of(const pst_op_class *op)
{
    const struct op_entry *e = op_table;
    while (e->op && e->op != op)
        e++;
    if (!e->op)
        for (e = op_unlisted; e->op && e->op != op;)
            e++;
    return e;
}

pst_op_kind pst_op_kind_of(const pst_op_class *op)
{
    const struct op_entry *e = entry_of(op);
    if (!e->op)
        return PST_OP_SAMPLE; /* the user's own */
    return e->decl ? e->decl->kind : PST_OP_SOURCE;
}

const struct op_decl *op_decl_of(const pst_op_class *op)
{
    return entry_of(op)->decl;
}
