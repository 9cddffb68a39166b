/* doctor.h: says why training waits for data, and what each remedy would bring.
 *
 *     pst_doctor_options o = {.size = sizeof(o), .step_ms = 45};
 *     pst_doctor_run(&d, "folder photos/ | shuffle | decode | resize 224 | batch 64", &o, &err);
 *     puts(pst_doctor_answer(d));
 *
 * The doctor runs the pipeline on the actual data for some seconds, measures the cost of each stage and the limits of the
 * machine, and predicts the rate after each remedy that applies. docs/doctor.md describes the JSON form of the result, which is
 * stable, and lists all causes and remedies. */
#ifndef PENSTOCK_DOCTOR_H
#define PENSTOCK_DOCTOR_H

#include <penstock/pipeline.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What kind of work an operation of the program does. */
typedef enum pst_custom_kind {
    PST_CUSTOM_NATIVE = 0, /* Compiled code. */
    PST_CUSTOM_PYTHON      /* A Python function, which may hold the interpreter's lock. */
} pst_custom_kind;

/* Operations and sources of the program that the text of the pipeline names. */
typedef struct pst_doctor_customs {
    size_t size; /* sizeof(pst_doctor_customs). */
    /* Appends the stage `stage` of the text to `p`, if its first word names an operation or source of the program. Called once
     * for each pipeline that the doctor builds. */
    pst_status (*add)(void *user, pst_pipeline *p, const char *stage, pst_error *reterr);
    /* Returns the kind of the stage. NULL: all are PST_CUSTOM_NATIVE. */
    pst_custom_kind (*kind)(void *user, const char *stage);
    void *user; /* The first argument of both. */
} pst_doctor_customs;

/* What a sweep varies. */
typedef enum pst_sweep {
    PST_SWEEP_NONE = 0, /* There is no sweep. */
    PST_SWEEP_BATCH,    /* The sweep tries batch sizes. */
    PST_SWEEP_WORKERS,  /* The sweep tries numbers of workers. */
    PST_SWEEP_PREFETCH  /* The sweep tries numbers of batches that are prepared ahead. */
} pst_sweep;

/* A training job of several processes, for the remedy more-machines. */
typedef struct pst_doctor_ranks {
    size_t size;          /* sizeof(pst_doctor_ranks). */
    unsigned ranks;       /* The number of processes on this machine, which share its cores. */
    const char *pipeline; /* The text of the pipeline. */
    const char *model;    /* The text of the model. */
    uint64_t steps;       /* The number of steps that take about a second. */
} pst_doctor_ranks;
/* Trains with these processes for some seconds and stores the samples per second of all of them together. */
typedef pst_status (*pst_doctor_ranks_fn)(void *user, const pst_doctor_ranks *job, double *ret_rate, pst_error *reterr);

/* Options of the doctor. The zeroed struct with its size set means the defaults. */
typedef struct pst_doctor_options {
    size_t size;                           /* sizeof(pst_doctor_options). */
    const pst_pipeline_options *pipeline;  /* The options that the pipeline runs with; NULL: the defaults. */
    const pst_doctor_customs *customs;     /* Operations of the program; NULL: none. */
    double step_ms;                        /* The time of one training step without waiting, in milliseconds; 0: unknown. */
    double step_rate;                      /* The same as samples per second; 0: unknown. */
    const char *model;                     /* A model as text, or a run folder: its training steps are measured; NULL: none. */
    uint64_t epochs;                       /* Epochs of the training; 0: unknown. */
    uint64_t samples;                      /* Samples of the real data set, if the data at hand is a part of it; 0: all are there. */
    double epoch_hours;                    /* The observed duration of an epoch in hours; 0: unknown. */
    uint64_t memory;                       /* Memory that is free for the page cache, in bytes; 0: asked from the system. */
    bool quick;                            /* Answers within about 10 seconds, with wider ranges. */
    bool verify;                           /* Applies each remedy to a sample and measures it, interleaved with the present pipeline. */
    pst_sweep sweep;                       /* Runs the pipeline with several values of one setting. */
    const char *cache_dir;                 /* The folder that keeps the measured limits of the machine; NULL: they are not kept. */
    const char *temp_dir;                  /* The folder for samples, removed at the end; NULL: /tmp. */
    pst_progress_fn progress;              /* Receives the progress; `done` and `total` count tenths of seconds. NULL: nothing does. */
    void *user;                            /* The first argument of `progress`. */
    const char *trace;                     /* A file for a trace of workers, stages, batches and consumer, which Perfetto opens; a
                                            * file that exists is replaced. NULL: none. */
    double wish_rate;                      /* Samples per second that are wished for: the answer says how many machines and connections they
                                            * take. 0: none. */
    double link_rate;                      /* Bytes per second between machines; 0: as the system says of its network, or 10 Gbit/s. */
    pst_doctor_ranks_fn run_ranks;         /* Starts processes, for `verify`; NULL: more-machines is predicted only. */
    void *ranks_user;                      /* The first argument of `run_ranks`. */
    double seconds;                        /* Approximate duration of the examination in seconds, 0.5 to 100,000; up to 10 implies `quick`. 0: 30
                                            * seconds, or 10 if `quick`. */
    const char *const *command_words;      /* More words for the commands of the tool in the answer, such as --plugin and its file, ended by
                                            * NULL. NULL: none. */
} pst_doctor_options;

