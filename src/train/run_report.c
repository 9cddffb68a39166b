/* run_report.c: see run_report.h. */
#include "train/run_report.h"

#include "base/digits.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/publish.h"
#include "report/chart.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void run_results_take(struct run_results *r, pst_evaluation *e, struct mistakes *m, uint64_t step, bool best)
{
    if (best || !r->best) {
        mem_free(r->evaluation.confusion);
        mistakes_finish(&r->mistakes);
        r->evaluation = *e;
        r->mistakes = *m;
        r->step = step;
        r->best |= best;
        r->has_evaluation = true;
    } else {
        mem_free(e->confusion);
        mistakes_finish(m);
    }
}

void run_results_finish(struct run_results *r)
{
    mem_free(r->evaluation.confusion);
    mistakes_finish(&r->mistakes);
    *r = (struct run_results){0};
}

/* ---- Curves ---- */

enum column { EPOCH, STEP, LOSS, ACCURACY, VAL_LOSS, VAL_ACCURACY, COLUMNS };

/* The columns of epochs.csv; empty cells are NaN. */
struct curves {
    double *column[COLUMNS];
    size_t count;
};

static void curves_finish(struct curves *c)
{
    for (size_t k = 0; k < COLUMNS; k++)
        mem_free(c->column[k]);
}

static bool curves_read(struct curves *c, const char *table)
{
    size_t lines = 0;
    for (const char *s = table; s && (s = strchr(s, '\n')) != NULL; s++)
        lines++;
    for (size_t k = 0; k < COLUMNS; k++)
        if (!(c->column[k] = mem_array(lines + 1, sizeof(double))))
            return false;
    const char *line = table ? strchr(table, '\n') : NULL;
    while (line && line[1]) {
        const char *s = line + 1;
        for (size_t k = 0; k < COLUMNS; k++) {
            char *end;
            double x = digits_double(s, &end);
            c->column[k][c->count] = end == s ? NAN : x;
            s = strchr(s, ',');
            if (!s)
                return true;
            s++;
        }
        c->count++;
        line = strchr(line + 1, '\n');
    }
    return true;
}

static bool has_values(const struct curves *c, enum column k)
{
    for (size_t i = 0; i < c->count; i++)
        if (isfinite(c->column[k][i]))
            return true;
    return false;
}

static void put_curves(struct page *p, struct curves *c, enum column training, enum column validation, const char *title, const char *unit,
                       double scale)
{
    struct chart_line lines[2];
    size_t count = 0;
    const enum column columns[2] = {training, validation};
    for (size_t k = 0; k < 2; k++) {
        if (!has_values(c, columns[k]))
            continue;
        for (size_t i = 0; i < c->count; i++)
            c->column[columns[k]][i] *= scale;
        lines[count++] = (struct chart_line){
            .label = k ? "validation" : "training", .x = c->column[EPOCH], .y = c->column[columns[k]], .count = c->count, .accent = k == 1};
    }
    if (count == 0)
        return;
    lines[0].accent |= count == 1;
    chart_lines(p, &(struct line_chart){.title = title,
                                        .description = "One line for training data and one for validation data, by epoch.",
                                        .x_label = "epoch",
                                        .y_label = unit,
                                        .lines = lines,
                                        .count = count,
                                        .from_zero = training == LOSS});
}

/* ---- The answer ---- */

static void put_answer(struct page *p, const pst_trainer *t, const pst_run_progress *last, const struct run_results *r)
{
    char text[320], number[FIGURE_SIZE];
    const pst_evaluation *e = &r->evaluation;
    const char *where = r->best ? "at its best" : "at the end";
    if (r->has_evaluation && isfinite(e->accuracy))
        snprintf(text, sizeof(text), "The model is right about %s %% of the %" PRIu64 " validation samples %s, after step %" PRIu64 ".",
                 figure_number(number, 100 * e->accuracy), e->samples, where, r->step);
    else if (r->has_evaluation && isfinite(e->mae))
        snprintf(text, sizeof(text), "The model is off by %s on average over %" PRIu64 " validation samples %s, after step %" PRIu64 ".",
                 figure_number(number, e->mae), e->samples, where, r->step);
    else if (r->has_evaluation)
        snprintf(text, sizeof(text), "The validation loss is %s %s, after step %" PRIu64 ".", figure_number(number, e->loss), where, r->step);
    else
        snprintf(text, sizeof(text), "The training loss is %s after step %" PRIu64 ". There was no validation.",
                 figure_number(number, last->loss), t->steps);
    page_sentence(p, text);
}

