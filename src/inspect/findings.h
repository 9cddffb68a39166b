/* findings.h: the results from a run of records: features, images, classes, damage. Findings of one run merge with those of
 * the next one; merged in order, they do not depend on which worker read which run. */
#ifndef INSPECT_FINDINGS_H
#define INSPECT_FINDINGS_H

#include "inspect/feature_table.h"
#include "inspect/images.h"
#include "inspect/labels.h"
#include "inspect/walker.h"

/* How records are interpreted, decided before they are read. */
struct choice {
    pst_content content;
    char *image_feature, *label_feature; /* owned; NULL: none */
    pst_kind label_kind;
    bool verify; /* decode every image */
};

void choice_finish(struct choice *c);

struct findings {
    struct feature_table features;
    struct image_stats images;
    struct class_table classes;
    pst_damage_log *damage; /* NULL: none yet */
    uint64_t records;       /* seen */
    uint64_t parsed;        /* understood */
};

/* Zero-initialise `f` first. Creates the log if there is none; it tolerates everything. */
pst_status findings_need_log(struct findings *f, pst_error *reterr);
pst_status findings_add_damage(struct findings *f, pst_cause cause, const char *path, const pst_record *record, const char *why,
                               pst_error *reterr);

/* Adds one record. A record that cannot be parsed is damage, not an error. */
pst_status findings_take(struct findings *f, const struct choice *choice, struct walker *walker, const char *path,
                         const pst_record *record, pst_error *reterr);

/* `from` follows `into` and is left empty. */
pst_status findings_merge(struct findings *into, struct findings *from, pst_error *reterr);
void findings_finish(struct findings *f);

#endif
