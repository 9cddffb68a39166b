/* find.c: the public face of record/find.h. */
#include "record/find.h"

#include "base/memory.h"

#include <penstock/inspect.h>
#include <string.h>

/* The list as an array with its texts after it, in one block; NULL: out of memory. */
static char **one_block(const struct path_list *list)
{
    size_t bytes = (list->count + 1) * sizeof(char *);
    for (size_t i = 0; i < list->count; i++)
        bytes += strlen(list->paths[i]) + 1;
    char **block = mem_alloc(bytes), *to = (char *)(block + list->count + 1);
    for (size_t i = 0; block && i < list->count; i++) {
        block[i] = to;
        to = stpcpy(to, list->paths[i]) + 1;
    }
    if (block)
        block[list->count] = NULL;
    return block;
}

pst_status pst_shards_find(char ***ret, size_t *ret_count, const char *const *paths, size_t count, pst_error *reterr)
{
    struct path_list list = {0};
    pst_status st = find_shards(&list, paths, count, reterr);
    if (st < 0)
        return st;
    char **block = one_block(&list);
    if (block) {
        *ret = block;
        *ret_count = list.count;
    }
    path_list_finish(&list);
    return block ? PST_OK : pst_fail(reterr, PST_ENOMEM, "finding shards: out of memory");
}
