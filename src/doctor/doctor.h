/* doctor.h: everything that an examination gathers, in the order in which it is gathered.
 *
 *     target ─▶ draft ─▶ facts ─▶ limits ─▶ survey ─▶ now ─▶ stages ─▶ step ─▶ remedies ─▶ verdict ─▶ JSON, answer */
#ifndef DOCTOR_DOCTOR_H
#define DOCTOR_DOCTOR_H

#include "base/figure.h"
#include "base/text.h"
#include "doctor/draft.h"
#include "doctor/picture.h"
#include "doctor/trial.h"

/* ---- The plan ---- */

#define FACTS_FIELDS 64

struct facts_field {
    char name[PST_NAME_SIZE];
    pst_dtype dtype;
    bool varies;
    uint64_t values; /* per sample; of a field that does not vary */
};

/* What the plan says. */
struct facts {
    bool indexed;
    uint64_t elements; /* of the source; PST_NOWHERE: unknown */
    uint64_t epoch;    /* samples per epoch; PST_NOWHERE: unknown */
    uint64_t batch, batch_bytes, ram, ram_planned;
    unsigned prefetch;
    bool ram_limits;   /* the RAM budget decides the number of batches */
    char source[256], order[256], entropy[160];
    struct facts_field field[FACTS_FIELDS]; /* delivered */
    size_t fields;
};
/* Plans `r` and reads its description. */
pst_status facts_read(struct facts *ret, const struct draft *r, pst_error *reterr);
/* Returns the text of a pipeline for `target` if that is a path, or a copy of it; `*ret_written` says which. `customs`: the program has operations
 * of its own, whose names are not known here. mem_free it. */
pst_status target_text(char **ret, bool *ret_written, const char *target, bool customs, pst_error *reterr);

/* ---- The machine ---- */

struct limits {
    unsigned cores, cores_online; /* usable by this process; of the machine */
    double quota;                 /* cores that the cgroup allows; 0: no limit */
    double steal;                 /* share of the time that a hypervisor took */
    double load;                  /* of the machine per core before the measurement */
    uint64_t memory_total, memory_available;
    double memory_bandwidth; /* bytes per second, of a copy by all cores */
    double scaling;          /* rate of all cores together against one */
    double handoff_us;       /* per batch of one element */
    double measured_at;      /* seconds since 1970 */
    /* storage of the actual files; 0: not measured */
    double sequential_warm, sequential_cold; /* bytes per second */
    double random_warm, random_cold;         /* the same for single samples in random order, one at a time… */
    double random_cold_deep;                 /* …and eight at a time */
    unsigned deep;                           /* reads at a time of random_cold_deep */
    bool cold_known;                         /* reads past the page cache were possible: otherwise the cold rates are 0 */
    double decode_mpixels;                   /* of the actual images, per second and core */
    double entropy_share;                    /* of the decoding time that does not shrink with the scale; NaN: not known */
    double checksum_us, checksum_low, checksum_high; /* per record; 0: there are none */
};

/* A store or web server that the data is read from. */
struct remote {
    bool known, binds;             /* it was measured; it is slower than the pipeline */
    bool cached;                   /* everything that was read lay in the cache already */
    uint64_t kept;                 /* bytes in the cache before the examination… */
    uint64_t downloaded;           /* …and that this process had fetched by then */
    double latency;                /* seconds of a request for one byte */
    double connection, present, most; /* bytes per second of one connection, of `connections`, and of `best` */
    double requests;               /* small ones per second, over `connections` */
    unsigned connections, best;
    uint64_t part;                 /* bytes of a large request; 0: not known */
};

/* ---- The data ---- */

enum survey_kind { SURVEY_NONE, SURVEY_FILES, SURVEY_RECORDS };

struct survey_item {
    char *path;
    int64_t label; /* INT64_MIN: none */
    uint64_t bytes, offset;
    uint8_t *data; /* of records */
};

#define SURVEY_IMAGES 12

struct survey_image {
    uint8_t *data;
    size_t length;
};

struct survey {
    enum survey_kind kind;
    struct survey_item *item;
    size_t count, capacity;
    bool file_per_element;
    double mean_bytes;     /* of an element in the source */
    uint64_t file_bytes;   /* of the files seen */
    size_t files;          /* different files seen */
    uint64_t total_bytes;  /* of the whole data set; 0: unknown */
    char *file[64];        /* different files, for the storage */
    size_t file_count;
    pst_compression compression; /* of shards */
    /* encoded images before decode */
    struct survey_image image[SURVEY_IMAGES];
    size_t images;
    double width, height, pixels, image_bytes; /* means */
    double jpeg_share;
};

