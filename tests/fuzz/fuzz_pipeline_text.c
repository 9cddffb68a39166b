/* fuzz_pipeline_text.c: any text as a pipeline. What is accepted comes back from its canonical text unchanged; what is refused
 * names a byte of the text. Files are left alone: what is in them depends on the machine. */
#include "expect.h"

#include "base/memory.h"
#include "base/text.h"
#include "flow/node.h"

#include <string.h>

static char *canonical(const struct chain *c)
{
    struct text t = {0};
    for (size_t i = 0; i < c->count; i++) {
        char *one = node_text(&c->nodes[i]);
        EXPECT(one != NULL);
        text_add(&t, i ? " | " : "");
        text_add(&t, one);
        mem_free(one);
    }
    EXPECT(!t.failed && t.data != NULL);
    return t.data;
}

static void check_again(const struct chain *c)
{
    struct chain again = {0};
    pst_error error;
    char *first = canonical(c);
    EXPECT(chain_parse(&again, first, &error) == PST_OK);
    char *second = canonical(&again);
    EXPECT(strcmp(first, second) == 0 && c->count == again.count);
    for (size_t i = 0; i < c->count; i++) {
        const struct node *n = &again.nodes[i];
        EXPECT(n->op == c->nodes[i].op && n->ordinal == i && n->written->end > n->written->begin);
        char *one = node_text(n);
        EXPECT(strncmp(first + n->written->begin, one, n->written->end - n->written->begin) == 0);
        mem_free(one);
    }
    mem_free(second);
    mem_free(first);
    chain_finish(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct chain c = {0};
    pst_error error = {0};
    uint64_t before = mem_live();
    if (memchr(data, '@', size))
        return 0;
    char *text = mem_strndup((const char *)data, size);
    pst_status st = chain_parse(&c, text, &error);
    if (st == PST_OK) {
        check_again(&c);
    } else {
        EXPECT(st == PST_EINVAL || st == PST_ELIMIT);
        EXPECT(error.status == st && error.offset <= strlen(text) && error.message[0] && error.message[0] != '\n');
        EXPECT(c.count == 0 && c.tree.count == 0 && c.tree.script_count == 0);
    }
    chain_finish(&c);
    mem_free(text);
    EXPECT(mem_live() == before);
    return 0;
}
