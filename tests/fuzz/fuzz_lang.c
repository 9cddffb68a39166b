/* fuzz_lang.c: any text as a tree of classes that take children. Accepted text comes back from its canonical text unchanged,
 * place by place; a refusal names a byte of the text. Files are left alone: their contents depend on the machine. */
#include "expect.h"

#include "base/memory.h"
#include "unit/lang_table.h"

#include <string.h>

static void check_same(const struct lang_chain *a, const struct lang_chain *b, unsigned depth)
{
    EXPECT(a->count == b->count && a->count > 0 && depth <= LANG_MAX_DEPTH);
    for (size_t i = 0; i < a->count; i++) {
        const struct lang_node *n = a->nodes[i], *m = b->nodes[i];
        EXPECT(strcmp(n->class.name, m->class.name) == 0 && n->child_count == m->child_count);
        EXPECT(n->child_count >= n->class.min_children && n->child_count <= n->class.max_children);
        for (size_t k = 0; k < n->child_count; k++)
            check_same(&n->children[k], &m->children[k], depth + 1);
    }
}

/* Every node lies at its name. */
static void check_places(const struct lang_chain *c, const char *text)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct lang_node *n = c->nodes[i];
        EXPECT(n->end > n->begin && strncmp(text + n->begin, n->class.name, strlen(n->class.name)) == 0);
        for (size_t k = 0; k < n->child_count; k++)
            check_places(&n->children[k], text);
    }
}

static void check_again(const struct lang_tree *t)
{
    struct lang_tree again = {0};
    struct text first = {0}, second = {0};
    pst_error error;
    EXPECT(layers_text(t, &first));
    EXPECT(lang_parse(&again, &layers, first.data, &error) == PST_OK);
    EXPECT(layers_text(&again, &second) && strcmp(first.data, second.data) == 0);
    EXPECT(t->count == again.count && t->count <= LANG_MAX_NODES);
    check_same(&t->top, &again.top, 0);
    check_places(&again.top, first.data);
    text_finish(&first);
    text_finish(&second);
    lang_finish(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lang_tree t = {0};
    pst_error error = {0};
    uint64_t before = mem_live();
    if (memchr(data, '@', size))
        return 0;
    char *text = mem_strndup((const char *)data, size);
    pst_status st = lang_parse(&t, &layers, text, &error);
    if (st == PST_OK) {
        check_again(&t);
    } else {
        EXPECT(st == PST_EINVAL || st == PST_ELIMIT);
        EXPECT(error.status == st && error.offset <= strlen(text) && error.message[0] && error.message[0] != '\n');
        EXPECT(t.count == 0 && t.top.count == 0 && t.script_count == 0);
    }
    lang_finish(&t);
    mem_free(text);
    EXPECT(mem_live() == before);
    return 0;
}
