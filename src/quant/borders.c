/* borders.c: which layers of a folded graph run in integers, which nodes they absorb, and which values are stored in 8 bits. */
#include "quant/quant.h"

#include "base/error.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *layer;
    enum quant_op op;
} rows[] = {
    {"conv", QUANT_OP_CONV},       {"dwconv", QUANT_OP_CONV},     {"dense", QUANT_OP_DENSE},
    {"add", QUANT_OP_ADD},         {"concat", QUANT_OP_CONCAT},   {"maxpool", QUANT_OP_MAXPOOL},
    {"avgpool", QUANT_OP_AVGPOOL}, {"flatten", QUANT_OP_FLATTEN}, {"globalavgpool", QUANT_OP_GLOBALAVGPOOL},
    {"relu", QUANT_OP_TABLE},      {"relu6", QUANT_OP_TABLE},     {"leaky", QUANT_OP_TABLE},
    {"gelu", QUANT_OP_TABLE},      {"silu", QUANT_OP_TABLE},      {"sigmoid", QUANT_OP_TABLE},
    {"tanh", QUANT_OP_TABLE},
};

static bool is_layer(const struct graph_node *n, const char *name)
{
    return strcmp(n->layer->name, name) == 0;
}

static enum quant_op op_of(const struct graph *g, size_t node)
{
    const struct graph_node *n = &g->nodes[node];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!is_layer(n, rows[i].layer))
            continue;
        if (rows[i].op == QUANT_OP_TABLE && node + 1 == g->count)
            return QUANT_OP_FLOAT; /* the result of the model is a float */
        return rows[i].op == QUANT_OP_DENSE && n->in[0].rank == 3 ? QUANT_OP_CONV : rows[i].op;
    }
    return QUANT_OP_FLOAT;
}

/* Makes relu or relu6 a part of the layer before it, if nothing else reads that. */
static void absorb_clamp(const struct graph *g, struct quant_borders *b, size_t node)
{
    struct quant_group *group = &b->groups[node];
    size_t next = node + 1;
    if (group->op != QUANT_OP_CONV && group->op != QUANT_OP_DENSE && group->op != QUANT_OP_ADD)
        return;
    if (next == g->count || b->readers[next] != 1 || g->nodes[next].input[0] != next ||
        (!is_layer(&g->nodes[next], "relu") && !is_layer(&g->nodes[next], "relu6")))
        return;
    group->out = next + 1;
    group->low = 0;
    group->high = is_layer(&g->nodes[next], "relu6") ? 6 : INFINITY;
    b->groups[next].op = QUANT_OP_NONE;
    b->forms[node + 1] = QUANT_INSIDE;
}

static bool read_by_integers(const struct graph *g, const struct quant_borders *b, size_t v)
{
    for (size_t i = v; i < g->count; i++)
        for (size_t k = 0; k < g->nodes[i].inputs; k++)
            if (g->nodes[i].input[k] == v && b->groups[i].op != QUANT_OP_FLOAT)
                return true;
    return false;
}

static bool may_be_float(enum quant_op op)
{
    return op == QUANT_OP_CONV || op == QUANT_OP_DENSE || op == QUANT_OP_FLOAT;
}

pst_status quant_borders_create(struct quant_borders *ret, const struct graph *g, pst_error *reterr)
{
    struct quant_borders b = {.groups = mem_array(g->count + 1, sizeof(*b.groups)),
                              .forms = mem_array(g->count + 1, sizeof(*b.forms)),
                              .readers = mem_array(g->count + 1, sizeof(*b.readers))};
    if (!b.groups || !b.forms || !b.readers) {
        quant_borders_finish(&b);
        return fail_memory(reterr, "quantising");
    }
    for (size_t i = 0; i < g->count; i++)
        for (size_t k = 0; k < g->nodes[i].inputs; k++)
            b.readers[g->nodes[i].input[k]]++;
    b.readers[g->count]++;
    for (size_t i = 0; i < g->count; i++)
        b.groups[i] = (struct quant_group){.op = op_of(g, i), .out = i + 1, .low = -INFINITY, .high = INFINITY};
    for (size_t v = 0; v <= g->count; v++)
        b.forms[v] = QUANT_U8;
    for (size_t i = 0; i < g->count; i++)
        absorb_clamp(g, &b, i);
    if (!read_by_integers(g, &b, 0))
        b.forms[0] = QUANT_FLOAT;
    for (size_t i = 0; i < g->count; i++)
        if (may_be_float(b.groups[i].op) && !read_by_integers(g, &b, b.groups[i].out))
            b.forms[b.groups[i].out] = QUANT_FLOAT;
    *ret = b;
    return PST_OK;
}

void quant_borders_finish(struct quant_borders *b)
{
    mem_free(b->groups);
    mem_free(b->forms);
    mem_free(b->readers);
    *b = (struct quant_borders){0};
}
