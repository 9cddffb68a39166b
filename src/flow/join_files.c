/* join_files.c: one branch for each file of a list: the branch's text with the file's path in the place of {}. */
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "flow/join_plan.h"
#include "flow/node.h"
#include "io/walk.h"
#include "lang/lexer.h"

#include <string.h>

#define MOST_FILES 100000

void join_files_finish(struct join_file_list *f)
{
    for (size_t i = 0; i < f->count; i++)
        chain_finish(&f->chains[i]);
    mem_free(f->chains);
    *f = (struct join_file_list){0};
}

/* Takes the sidecars of shards, which lie beside them, out of the list. */
static void leave_sidecars(struct path_list *l)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->count; i++) {
        size_t length = strlen(l->paths[i]);
        if (length >= 5 && strcmp(l->paths[i] + length - 5, ".pidx") == 0)
            mem_free(l->paths[i]);
        else
            l->paths[kept++] = l->paths[i];
    }
    l->count = kept;
}

/* The branch as text, with `path` for {}. */
static char *text_for(const char *branch, const char *path)
{
    struct text t = {0};
    for (const char *at = branch; *at;) {
        const char *next = strstr(at, "{}");
        size_t length = next ? (size_t)(next - at) : strlen(at);
        text_add_n(&t, at, length);
        if (next)
            word_write(&t, path, WORD_FIRST | WORD_PARENS);
        at += length + (next ? 2 : 0);
    }
    if (!t.failed)
        return t.data;
    text_finish(&t);
    return NULL;
}

/* The text of the branch; NULL: out of memory. */
static char *branch_text(const struct chain *c)
{
    struct text t = {0};
    for (size_t i = 0; i < c->count; i++) {
        char *one = node_text(&c->nodes[i]);
        text_add(&t, i ? " | " : "");
        text_add(&t, one ? one : "");
        t.failed |= !one;
        mem_free(one);
    }
    if (!t.failed)
        return t.data;
    text_finish(&t);
    return NULL;
}

static pst_status make_chains(struct join_file_list *ret, const char *branch, const struct path_list *paths, pst_error *reterr)
{
    pst_status st = PST_OK;
    ret->chains = mem_array(paths->count, sizeof(*ret->chains));
    if (!ret->chains)
        return fail_memory(reterr, "planning");
    for (size_t i = 0; i < paths->count && st == PST_OK; i++) {
        char *text = text_for(branch, paths->paths[i]);
        ret->count++;
        st = text ? chain_parse(&ret->chains[i], text, reterr) : fail_memory(reterr, "planning");
        mem_free(text);
    }
    return st;
}

pst_status join_files(struct join_file_list *ret, const struct node *n, const char *pattern, pst_error *reterr)
{
    struct path_list paths = {0};
    if (n->branch_count != 1)
        return pst_fail(reterr, PST_EINVAL, "with files= there is one pipeline in ( ), with {} for the path; found %zu",
                        n->branch_count);
    char *branch = branch_text(&n->branches[0]);
    pst_status st = branch ? PST_OK : fail_memory(reterr, "planning");
    if (st == PST_OK && !strstr(branch, "{}"))
        st = pst_fail(reterr, PST_EINVAL, "the pipeline has no {}, where the path of each file goes, as in (tfrecord {})");
    if (st == PST_OK)
        st = walk_glob(&paths, pattern, reterr);
    leave_sidecars(&paths);
    if (st == PST_OK && paths.count == 0)
        st = pst_fail(reterr, PST_ENOTFOUND, "files=%.100s: only sidecars match", pattern);
    if (st == PST_OK && paths.count > MOST_FILES)
        st = pst_fail(reterr, PST_ELIMIT, "%zu files match; at most %d can be branches", paths.count, MOST_FILES);
    if (st == PST_OK)
        st = make_chains(ret, branch, &paths, reterr);
    path_list_finish(&paths);
    mem_free(branch);
    return st;
}