/* A sample of the data in a temporary folder. */
struct sample {
    char *folder;       /* NULL: none could be made */
    char *source;       /* the text of a source stage that reads it */
    char *path;         /* the list or the shard */
    size_t count;
    uint64_t bytes;
    bool taken;         /* the first elements of the source itself, by `take`: `source` and `path` are NULL */
};

/* ---- Costs ---- */

struct stage_cost {
    char name[64];
    const char *kind; /* "read", "decode", "python", … */
    double us, low, high, share, cores;
    double alone_us;      /* with one worker */
    double difference_us; /* of pipelines cut after it and before it; NaN: not measured */
    double delay_us;      /* of `us`: the cores were taken by others */
    double bytes;
    bool custom, python;
};

/* The costs of a pipeline from which its rate follows. */
struct costs {
    double cpu_us;     /* CPU time per sample */
    double blocked_us; /* waits of a worker per sample */
    double serial_us;  /* of the sample's time that only one thread at a time can spend */
    double read_bytes; /* from storage per sample */
    double random;     /* 1: in random order; 0: from front to back */
    double workers, cores;
    bool file_per_element;
};

/* A pipeline cut after a stage: what the stages up to there cost together. */
struct cut_cost {
    char name[48];
    double us, difference_us; /* CPU time and waits per sample with one worker; against the cut before it */
};

struct step_layer {
    char name[64];
    double forward_ms, backward_ms;
};

struct step {
    double ms;           /* of the consumer per batch; NaN: unknown */
    double wait_ms, compute_ms, forward_ms, backward_ms, optimizer_ms;
    double rate;         /* samples per second; INFINITY: unknown */
    const char *origin;  /* "given", "measured"; NULL: unknown */
    bool shared;         /* the step computes on the same cores */
    double together;     /* samples per second of pipeline and step together, measured; NaN */
    double wait_share;   /* measured; NaN */
    struct step_layer *layer;
    size_t layers;
    char *model; /* its text */
    double gradient_bytes; /* of all trained parameters */
};

/* ---- Remedies ---- */

/* Kinds of work: those of stages, and what no stage accounts for. */
#define WORKS 10

/* What a remedy changes about the training step. */
struct step_change {
    char *model; /* the text of another model; NULL: the present one */
    pst_mixed mixed;
};

struct step_turns {
    double now, after, low, high; /* samples per second */
};

/* Turns of two pipelines, possibly of several calls. */
#define MOST_TURNS 16

struct tally {
    double before[MOST_TURNS], ratio[MOST_TURNS]; /* rates of the one; those of the other, divided by them */
    size_t count;
};

/* Remedies of one group exclude each other; those without one are not combined. */
enum remedy_group {
    GROUP_NONE = 0,
    GROUP_DATA = 1,
    GROUP_CACHE = 2,
    GROUP_WORKERS = 4,
    GROUP_BATCH = 8,
    GROUP_ORDER = 16,
    GROUP_FIELDS = 32,
    GROUP_QUALITY = 64,
    GROUP_STEP = 128,
    GROUP_PREFETCH = 256
};

struct remedy {
    enum remedy_group group;
    const char *id, *cause, *stage_kind;
    char title[240], price[200], risk[200], basis[160];
    char *command;         /* NULL: none */
    char *pipeline;        /* text; NULL: unchanged */
    char *diff;            /* lines with - and +; NULL: none */
    struct draft variant; /* on the sample, or on the data itself */
    bool has_variant, on_sample, warm_epoch;
    bool first_epoch; /* it is compared with the first epoch, which fetches the data */
    bool available, flaw; /* flaw: names a cause */
    bool packed;          /* samples lie in shards afterwards */
    double least;         /* the gain from which on a flaw names its cause */
    double warm_gain;     /* of the pipeline by itself with its data in memory */
    struct tally probed, verified;
    double rate, low, high, gain; /* predicted; NaN */
    bool upper;                   /* an upper bound */
    double model_gain;            /* of remedies that change the step; 0: it does not */
    double evened;                /* share of the time that workers and consumer waited in turns, which the remedy gives back */
    bool changes_step;            /* `change` can be run… */
    struct step_change change;
    unsigned ranks;               /* …or as many processes; 0: neither */
    double infer_now, infer_small, infer_int8; /* predictions per second; 0: not measured */
    struct costs costs;
    double rate_on_sample; /* predicted for the data that `measured` was measured on */
    double measured, measured_low, measured_high, measured_now; /* NaN */
    double disk_bytes, ram_bytes, seconds, psnr;
    bool elsewhere; /* its files do not go into the present folder */
    double out_bytes;  /* delivered per sample in the trial */
    double cache_used; /* memory of the trial beyond that of the present pipeline */
    int effort; /* 1 an option, 2 the text, 3 one command, 4 code, 5 money */
    double score;
    char out[512]; /* for --apply: the suggested place… */
    bool in_place; /* …or: it adds to the files that are there */
    double left[WORKS];          /* what the trial left of each kind of work: microseconds per sample of the real data… */
    bool left_known;             /* …if it was tried */
    struct picture picture[PICTURES]; /* samples before and after; of remedies that change pixels */
};

