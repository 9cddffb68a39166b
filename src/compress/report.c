/* report.c: a compression as one HTML page: what it brought, accuracy against speed, the table. */
#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "io/publish.h"
#include "report/chart.h"
#include <penstock/compress.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COLUMNS 11
#define CELL    80

static void amount(char cell[CELL], double x)
{
    figure_number(cell, x);
}

static void fill_row(char (*cells)[CELL], const pst_compress_variant *v)
{
    char bytes[32];
    snprintf(cells[0], CELL, "%s", v->name);
    snprintf(cells[1], CELL, "%s", v->accepted ? "yes" : "no: loses too much");
    snprintf(cells[2], CELL, "%.2f", 100 * v->accuracy);
    snprintf(cells[3], CELL, "%.4f", v->loss);
    snprintf(cells[4], CELL, "%" PRIu64, v->parameters);
    snprintf(cells[5], CELL, "%" PRIu64, v->nonzero);
    snprintf(cells[6], CELL, "%s", text_bytes(v->file_bytes, bytes, sizeof(bytes)));
    amount(cells[7], 1e-6 * (double)v->flops);
    amount(cells[8], 1e3 * v->latency1);
    amount(cells[9], 1e3 * v->latency64);
    snprintf(cells[10], CELL, "%s", text_bytes(v->memory, bytes, sizeof(bytes)));
}

static void put_table(struct page *p, const pst_compress_result *r, struct text *to)
{
    static const char *const headings[COLUMNS] = {"variant", "within bound", "accuracy, %", "loss", "parameters", "not zero", "file",
                                                  "MFLOP", "1 image, ms", "64 images, ms", "memory"};
    char(*cells)[CELL] = mem_array(r->count * COLUMNS + 1, CELL);
    const char **list = mem_array(r->count * COLUMNS + 1, sizeof(*list));
    to->failed |= !cells || !list;
    for (size_t i = 0; cells && list && i < r->count; i++) {
        fill_row(cells + i * COLUMNS, &r->variants[i]);
        for (size_t k = 0; k < COLUMNS; k++)
            list[i * COLUMNS + k] = cells[i * COLUMNS + k];
    }
    if (cells && list)
        page_table(p, &(struct page_table){.title = "Every variant",
                                           .headings = headings,
                                           .cells = list,
                                           .columns = COLUMNS,
                                           .rows = r->count,
                                           .numbers = 0x7fc,
                                           .stacked = true});
    mem_free(cells);
    mem_free(list);
}

/* The layers of the result: weights, zeros, bits. */
static void put_layers(struct page *p, const pst_compress_result *r, struct text *to)
{
    static const char *const headings[] = {"layer", "weights", "zeros, %", "bits"};
    enum { WIDTH = sizeof(headings) / sizeof(headings[0]) };
    char(*cells)[CELL] = mem_array(r->layer_count * WIDTH + 1, CELL);
    const char **list = mem_array(r->layer_count * WIDTH + 1, sizeof(*list));
    to->failed |= !cells || !list;
    for (size_t i = 0; cells && list && i < r->layer_count; i++) {
        const pst_compress_layer *l = &r->layers[i];
        char(*row)[CELL] = cells + i * WIDTH;
        snprintf(row[0], CELL, "%s", l->name);
        snprintf(row[1], CELL, "%" PRIu64, l->weights);
        snprintf(row[2], CELL, "%.1f", l->weights ? 100 * (1 - (double)l->nonzero / (double)l->weights) : 0);
        snprintf(row[3], CELL, "%u", l->bits);
        for (size_t k = 0; k < WIDTH; k++)
            list[i * WIDTH + k] = row[k];
    }
    if (cells && list && r->layer_count)
        page_table(p, &(struct page_table){.title = "Layers of the result",
                                           .headings = headings,
                                           .cells = list,
                                           .columns = WIDTH,
                                           .rows = r->layer_count,
                                           .numbers = 0xe});
    mem_free(cells);
    mem_free(list);
}

static double speed_of(const pst_compress_variant *v)
{
    return 64 / v->latency64;
}

/* Whether no other variant within the bound is as fast and as accurate, and better in one of both. Of equal ones the first counts. */
static bool on_front(const pst_compress_result *r, size_t i)
{
    const pst_compress_variant *v = &r->variants[i];
    for (size_t k = 0; k < r->count; k++) {
        const pst_compress_variant *o = &r->variants[k];
        bool better = speed_of(o) > speed_of(v) || o->accuracy > v->accuracy || k < i;
        if (k != i && o->accepted && better && speed_of(o) >= speed_of(v) && o->accuracy >= v->accuracy)
            return false;
    }
    return v->accepted;
}

