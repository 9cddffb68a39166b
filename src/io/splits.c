/* splits.c: see splits.h. One rule for pack and for the source `folder`. */
#include "io/splits.h"

#include "io/file.h"

#include <strings.h>

bool splits_is_name(const char *name)
{
    static const char *const known[] = {"train", "training", "test", "testing", "val", "valid", "validation", "dev", "eval"};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcasecmp(name, known[i]) == 0)
            return true;
    return false;
}

static pst_status has_subfolders(const char *path, bool *ret, pst_error *reterr)
{
    struct path_list below = {0};
    pst_status st = walk_folders(&below, path, reterr);
    *ret = below.count > 0;
    path_list_finish(&below);
    return st;
}

pst_status splits_are(const struct path_list *folders, bool *ret, pst_error *reterr)
{
    bool all = folders->count > 0;
    for (size_t i = 0; all && i < folders->count; i++)
        all = splits_is_name(file_base(folders->paths[i]));
    for (size_t i = 0; all && i < folders->count; i++) {
        pst_status st = has_subfolders(folders->paths[i], &all, reterr);
        if (st < 0)
            return st;
    }
    *ret = all;
    return PST_OK;
}