/* The result. */
typedef struct pst_doctor pst_doctor;

/* Examines `target`: the text of a pipeline, or a path to a folder, shards or a list, for which the usual pipeline is written.
 * `options` may be NULL. PST_EINVAL: the text or an option is wrong. PST_ECANCELLED: `progress` asked to stop. */
PST_API pst_status pst_doctor_run(pst_doctor **ret, const char *target, const pst_doctor_options *options, pst_error *reterr);
/* Frees a result. Accepts NULL; returns NULL. */
PST_API pst_doctor *pst_doctor_destroy(pst_doctor *d);
/* Returns the result as JSON, valid as long as the result. */
PST_API const char *pst_doctor_json(const pst_doctor *d);
/* Returns the answer as text for people, valid as long as the result. The first line is one sentence. */
PST_API const char *pst_doctor_answer(const pst_doctor *d);
/* Returns the text of the pipeline that was examined, valid as long as the result. */
PST_API const char *pst_doctor_pipeline(const pst_doctor *d);

/* The verdict. */
typedef struct pst_verdict {
    size_t size;            /* sizeof(pst_verdict); set it before the call. */
    const char *class_name; /* "input-bound", "balanced", "consumer-bound" or "unknown". */
    const char *bottleneck; /* "storage", "cpu", "memory", "python", "transfer", "model", "consumer" or "configuration". */
    const char *cause;      /* One of the causes that docs/doctor.md lists; "none": nothing is wrong. */
    const char *stage;      /* The stage with the largest cost. */
    const char *sentence;   /* The first line of the answer. */
    double wait_share;      /* The share of the time that training waits for data; NaN: unknown. */
    double samples_per_s;   /* The rate of the pipeline by itself. */
} pst_verdict;
/* Stores the verdict; its texts are valid as long as the result. */
PST_API void pst_doctor_verdict(const pst_doctor *d, pst_verdict *ret);

/* One remedy. */
typedef struct pst_remedy {
    size_t size;          /* sizeof(pst_remedy); set it before the call. */
    const char *id;       /* One of the ids that docs/doctor.md lists. */
    const char *title;    /* What to do, in one sentence. */
    const char *command;  /* The command to run; NULL: none. */
    const char *pipeline; /* The pipeline afterwards; NULL: it stays as it is. */
    bool available;       /* False: it needs an operation that this version does not have. */
    bool applies;         /* Whether pst_doctor_apply can do it. */
    double predicted;     /* Samples per second afterwards; NaN: not predicted. */
    double measured;      /* The same, measured on a sample; NaN: not measured. */
    double gain;          /* `predicted` divided by the present rate. */
    const char *out;      /* A name for what pst_doctor_apply makes; NULL: it adds to the files that are there. */
} pst_remedy;
/* Stores remedy `i`, the best first. Returns false after the last one. Texts are valid as long as the result. */
PST_API bool pst_doctor_remedy_at(const pst_doctor *d, size_t i, pst_remedy *ret);

/* Does what remedy `id` says to the whole data: packs it into the folder `out`, writes the changed pipeline to the file `out`, or, for
 * `entropy-index`, extends the indexes of the shards, whatever `out` is. PST_ENOTFOUND: the result has no such remedy. PST_EUNSUPPORTED: it cannot
 * be done by a program; the message says what to do. PST_EEXIST: `out` exists. `progress` may be NULL. */
PST_API pst_status pst_doctor_apply(pst_doctor *d, const char *id, const char *out, pst_progress_fn progress, void *user,
                                    pst_error *reterr);

/* Compares two results in their JSON form, before and after a change, and stores what the change brought in `*ret`: as text for
 * people, or as JSON if `json`. Release it with pst_free. PST_ECORRUPT: a text is not JSON. PST_EINVAL: a text is not a result. */
PST_API pst_status pst_doctor_compare(char **ret, const char *before, const char *after, bool json, pst_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