static void put_metrics(struct page *p, const pst_evaluation *e)
{
    const struct {
        const char *name;
        double value;
    } rows[] = {{"loss", e->loss},   {"accuracy, %", 100 * e->accuracy}, {"among the 5 most likely, %", e->classes > 5 ? 100 * e->top5 : NAN},
                {"AUC", e->auc},     {"F1", e->f1},                      {"mean absolute error", e->mae},
                {"R²", e->r2}};
    char numbers[7][FIGURE_SIZE];
    const char *cells[14], *headings[] = {"metric", "value"};
    size_t count = 0;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (isfinite(rows[i].value)) {
            cells[2 * count] = rows[i].name;
            cells[2 * count + 1] = figure_number(numbers[count], rows[i].value);
            count++;
        }
    page_table(p, &(struct page_table){.title = "Validation", .headings = headings, .cells = cells, .columns = 2, .rows = count, .numbers = 2});
}

/* ---- Classes and mistakes ---- */

/* The name of a class, or its number in `buffer`. */
static const char *class_name(const pst_run_options *o, size_t i, char buffer[24])
{
    if (o->classes && i < o->class_count)
        return o->classes[i];
    snprintf(buffer, 24, "%zu", i);
    return buffer;
}

static void put_confusion(struct page *p, const pst_run_options *o, const pst_evaluation *e)
{
    char (*numbers)[24] = mem_array(e->classes, sizeof(*numbers));
    const char **names = mem_array(e->classes, sizeof(*names));
    p->to->failed |= !numbers || !names;
    for (size_t i = 0; numbers && names && i < e->classes; i++)
        names[i] = class_name(o, i, numbers[i]);
    if (numbers && names)
        chart_confusion(p, &(struct confusion_chart){.title = "Confusion matrix",
                                                     .description = "Rows are true classes, columns are predicted classes.",
                                                     .classes = names,
                                                     .counts = e->confusion,
                                                     .count = e->classes});
    mem_free(numbers);
    mem_free(names);
}

static void caption(const pst_trainer *t, const pst_run_options *o, const struct mistake *m, char ret[320])
{
    char a[24], b[24], x[FIGURE_SIZE], y[FIGURE_SIZE];
    bool classes = t->options.loss != PST_LOSS_MSE && (t->options.loss != PST_LOSS_BINARY || t->width == 1);
    if (classes)
        snprintf(ret, 320, "%.60s, taken for %.60s (%s %%)%s%s", class_name(o, (size_t)m->wanted, a), class_name(o, (size_t)m->found, b),
                 figure_number(x, 100 * m->probability), m->place[0] ? " · " : "", m->place);
    else
        snprintf(ret, 320, "%s wanted, %s found%s%s", figure_number(x, m->wanted), figure_number(y, m->found), m->place[0] ? " · " : "", m->place);
}

static void put_mistakes(struct page *p, const pst_trainer *t, const pst_run_options *o, const struct mistakes *m)
{
    struct page_image images[MISTAKES];
    char captions[MISTAKES][320];
    size_t count = 0;
    pst_shape shape = pst_model_input(t->model);
    for (size_t i = 0; i < m->count; i++) {
        uint8_t *png = NULL;
        size_t length = 0;
        if (picture_encode(&shape, m->list[i].dtype, m->list[i].data, &png, &length, NULL) < 0)
            continue;
        caption(t, o, &m->list[i], captions[count]);
        images[count] = (struct page_image){.data = png, .length = length, .caption = captions[count]};
        count++;
    }
    if (count)
        page_images(p, "The worst mistakes: the validation samples with the largest loss", images, count);
    for (size_t i = 0; i < count; i++)
        mem_free((void *)(uintptr_t)images[i].data);
}

