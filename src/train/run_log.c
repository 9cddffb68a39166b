/* run_log.c: see run_log.h. */
#include "train/run_log.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/publish.h"
#include "train/run_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_TABLE ((size_t)64 << 20)
#define MOST_FILES 1000 /* that begin within one second */
#define PICTURES   4

static const char heading[] = "epoch,step,loss,accuracy,val_loss,val_accuracy,lr,images_per_s,wait_share";

/* The columns after those of every run. */
static const char *metric_columns(pst_loss loss)
{
    switch (loss) {
    case PST_LOSS_SPARSE:
    case PST_LOSS_CATEGORICAL:
        return ",val_f1";
    case PST_LOSS_BINARY:
        return ",val_auc,val_f1";
    case PST_LOSS_MSE:
        return ",val_mae,val_r2";
    default:
        return "";
    }
}

static size_t count_commas(const char *from, const char *to)
{
    size_t count = 0;
    for (; from < to; from++)
        count += *from == ',';
    return count;
}

/* Seconds since 1970, as event files have them. */
static double wall_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* An epoch has one row: the one of its first part goes where another follows. */
static void begin_row(struct run_log *l, uint64_t epoch)
{
    if (l->last_epoch == epoch && !l->rows.failed) {
        l->rows.length = l->last_row;
        l->rows.data[l->rows.length] = '\0';
    }
    l->last_epoch = epoch;
    l->last_row = l->rows.length;
}

/* Keeps the rows of an earlier part of the run, up to `step`. */
static pst_status read_table(struct run_log *l, uint64_t step, pst_error *reterr)
{
    uint8_t *bytes = NULL;
    size_t length = 0, columns = count_commas(heading, heading + sizeof(heading)) + count_commas(metric_columns(l->loss), strchr(metric_columns(l->loss), 0));
    pst_status st = step ? file_read_all(&bytes, &length, l->table, MAX_TABLE, reterr) : PST_ENOTFOUND;
    if (st < 0 && st != PST_ENOTFOUND)
        return st;
    text_addf(&l->rows, "%s%s\n", heading, metric_columns(l->loss));
    for (char *line = bytes ? strchr((char *)bytes, '\n') : NULL; line && line[1];) {
        char *comma = strchr(line + 1, ','), *end = strchr(line + 1, '\n');
        if (!comma || !end || comma > end || strtoull(comma + 1, NULL, 10) > step)
            break;
        begin_row(l, strtoull(line + 1, NULL, 10));
        text_add_n(&l->rows, line + 1, (size_t)(end - line - 1));
        for (size_t n = count_commas(line, end); n < columns; n++) /* written before there were so many columns */
            text_add(&l->rows, ",");
        text_add(&l->rows, "\n");
        line = end;
    }
    mem_free(bytes);
    return l->rows.failed ? fail_memory(reterr, "reading the log") : PST_OK;
}

/* A run that is resumed by the same process within a second would have the same name: a number follows. */
static pst_status open_events(struct run_log *l, const char *folder, const char *host, uint64_t step, pst_error *reterr)
{
    char name[128];
    pst_status st = PST_EEXIST;
    for (unsigned i = 0; st == PST_EEXIST && i < MOST_FILES; i++) {
        snprintf(name, sizeof(name), i ? "%s.%u" : "%s", host, i);
        st = event_writer_open(&l->events, folder, name, wall_seconds(), step ? (int64_t)step + 1 : 0, reterr);
    }
    return st;
}

pst_status run_log_open(struct run_log *l, const char *run, uint64_t step, pst_loss loss, pst_error *reterr)
{
    l->loss = loss;
    char host[96] = "host";
    char *folder = file_join(run, "logs");
    gethostname(host, 64);
    host[64] = 0;
    snprintf(host + strlen(host), 24, ".%ld", (long)getpid());
    l->table = folder ? file_join(folder, "epochs.csv") : NULL;
    pst_status st = l->table ? file_make_folder(folder, reterr) : fail_memory(reterr, "opening the log");
    if (st == PST_OK)
        st = open_events(l, folder, host, step, reterr);
    l->open = st == PST_OK;
    if (st == PST_OK)
        st = read_table(l, step, reterr);
    mem_free(folder);
    return st;
}

