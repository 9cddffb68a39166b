/* layers.c: chains of layers from calls. A chain keeps its canonical text, to which every call adds: a model from calls is the model of
 * that text. */
#include "model/model.h"

#include "base/error.h"
#include "base/memory.h"
#include "model/preset.h"

struct pst_layers {
    char *text; /* the layers, separated by bars; NULL: none */
};

pst_status pst_layers_create(pst_layers **ret, pst_error *reterr)
{
    pst_layers *layers = mem_zalloc(sizeof(*layers));
    if (!layers)
        return fail_memory(reterr, "building a model");
    *ret = layers;
    return PST_OK;
}

pst_layers *pst_layers_destroy(pst_layers *layers)
{
    if (layers)
        mem_free(layers->text);
    mem_free(layers);
    return NULL;
}

/* Appends the layers of the tree and frees it. `st` is the status of what made the tree. */
static pst_status append(pst_layers *to, struct lang_tree *tree, pst_status st, pst_error *reterr)
{
    char *added = st == PST_OK ? lang_chain_text(&tree->top) : NULL;
    char *whole = added && to->text ? mem_format("%s | %s", to->text, added) : NULL;
    lang_finish(tree);
    if (st == PST_OK && (!added || (to->text && !whole)))
        st = fail_memory(reterr, "building a model");
    if (st == PST_OK) {
        mem_free(to->text);
        to->text = whole ? whole : added;
    }
    if (st < 0 || whole)
        mem_free(added);
    return st;
}

pst_status pst_layers_add(pst_layers *layers, const char *kind, const char *args, pst_error *reterr)
{
    struct lang_tree tree = {0};
    return append(layers, &tree, lang_add(&tree, &model_language, kind, args, reterr), reterr);
}

pst_status pst_layers_add_text(pst_layers *layers, const char *text, pst_error *reterr)
{
    struct lang_tree tree = {0};
    char *whole = NULL;
    pst_status st = preset_expand(&whole, text, reterr);
    if (st == PST_OK)
        st = lang_parse(&tree, &model_language, whole, reterr);
    mem_free(whole);
    return append(layers, &tree, st, reterr);
}

/* "KIND ARGS( CHAIN )( CHAIN )". */
static pst_status write_parent(const struct lang_node *n, pst_layers *const *chains, size_t count, char **ret, pst_error *reterr)
{
    struct text t = {0};
    char *head = lang_text(n);
    t.failed = !head;
    text_add(&t, head ? head : "");
    mem_free(head);
    for (size_t i = 0; i < count; i++)
        text_addf(&t, "( %s )", chains[i]->text ? chains[i]->text : "");
    if (t.failed) {
        text_finish(&t);
        return fail_memory(reterr, "building a model");
    }
    *ret = t.data;
    return PST_OK;
}

pst_status pst_layers_add_chains(pst_layers *layers, const char *kind, const char *args, pst_layers *const *chains, size_t count,
                                 pst_error *reterr)
{
    struct lang_tree head = {0}, tree = {0};
    char *text = NULL;
    pst_status st = lang_add_parent(&head, &model_language, kind, args, reterr);
    if (st == PST_OK && count > 0 && head.top.nodes[0]->class.max_children == 0)
        st = pst_fail(reterr, PST_EINVAL, "%s takes no chains", kind);
    if (st == PST_OK)
        st = write_parent(head.top.nodes[0], chains, count, &text, reterr);
    lang_finish(&head);
    if (st == PST_OK)
        st = lang_parse(&tree, &model_language, text, reterr);
    mem_free(text);
    return append(layers, &tree, st, reterr);
}

const char *pst_layers_text(const pst_layers *layers)
{
    return layers->text ? layers->text : "";
}

pst_status pst_model_create(pst_model **ret, const pst_layers *layers, const pst_shape *input, pst_error *reterr)
{
    return model_create(ret, pst_layers_text(layers), input, reterr);
}
