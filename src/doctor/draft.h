/* draft.h: a pipeline as a list of stages that can be edited, and the options that it runs with.
 *
 * Edits never fail by themselves: an allocation failure sets `failed`, and opening such a draft returns PST_ENOMEM. */
#ifndef DOCTOR_DRAFT_H
#define DOCTOR_DRAFT_H

#include <penstock/doctor.h>

struct draft_stage {
    char name[48];
    char *text; /* name and arguments */
    pst_op_kind kind;
    bool custom; /* an operation of the program */
    bool python;
    char *stored; /* in the given pipeline: the stages that this one keeps on disk; NULL: it keeps nothing there */
};

struct draft {
    struct draft_stage *stage;
    size_t count, capacity;
    pst_pipeline_options options;
    const pst_doctor_customs *customs;
    bool failed;
};

/* Cuts `text` at every | outside of quotes and parentheses. Texts with comments or @files are cut after the library has read
 * them: the stages then have canonical text. */
pst_status draft_parse(struct draft *ret, const char *text, const pst_pipeline_options *options, const pst_doctor_customs *customs,
                        pst_error *reterr);
void draft_copy(struct draft *ret, const struct draft *r);
void draft_finish(struct draft *r); /* Zeroed ok. */

void draft_set(struct draft *r, size_t at, const char *format, ...) __attribute__((format(printf, 3, 4)));
void draft_insert(struct draft *r, size_t at, const char *format, ...) __attribute__((format(printf, 3, 4)));
void draft_remove(struct draft *r, size_t at);
void draft_truncate(struct draft *r, size_t count);

#define DRAFT_NONE SIZE_MAX
/* Returns the first stage called `name` from stage `from` on; DRAFT_NONE: there is none. */
size_t draft_find(const struct draft *r, const char *name, size_t from);
bool draft_has_custom(const struct draft *r); /* an operation of the program */
bool draft_stores(const struct draft *r);     /* a snapshot or a cache on disk of the given pipeline */
/* Returns the stages joined by " | "; mem_free it. NULL: out of memory. */
char *draft_text(const struct draft *r);
/* Returns a word as it is written in a pipeline: quoted where necessary; mem_free it. NULL: out of memory. */
char *draft_quote(const char *word);
/* Returns the value of argument `name`, or of positional argument `position` (SIZE_MAX: it has no position), of a stage;
 * mem_free it. NULL: it is not there, or out of memory. */
char *draft_argument(const struct draft_stage *s, const char *name, size_t position);

/* Builds the pipeline. PST_EUNSUPPORTED: stages were changed whose elements the given pipeline keeps on disk; they would be stored there a second time. */
pst_status draft_open(const struct draft *r, pst_pipeline **ret, pst_error *reterr);

#endif