void run_log_step(struct run_log *l, uint64_t step, const pst_step_result *r)
{
    if (!l->open)
        return;
    event_begin(&l->events, (int64_t)step, wall_seconds());
    event_scalar(&l->events, "step/loss", r->loss);
    event_scalar(&l->events, "step/lr", r->rate);
    event_end(&l->events);
    event_relieve(&l->events); /* a failure shows at the end of the epoch */
}

static void scalar(struct event_writer *w, const char *tag, double value)
{
    if (!isnan(value))
        event_scalar(w, tag, value);
}

/* Empty where there is no value. */
static void cell(struct text *t, double value, const char *after)
{
    if (!isnan(value))
        text_addf(t, "%.9g", value);
    text_add(t, after);
}

/* The cells of metric_columns, and the end of the row. */
static void metric_cells(struct run_log *l, const pst_run_progress *p)
{
    bool classes = l->loss == PST_LOSS_SPARSE || l->loss == PST_LOSS_CATEGORICAL, binary = l->loss == PST_LOSS_BINARY, numbers = l->loss == PST_LOSS_MSE;
    const struct {
        bool has;
        double value;
    } all[] = {{binary, p->val_auc}, {binary || classes, p->val_f1}, {numbers, p->val_mae}, {numbers, p->val_r2}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].has) {
            text_add(&l->rows, ",");
            cell(&l->rows, all[i].value, "");
        }
    text_add(&l->rows, "\n");
}

static void validation_scalars(struct run_log *l, const pst_run_progress *p)
{
    if (!p->validated)
        return;
    scalar(&l->events, "val/loss", p->val_loss);
    scalar(&l->events, "val/accuracy", p->val_accuracy);
    scalar(&l->events, "val/auc", p->val_auc);
    scalar(&l->events, "val/f1", p->val_f1);
    scalar(&l->events, "val/mae", p->val_mae);
    scalar(&l->events, "val/r2", p->val_r2);
}

void run_log_validation(struct run_log *l, const pst_run_progress *p)
{
    if (!l->open)
        return;
    event_begin(&l->events, (int64_t)p->step, wall_seconds());
    validation_scalars(l, p);
    event_end(&l->events);
}

pst_status run_log_epoch(struct run_log *l, const pst_run_progress *p, pst_error *reterr)
{
    if (!l->open)
        return PST_OK;
    event_begin(&l->events, (int64_t)p->step, wall_seconds());
    scalar(&l->events, "train/loss", p->loss);
    scalar(&l->events, "train/accuracy", p->accuracy);
    validation_scalars(l, p);
    scalar(&l->events, "speed/images_per_s", p->samples_per_second);
    scalar(&l->events, "speed/wait_share", p->wait_share);
    event_end(&l->events);
    begin_row(l, p->epoch);
    text_addf(&l->rows, "%" PRIu64 ",%" PRIu64 ",", p->epoch, p->step);
    cell(&l->rows, p->loss, ",");
    cell(&l->rows, p->accuracy, ",");
    cell(&l->rows, p->val_loss, ",");
    cell(&l->rows, p->val_accuracy, ",");
    cell(&l->rows, p->rate, ",");
    cell(&l->rows, p->samples_per_second, ",");
    cell(&l->rows, p->wait_share, "");
    metric_cells(l, p);
    if (l->rows.failed)
        return fail_memory(reterr, "writing the log");
    pst_status st = event_flush(&l->events, reterr);
    return st == PST_OK ? publish_bytes(l->table, l->rows.data, l->rows.length, true, false, reterr) : st;
}

/* ---- The model ---- */

