/* chain_text.h: chains as text, to be compared. */
#ifndef TESTS_CHAIN_TEXT_H
#define TESTS_CHAIN_TEXT_H

#include "base/memory.h"
#include "base/text.h"
#include "flow/node.h"

#include <stdlib.h>
#include <string.h>

/* The whole chain as canonical text; free. */
static inline char *canonical(const struct chain *c)
{
    struct text t = {0};
    for (size_t i = 0; i < c->count; i++) {
        char *one = node_text(&c->nodes[i]);
        text_add(&t, i ? " | " : "");
        text_add(&t, one ? one : "(out of memory)");
        mem_free(one);
    }
    char *copy = strdup(t.data ? t.data : "");
    text_finish(&t);
    return copy;
}

#endif