/* The points of the front, the slowest first. Returns their number. */
static size_t find_front(const pst_compress_result *r, double *x, double *y)
{
    size_t count = 0;
    for (size_t i = 0; i < r->count; i++) {
        if (!on_front(r, i))
            continue;
        size_t at = count++;
        for (; at > 0 && x[at - 1] > speed_of(&r->variants[i]); at--) {
            x[at] = x[at - 1];
            y[at] = y[at - 1];
        }
        x[at] = speed_of(&r->variants[i]);
        y[at] = 100 * r->variants[i].accuracy;
    }
    return count;
}

/* Accuracy against images per second: a point per variant, and the line through those that no other one surpasses. */
static void put_frontier(struct page *p, const pst_compress_result *r, struct text *to)
{
    double *x = mem_array(2 * r->count + 1, sizeof(*x)), *y = mem_array(2 * r->count + 1, sizeof(*y));
    struct chart_line *lines = mem_array(r->count + 2, sizeof(*lines));
    size_t count = 0, front = 0;
    to->failed |= !x || !y || !lines;
    if (!to->failed) {
        front = find_front(r, x, y);
        lines[count++] = (struct chart_line){.label = "the best", .x = x, .y = y, .count = front, .accent = true};
    }
    for (size_t i = 0, at = front; !to->failed && i < r->count; i++, at++) {
        x[at] = speed_of(&r->variants[i]);
        y[at] = 100 * r->variants[i].accuracy;
        lines[count++] = (struct chart_line){.label = r->variants[i].name, .x = x + at, .y = y + at, .count = 1, .accent = i == r->chosen};
    }
    if (!to->failed)
        chart_lines(p, &(struct line_chart){.title = "Accuracy against speed",
                                            .description = "One point per variant: images per second at a batch of 64, and accuracy on the "
                                                           "validation data. The line joins those within the bound that no other one surpasses in both.",
                                            .x_label = "images per second, batch 64",
                                            .y_label = "accuracy, %",
                                            .lines = lines,
                                            .count = count});
    mem_free(x);
    mem_free(y);
    mem_free(lines);
}

static void put_bars(struct page *p, const pst_compress_result *r, struct text *to)
{
    struct chart_bar *bars = mem_array(r->count + 1, sizeof(*bars));
    to->failed |= !bars;
    for (size_t i = 0; bars && i < r->count; i++)
        bars[i] = (struct chart_bar){.label = r->variants[i].name, .value = (double)r->variants[i].file_bytes / 1024, .accent = i == r->chosen};
    if (bars)
        chart_bars(p, &(struct bar_chart){.title = "Bytes of the weights in a file", .description = "One bar per variant.", .unit = " KiB", .bars = bars, .count = r->count});
    mem_free(bars);
}

/* What the accuracy did, to two digits of a percentage point. */
static const char *price_of(const pst_compress_variant *before, const pst_compress_variant *after, char *buffer, size_t size)
{
    double points = 100 * (after->accuracy - before->accuracy);
    if (fabs(points) < 0.005)
        snprintf(buffer, size, "with the same accuracy");
    else
        snprintf(buffer, size, "for %.2f points of accuracy %s", fabs(points), points < 0 ? "less" : "more");
    return buffer;
}

pst_status pst_compress_report(const pst_compress_result *result, const char *title, const char *path, pst_error *reterr)
{
    pst_compress_result given = {0}, *r = &given;
    pst_status st = options_take(&given, sizeof(given), result, reterr);
    if (st < 0)
        return st;
    struct text to = {0};
    struct page p;
    char sentence[320], price[64];
    if (r->count == 0)
        return pst_fail(reterr, PST_EINVAL, "there is no variant to report");
    const pst_compress_variant *a = &r->variants[0], *b = &r->variants[r->chosen];
    page_begin(&p, &to, title);
    if (r->chosen)
        snprintf(sentence, sizeof(sentence), "%.1f times smaller and %.1f times as fast at a batch of 64, %s.",
                 (double)a->file_bytes / (double)(b->file_bytes ? b->file_bytes : 1), a->latency64 / b->latency64, price_of(a, b, price, sizeof(price)));
    else
        snprintf(sentence, sizeof(sentence), "Nothing was kept: every step lost more accuracy than allowed.");
    page_sentence(&p, sentence);
    put_frontier(&p, r, &to);
    put_bars(&p, r, &to);
    put_table(&p, r, &to);
    put_layers(&p, r, &to);
    page_end(&p);
    st = to.failed ? fail_memory(reterr, "writing the report") : publish_bytes(path, to.data, to.length, true, false, reterr);
    text_finish(&to);
    return st;
}
