/* pipeline_options.h: shared by plan, bench and cat: the options of a pipeline and the reading of its text. */
#ifndef CLI_PIPELINE_OPTIONS_H
#define CLI_PIPELINE_OPTIONS_H

#include "cli/command.h"
#include <penstock/pipeline.h>

/* First member of the config of every command whose shared rows are pipeline_options. */
struct pipeline_config {
    uint64_t workers, prefetch, ram, seed, rank, world, hosts;
    int uneven;
    const char *bad, *cache, *plugin;
    bool no_fuse, no_verify;
    bool rank_given;
    bool live;         /* `penstock top` may look at the pipeline */
    const char *trace; /* file for a trace; NULL: none. The rows of commands that can write one set it. */
};

extern const struct option pipeline_options[];

/* The paragraph about operands in the help of these commands. */
#define PIPELINE_DOC                                                                                                           \
    "PIPELINE is a source followed by operations. Quote it, because the shell interprets | and *. Several operands are "       \
    "joined "                                                                                                                  \
    "by blanks. \"@train.pst\" reads the pipeline from a file. `penstock ops` lists all sources and operations."

/* The members that all these commands have in common. */
#define PIPELINE_COMMAND                                                                                                       \
    .usage = "PIPELINE...", .shared = pipeline_options, .min_operands = 1, .max_operands = ANY_NUMBER,                         \
    .completion = COMPLETE_PIPELINE

/* Checks what the options say together, and loads the plug-ins. Returns EXIT_DONE, or prints the error and returns another exit code. */
int pipeline_check(const struct command *command, const struct pipeline_config *config, bool json);
/* Creates the pipeline described by the operands. Returns EXIT_DONE, or prints the error and returns another exit code. */
int pipeline_open(pst_pipeline **ret, const struct command *command, const struct pipeline_config *config,
                  const char *const *operands, size_t count, bool json);
/* Fails if the text begins with a path instead of the name of an operation: a word with a slash, or with the ending of a file that
 * a source reads. `takes_folders`: only if nothing is there. */
pst_status pipeline_check_path(const char *text, bool takes_folders, pst_error *error);
/* Loads every file of a list with commas; NULL: none. For commands that do not call pipeline_open. */
pst_status pipeline_load_plugins(const char *list, pst_error *error);
/* Writes the trace that the config asks for. Returns EXIT_DONE, or prints the error and returns another exit code. */
int pipeline_save_trace(pst_pipeline *p, const struct command *command, const struct pipeline_config *config, bool json);
/* The operands joined by blanks; free it. NULL: out of memory. */
char *pipeline_text(const char *const *operands, size_t count);

/* "skipped 3 of 100 records: 1 length crc, 2 image; the first: a.tfrecord, record 17", after `what`. Nothing where none was. */
void say_skipped(const char *what, const pst_damage_log *log);

#endif