#define MAX_REMEDIES 40

/* Remedies that are applied one after the other. */
#define MOST_PATH 8

struct path_step {
    const struct remedy *remedy;
    double rate; /* samples per second with this remedy and those before it, step included; predicted */
};

struct sweep_point {
    uint64_t value;
    double rate, low, high, epoch_seconds;
    double pipeline; /* samples per second of the pipeline by itself; NaN: it was not measured */
    uint64_t ram;
};

struct pst_doctor {
    pst_doctor_options options;
    bool written; /* the pipeline was written by the doctor */
    char *text, *subject; /* subject: what was asked for */
    struct draft now;
    struct facts facts;
    struct limits limits;
    struct remote remote;
    struct survey survey;
    struct sample sample;
    struct draft sampled;    /* `now` on the sample */
    struct trial run, alone;  /* as it is; with one worker */
    struct trial together;    /* with the consumer */
    struct costs costs;
    double efficiency;        /* measured rate against the model */
    bool contended;           /* workers wait for each other */
    struct stage_cost stage[PST_MAX_STAGES];
    size_t stages;
    struct cut_cost cut[PST_MAX_STAGES];
    size_t cuts;
    struct step step;
    struct remedy remedy[MAX_REMEDIES];
    size_t remedies;
    struct path_step path[MOST_PATH];
    size_t path_steps; /* 0, or at least 2 */
    struct sweep_point sweep[32];
    size_t sweeps;
    uint64_t sweep_choice;
    char sweep_reason[200];
    char sweep_basis[200]; /* what the rates are */
    bool sweep_measured;     /* …and whether that was measured as it is; otherwise computed */
    /* the verdict */
    const char *class_name, *bottleneck, *cause;
    char verdict_stage[64];
    char sentence[400];
    double wait_share;
    bool cold, cold_binds;
    bool cold_unknown;                  /* the data set does not fit into memory, and how fast the storage is could not be measured */
    double read_blocked;                /* share of the workers' time that they wait for reads */
    double read_share;                  /* share of the work per sample that is reading */
    double now_rate, now_low, now_high; /* with the consumer and cold storage */
    double pipe_rate;                   /* the pipeline by itself */
    double epoch_samples;               /* of an epoch of the real data set; NaN */
    double distinct_samples;            /* …of which so many differ: the others are repeated; NaN */
    double limit_step_ms;               /* the step at which data becomes the limit */
    double data_bytes;                  /* of the real data set; NaN */
    double seconds;                     /* that the examination took */
    double pace;                        /* length of the examination against the usual one */
    uint64_t begun, ticked;             /* nanoseconds */
    bool urgent;                        /* what is done now decides the verdict: it may take longer */
    const char *doing;                  /* the present part of the examination */
    char *json, *answer;
};

/* Reports progress; PST_ECANCELLED: the caller wants to stop. */
pst_status doctor_tick(struct pst_doctor *d, const char *stage, pst_error *reterr);
bool doctor_stopped(void *doctor); /* a pst_stop_fn that reports progress */
double doctor_elapsed(const struct pst_doctor *d);
/* Seconds that a part takes: one of the two if the examination has its usual length, otherwise in proportion. */
double doctor_span(const struct pst_doctor *d, double quick, double whole);
/* Whether there is time for `seconds` more. */
bool doctor_has_time(const struct pst_doctor *d, double seconds);
bool doctor_hurries(const struct pst_doctor *d); /* little time is left: what is still tried is tried briefly */
/* A trial of `r` for `seconds`, or as long as the budget allows. */
pst_status doctor_trial(struct pst_doctor *d, const struct draft *r, double seconds, bool warm_epoch, struct trial *ret,
                        pst_error *reterr);

/* Makes batches smaller that take far longer than a trial of `seconds`: the costs per sample stay the same. Only if they are those of the present pipeline. */
void doctor_shorten(const struct pst_doctor *d, struct draft *r, double seconds);

struct turns_request {
    const struct draft *before, *after;
    bool warm_epoch; /* of `after`: its first epoch is not measured… */
    bool whole;      /* …and must end in time, or the comparison is PST_SKIP */
    size_t rounds;   /* of this call; a tally takes MOST_TURNS in all */
    double seconds;  /* of one run */
};

struct turns {
    struct trial before, after; /* mean costs; rates: the median of the one, and that times the gain */
    double gain, low, high;     /* the median of the ratios of neighbours; a 95 % range */
};
/* The gain is that of all turns in `tally`, to which these are added; the costs are those of these. */
pst_status doctor_turns(struct pst_doctor *d, const struct turns_request *q, struct tally *tally, struct turns *ret, pst_error *reterr);

