/* kernel_table.c: see kernel_table.h. */
#include "model/kernel_table.h"

#include "base/error.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

#define LINE_SIZE 256

bool kernel_key_same(const struct kernel_key *a, const struct kernel_key *b)
{
    const struct conv_shape *x = &a->shape, *y = &b->shape;
    return x->size == y->size && x->stride == y->stride && x->ci == y->ci && x->co == y->co && x->depthwise == y->depthwise &&
           conv_groups(x) == conv_groups(y) && conv_dilation(x) == conv_dilation(y) && a->h == b->h && a->w == b->w;
}

const struct conv_kernel *kernel_table_find(const struct kernel_table *t, const struct kernel_key *key)
{
    for (size_t i = 0; t && i < t->count; i++)
        if (kernel_key_same(&t->list[i].key, key))
            return t->list[i].kernel;
    return NULL;
}

bool kernel_table_set(struct kernel_table *t, const struct kernel_key *key, const struct conv_kernel *kernel)
{
    for (size_t i = 0; i < t->count; i++)
        if (kernel_key_same(&t->list[i].key, key)) {
            t->list[i].kernel = kernel;
            return true;
        }
    if (mem_grow((void **)&t->list, &t->capacity, t->count + 1, sizeof(*t->list)) < 0)
        return false;
    t->list[t->count++] = (struct kernel_entry){*key, kernel};
    return true;
}

static const struct conv_kernel *find_kernel(const char *name, const struct conv_shape *shape, unsigned features)
{
    const struct conv_kernel *k;
    for (size_t i = 0; (k = conv_kernel_at(i, features)); i++)
        if (conv_kernel_is(k, name) && k->takes(shape))
            return k;
    return NULL;
}

/* How much of the text is `name` and a number. */
static size_t take_number(const char *text, const char *name, size_t *ret)
{
    size_t length = strlen(name);
    int end = 0;
    return strncmp(text, name, length) == 0 && sscanf(text + length, "%9zu%n", ret, &end) == 1 ? length + (size_t)end : 0;
}

static pst_status parse_line(struct kernel_table *t, const char *line, size_t number, unsigned features, pst_error *reterr)
{
    char kind[16], name[64];
    struct kernel_key key = {0};
    size_t other;
    int end = 0;
    struct conv_shape *s = &key.shape;
    int found = sscanf(line, " %15s %9zux%9zu stride=%9zu%n", kind, &s->size, &other, &s->stride, &end);
    const char *rest = line + end;
    rest += take_number(rest, " groups=", &s->groups);
    rest += take_number(rest, " dilation=", &s->dilation);
    found += sscanf(rest, " %9zu->%9zu at %9zux%9zu: %63[^\n]%n", &s->ci, &s->co, &key.h, &key.w, name, &end);
    bool depthwise = found == 9 && strcmp(kind, "dwconv") == 0;
    while (found == 9 && name[0] && name[strlen(name) - 1] == ' ')
        name[strlen(name) - 1] = 0;
    if (found != 9 || other != s->size || (!depthwise && strcmp(kind, "conv") != 0) || rest[end])
        return pst_fail(reterr, PST_EINVAL, "the table of kernels, line %zu: \"%.80s\" is not an entry; expected, for example, \"conv 3x3 stride=1 "
                                            "16->32 at 32x32: KERNEL\", as `penstock model --tune` writes it", number, line);
    s->depthwise = depthwise;
    const struct conv_kernel *kernel = find_kernel(name, s, features);
    if (kernel && !kernel_table_set(t, &key, kernel))
        return fail_memory(reterr, "reading the table of kernels");
    return PST_OK;
}

pst_status kernel_table_parse(struct kernel_table *t, const char *text, unsigned features, pst_error *reterr)
{
    pst_status st = PST_OK;
    size_t number = 1;
    for (const char *at = text; st == PST_OK && at && *at; number++) {
        size_t length = strcspn(at, "\n"), used = length < LINE_SIZE - 1 ? length : LINE_SIZE - 1;
        char line[LINE_SIZE];
        memcpy(line, at, used);
        line[used] = 0;
        line[strcspn(line, "#\r")] = 0;
        if (line[strspn(line, " \t")])
            st = parse_line(t, line, number, features, reterr);
        at += length + (at[length] == '\n');
    }
    return st;
}

void kernel_entry_print(const struct kernel_entry *e, struct text *to)
{
    const struct conv_shape *s = &e->key.shape;
    text_addf(to, "%s %zux%zu stride=%zu", s->depthwise ? "dwconv" : "conv", s->size, s->size, s->stride);
    if (conv_groups(s) > 1)
        text_addf(to, " groups=%zu", s->groups);
    if (conv_dilation(s) > 1)
        text_addf(to, " dilation=%zu", s->dilation);
    text_addf(to, " %zu->%zu at %zux%zu: %s", s->ci, s->co, e->key.h, e->key.w, e->kernel->name);
}

void kernel_table_print(const struct kernel_table *t, struct text *to)
{
    for (size_t i = 0; i < t->count; i++) {
        kernel_entry_print(&t->list[i], to);
        text_add(to, "\n");
    }
}

void kernel_table_finish(struct kernel_table *t)
{
    mem_free(t->list);
    *t = (struct kernel_table){0};
}
