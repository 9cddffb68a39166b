/* find.c: the public face of record/find.h. */
#include "record/find.h"

#include <penstock/inspect.h>

pst_status pst_shards_find(char ***ret, size_t *ret_count, const char *const *paths, size_t count, pst_error *reterr)
{
    struct path_list list = {0};
    pst_status st = find_shards(&list, paths, count, reterr);
    if (st < 0)
        return st;
    *ret = list.paths;
    *ret_count = list.count;
    return PST_OK;
}

void pst_shards_free(char **paths, size_t count)
{
    struct path_list list = {.paths = paths, .count = count};
    path_list_finish(&list);
}