/* ---- Time and settings ---- */

static void put_times(struct page *p, const struct run_results *r)
{
    double total = r->computing + r->waiting + r->validating + r->saving;
    double steps = r->computing + r->waiting, waited = steps > 0 ? r->waiting / steps : 0;
    char text[300], share[FIGURE_SIZE];
    const struct chart_bar bars[] = {{.label = "training steps", .value = r->computing},
                                     {.label = "waiting for data", .value = r->waiting, .accent = r->waiting > 0.1 * total},
                                     {.label = "validation", .value = r->validating},
                                     {.label = "saving checkpoints", .value = r->saving}};
    page_heading(p, "Time");
    snprintf(text, sizeof(text), "Waiting for data took %s %% of the time of training steps: the run was %s.%s", figure_number(share, 100 * waited),
             waited < 0.05 ? "consumer-bound" : waited <= 0.2 ? "balanced" : "input-bound", /* the doctor's words and limits */
             waited < 0.05 ? "" : " \"penstock doctor --model\" with the folder of this run names the cause, and says what each remedy would bring.");
    page_paragraph(p, text);
    chart_bars(p, &(struct bar_chart){.title = "Where the time went",
                                      .description = "Seconds of this process by kind of work.",
                                      .unit = "s",
                                      .bars = bars,
                                      .count = sizeof(bars) / sizeof(bars[0])});
}

static void put_settings(struct page *p, const pst_trainer *t, const pst_run_options *o)
{
    struct text command = {0};
    text_add(&command, "penstock train");
    for (size_t i = 0; o->arguments && i < o->argument_count; i++) {
        text_add(&command, " ");
        text_add_shell(&command, o->arguments[i]);
    }
    page_fold_begin(p, "Model, data and command");
    page_paragraph(p, "Model:");
    page_command(p, t->model->text);
    if (o->pipeline) {
        page_paragraph(p, "Training data:");
        page_command(p, o->pipeline);
    }
    if (o->validation) {
        page_paragraph(p, "Validation data:");
        page_command(p, o->validation);
    }
    if (o->arguments && !command.failed) {
        page_paragraph(p, "Command:");
        page_command(p, command.data);
    }
    page_fold_end(p);
    p->to->failed |= command.failed;
    text_finish(&command);
}

static void put_page(struct text *to, pst_trainer *t, const pst_run_options *o, const pst_run_progress *last, const struct run_results *r,
                     struct curves *c)
{
    struct page p;
    char title[220];
    snprintf(title, sizeof(title), "Training run %.180s", file_base(o->out));
    page_begin(&p, to, title);
    put_answer(&p, t, last, r);
    put_curves(&p, c, LOSS, VAL_LOSS, "Loss by epoch", "loss", 1);
    put_curves(&p, c, ACCURACY, VAL_ACCURACY, "Accuracy by epoch", "%", 100);
    if (r->has_evaluation) {
        put_metrics(&p, &r->evaluation);
        if (r->evaluation.confusion)
            put_confusion(&p, o, &r->evaluation);
        put_mistakes(&p, t, o, &r->mistakes);
    }
    put_times(&p, r);
    put_settings(&p, t, o);
    page_end(&p);
}

pst_status run_report_write(pst_trainer *t, const pst_run_options *o, const pst_run_progress *last, const struct run_results *r,
                            const char *table, pst_error *reterr)
{
    struct text page = {0};
    struct curves c = {0};
    char *path = file_join(o->out, "report.html");
    pst_status st = path && curves_read(&c, table) ? PST_OK : fail_memory(reterr, "writing the report");
    if (st == PST_OK) {
        put_page(&page, t, o, last, r, &c);
        st = page.failed ? fail_memory(reterr, "writing the report") : publish_bytes(path, page.data, page.length, true, false, reterr);
    }
    curves_finish(&c);
    text_finish(&page);
    mem_free(path);
    return st;
}
