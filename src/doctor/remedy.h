/* remedy.h: what remedies share: trying a changed pipeline, predicting from that, words. */
#ifndef DOCTOR_REMEDY_H
#define DOCTOR_REMEDY_H

#include "doctor/doctor.h"
#include "doctor/rewrite.h"

/* One remedy. `find` decides by the costs whether it applies: PST_SKIP if not; otherwise it fills `r`, with a variant of the pipeline or a
 * predicted rate. */
struct remedy_class {
    const char *id;
    int effort;
    pst_status (*find)(struct pst_doctor *d, struct remedy *r, pst_error *reterr);
    enum remedy_group group;
};

/* In the order in which they are tried while there is time: those that name causes first. Each ends with a NULL id. */
extern const struct remedy_class remedy_settings[], remedy_order[], remedy_data[], remedy_augment[], remedy_cache[], remedy_storage[],
    remedy_consumer[], remedy_model[], remedy_machines[], remedy_texts[], remedy_forms[];

/* Runs the variant of `r` briefly and predicts the rate on the real data. A variant that does not run is PST_SKIP. */
pst_status remedy_probe(struct pst_doctor *d, struct remedy *r, pst_error *reterr);
/* Sets the pipeline and the difference from the present one by a draft on the real data. */
void remedy_text(struct pst_doctor *d, struct remedy *r, const struct draft *after);
void remedy_costs(struct pst_doctor *d, struct remedy *r, const struct costs *c); /* predicts from these costs */

/* What `ranks` processes on this machine bring together, as a share of one with all cores. */
double remedy_ranks_here(const struct pst_doctor *d, unsigned ranks);

/* The text of a stage for a title; the end of a long one is left out. */
const char *remedy_stage_words(const struct draft_stage *s, char buffer[64]);
/* Returns the word as a shell reads it, as mem_format would; NULL: out of memory. */
char *remedy_shell(const char *word);
/* The paths of the source as shell words: "photos/" or "a.tfrecord b.tfrecord"; mem_free it. */
char *remedy_source(const struct pst_doctor *d);
/* A name for new data beside the present: "photos-256"; mem_free it. */
char *remedy_out(const struct pst_doctor *d, const char *suffix);
/* The side of images that training uses: of the first operation with a size after decode; 0: none. `*ret_random`: a random crop of
 * varying size comes before it. */
uint32_t remedy_side(const struct pst_doctor *d, bool *ret_random);
/* The stage that gives images this size; DRAFT_NONE: there is none. */
size_t remedy_sized(const struct pst_doctor *d);
/* PSNR of two fields of bytes; 0: they cannot be compared. */
double remedy_psnr(const pst_tensor *a, const pst_tensor *b);
/* The operation by the program, the augmentation or the like that costs more than everything else, in parallel; NULL: there is none. */
const struct stage_cost *remedy_heavy(const struct pst_doctor *d);
/* The stage after it; DRAFT_NONE: there is none. */
size_t remedy_heavy_end(const struct pst_doctor *d);
void remedy_without_heavy(struct pst_doctor *d, struct remedy *r); /* predicts from the costs without it: an upper bound */
/* Returns whether the elements before stage `at` are the same in every epoch: the plan accepts a cache there. */
bool remedy_repeats(const struct pst_doctor *d, size_t at);
/* Lets a draft store what it keeps on disk before anything is measured: the runs after it find it there, as later runs of the user do. */
pst_status remedy_fill(struct pst_doctor *d, const struct draft *r, pst_error *reterr);
double remedy_stored_bytes(const char *folder); /* of caches and snapshots */
/* Limits the rate by the disk if what is stored, `each` bytes per sample, does not fit into memory. */
void remedy_limit_by_disk(struct pst_doctor *d, struct remedy *r, double each);
/* The stages before decode and their batch, in the order of the source: `from` of a rewrite; on the sample or on the data. */
void remedy_prefix(const struct pst_doctor *d, bool sample, struct draft *ret);
/* `now` with its stages up to decode replaced by shards in `folder`. */
void remedy_repacked(const struct pst_doctor *d, const char *folder, struct draft *ret);

#endif