/* ---- Steps of an examination ---- */

pst_status limits_measure(struct pst_doctor *d, pst_error *reterr);
/* The names of the processor and of the system; "": unknown. */
void machine_cpu(char *buffer, size_t size);
void machine_system(char *buffer, size_t size);
double limits_thread_seconds(void); /* CPU time of this thread */
pst_status payload_measure(struct pst_doctor *d, pst_error *reterr);
pst_status storage_measure(struct pst_doctor *d, pst_error *reterr);
bool remote_data(const struct pst_doctor *d);
uint64_t remote_kept(void); /* bytes in the cache of stores; 0: there is none */
pst_status remote_measure(struct pst_doctor *d, pst_error *reterr);
unsigned remote_connections(const struct pst_doctor *d, double bytes);
double remote_requests(const struct pst_doctor *d);
const char *remote_later(const struct pst_doctor *d);
const char *remote_later_words(const struct pst_doctor *d);
pst_status doctor_survey(struct pst_doctor *d, pst_error *reterr);
void doctor_survey_finish(struct survey *s);
pst_status doctor_sample_make(struct pst_doctor *d, pst_error *reterr);
void doctor_sample_finish(struct sample *s);
pst_status costs_measure(struct pst_doctor *d, pst_error *reterr);
bool costs_has_op(const char *stage, const char *op); /* Returns whether a stage, such as "decode+resize", has the operation. */
pst_status cuts_measure(struct pst_doctor *d, pst_error *reterr);
pst_status doctor_step_measure(struct pst_doctor *d, pst_error *reterr);
void doctor_step_finish(struct step *s);
pst_status remedies_find(struct pst_doctor *d, pst_error *reterr);
pst_status remedies_verify(struct pst_doctor *d, pst_error *reterr);
void doctor_remedy_finish(struct remedy *r);
pst_status doctor_sweep(struct pst_doctor *d, pst_error *reterr);
void doctor_judge(struct pst_doctor *d);

/* ---- The model of a pipeline ---- */

/* The costs that a trial shows. */
struct costs costs_of(const struct pst_doctor *d, const struct trial *t, const struct draft *r);
/* Samples per second of the pipeline by itself. */
double predict_rate(const struct pst_doctor *d, const struct costs *c);
/* Samples per second of pipeline and consumer together. */
double predict_together(const struct pst_doctor *d, double pipe);
/* Milliseconds per batch that the consumer waits for data and that it computes; NaN: no step is known. */
double judge_wait_ms(const struct pst_doctor *d);
double judge_compute_ms(const struct pst_doctor *d);
/* The rate with the remedy, step included, that its measurement on the sample leads one to expect; NaN: it was not measured. */
double judge_measured(const struct pst_doctor *d, const struct remedy *r);
/* The rate with the remedy, step included; NaN: it was not predicted. */
double remedy_after(const struct pst_doctor *d, const struct remedy *r);
/* The range of that rate; NaN: it is not known. */
void remedy_range(const struct pst_doctor *d, const struct remedy *r, double *ret_low, double *ret_high);
const char *remedy_effort(const struct remedy *r); /* "low", "medium" or "high" */
bool remedy_is_for(const struct pst_doctor *d, const struct remedy *r); /* it removes the cause of the verdict */
bool remedy_is_bound(const struct remedy *r); /* it says how fast a step may become, but not how */
/* Stores what a trial of the remedy left of each kind of work. */
void path_note(const struct pst_doctor *d, struct remedy *r, const struct trial *before, const struct trial *after);
/* Chooses remedies that can be combined, in the order of the ranking, and predicts the rates along the way. */
void doctor_find_path(struct pst_doctor *d);
/* Bytes per second that storage delivers for these costs; INFINITY: data comes from memory, or the rate is not known. */
double predict_storage(const struct pst_doctor *d, const struct costs *c);

/* ---- Output ---- */

pst_status result_json(struct pst_doctor *d, pst_error *reterr);
pst_status result_answer(struct pst_doctor *d, pst_error *reterr);
/* Returns the name of the kind of work that a stage of the present pipeline or a variant does, by its operations. */
const char *stage_kind(const struct pst_doctor *d, const char *name);
/* Returns the command line of this examination with `rest` appended; mem_free it. NULL: out of memory. */
char *doctor_command(const struct pst_doctor *d, const char *rest);
/* The same of a training with the examined pipeline and the text of a model. `ranks`: a launcher starts several of them. */
char *doctor_train_command(const struct pst_doctor *d, const char *model, bool ranks, const char *rest);
/* A rate for people: three significant digits. "?": unknown. */
const char *doctor_figure(char *buffer, size_t size, double v);

#endif