static void log_graph(struct run_log *l, const struct graph *g)
{
    struct event_node *nodes = mem_array(g->count + 1, sizeof(*nodes));
    const char **inputs = mem_array(g->count * LAYER_MAX_INPUTS + 1, sizeof(*inputs));
    if (nodes && inputs) {
        nodes[0] = (struct event_node){.name = "input", .kind = "Placeholder"};
        for (size_t i = 0; i < g->count; i++) {
            const struct graph_node *n = &g->nodes[i];
            const char **names = inputs + i * LAYER_MAX_INPUTS;
            for (size_t k = 0; k < n->inputs; k++)
                names[k] = n->input[k] ? g->nodes[n->input[k] - 1].name : "input";
            nodes[i + 1] = (struct event_node){.name = n->name, .kind = n->layer->name, .inputs = names, .count = n->inputs};
        }
        event_graph(&l->events, nodes, g->count + 1, wall_seconds());
    }
    mem_free(nodes);
    mem_free(inputs);
}

void run_log_model(struct run_log *l, const pst_trainer *t)
{
    static const char *const optimizers[] = {"adam", "adamw", "sgd", "nesterov", "lion"};
    static const char *const schedules[] = {"constant", "step", "cosine", "one-cycle", "plateau"};
    const pst_train_options *o = &t->options;
    const struct event_setting settings[] = {{.name = "model", .text = t->model->text},
                                             {.name = "optimizer", .text = optimizers[o->optimizer]},
                                             {.name = "schedule", .text = schedules[o->schedule]},
                                             {.name = "lr", .number = o->rate},
                                             {.name = "batch", .number = (double)o->batch},
                                             {.name = "accumulate", .number = (double)o->accumulate},
                                             {.name = "weight_decay", .number = o->weight_decay},
                                             {.name = "momentum", .number = o->momentum},
                                             {.name = "label_smoothing", .number = o->label_smoothing},
                                             {.name = "ema", .number = o->ema},
                                             {.name = "seed", .number = (double)o->seed}};
    if (!l->open)
        return;
    log_graph(l, t->model->graph);
    event_begin(&l->events, 0, wall_seconds());
    event_settings(&l->events, settings, sizeof(settings) / sizeof(settings[0]), wall_seconds());
    event_text(&l->events, "model", t->model->text);
    event_end(&l->events);
}

void run_log_pictures(struct run_log *l, const pst_trainer *t, const pst_tensor *input)
{
    pst_shape shape = pst_model_input(t->model);
    size_t bytes = pst_dtype_size(input->dtype) * shape_values(&t->model->graph->input);
    if (!l->open)
        return;
    event_begin(&l->events, (int64_t)t->steps, wall_seconds());
    for (size_t i = 0; i < PICTURES && i < input->shape[0]; i++) {
        uint8_t *png = NULL;
        size_t length = 0;
        char tag[32];
        if (picture_encode(&shape, input->dtype, (const char *)input->data + i * bytes, &png, &length, NULL) < 0)
            break;
        snprintf(tag, sizeof(tag), "samples/%zu", i);
        event_image(&l->events, tag, shape.size[1], shape.size[0], shape.size[2], png, length);
        mem_free(png);
    }
    event_end(&l->events);
}

void run_log_histograms(struct run_log *l, const pst_trainer *t)
{
    const struct graph *g = t->model->graph;
    char tag[GRAPH_NAME_SIZE + 48];
    if (!l->open)
        return;
    for (size_t i = 0; i < g->param_count; i++) {
        const struct graph_param *p = &g->params[i];
        event_begin(&l->events, (int64_t)t->steps, wall_seconds());
        snprintf(tag, sizeof(tag), "weights/%s", p->name);
        event_histogram(&l->events, tag, t->params + p->offset, p->count);
        if (!p->layer.fixed) {
            snprintf(tag, sizeof(tag), "gradients/%s", p->name);
            event_histogram(&l->events, tag, t->grads + p->offset, p->count);
        }
        event_end(&l->events);
    }
}

void run_log_close(struct run_log *l)
{
    if (l->open)
        event_writer_commit(&l->events, NULL);
    event_writer_discard(&l->events);
    text_finish(&l->rows);
    mem_free(l->table);
    *l = (struct run_log){0};
}
