/* pipeline_options.h: what plan, bench and cat share: the options of a pipeline, and how its text is read. */
#ifndef CLI_PIPELINE_OPTIONS_H
#define CLI_PIPELINE_OPTIONS_H

#include "cli/command.h"
#include <penstock/pipeline.h>

/* The config of a command that has pipeline_options as its shared rows begins with this. */
struct pipeline_config {
    uint64_t workers, prefetch, ram, seed, rank, world;
    int uneven;
    const char *bad, *cache;
    bool no_fuse, no_verify;
    bool rank_given;
};

extern const struct option pipeline_options[];

/* What the help of each of these commands says about its operands. */
#define PIPELINE_DOC                                                                                                           \
    "PIPELINE is a source and the operations behind it, quoted so that the shell leaves it alone; several operands are "       \
    "joined by blanks. \"@train.pst\" reads it from a file. `penstock ops` lists what it can be made of."

/* What such a command is besides its name, its own options and its `run`. */
#define PIPELINE_COMMAND                                                                                                       \
    .usage = "PIPELINE...", .shared = pipeline_options, .min_operands = 1, .max_operands = ANY_NUMBER,                         \
    .completion = COMPLETE_PIPELINE

/* The pipeline that the operands spell. Returns EXIT_DONE, or another exit code with the error said. */
int pipeline_open(pst_pipeline **ret, const struct command *command, const struct pipeline_config *config,
                  const char *const *operands, size_t count, bool json);
/* The operands joined by blanks; free it. NULL: out of memory. */
char *pipeline_text(const char *const *operands, size_t count);

#endif
