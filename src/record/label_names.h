/* label_names.h: the names of classes that lie beside shards. */
#ifndef RECORD_LABEL_NAMES_H
#define RECORD_LABEL_NAMES_H

#include <penstock/base.h>

/* Names of classes, line by line from FEATURE.labels.txt, label.labels.txt or labels.txt beside the shards. There are none
 * where there is no such file, and where shards of several folders disagree. */
struct label_names {
    char *text; /* owned; the names point into it */
    char **names;
    size_t count, capacity;
};

/* `shards` are `count` paths, sorted. */
pst_status label_names_read(struct label_names *ret, char *const *shards, size_t count, const char *feature, pst_error *reterr);
const char *label_name(const struct label_names *l, int64_t label); /* "": not known */
void label_names_finish(struct label_names *l);

#endif
