/* splits.h: folders that divide a data set: train/, val/, test/ with the class folders inside. */
#ifndef IO_SPLITS_H
#define IO_SPLITS_H

#include "io/walk.h"

bool splits_is_name(const char *name); /* "train", "validation", …, in upper or lower case */
/* Reports whether all folders have the name of a split and contain folders. */
pst_status splits_are(const struct path_list *folders, bool *ret, pst_error *reterr);

#endif
