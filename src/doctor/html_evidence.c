/* html_evidence.c: what the verdict rests on: the step, stages, stacks, timeline, sweeps, images, limits. See html.h. */
#include "base/memory.h"
#include "doctor/html.h"

#include <math.h>
#include <string.h>

#define MOST_BARS   24
#define MOST_IMAGES 12
#define MOST_SWEEPS 4
#define MOST_ROWS   200
#define MOST_NAME   160

/* ---- Bars ---- */

/* Fills bars from an array of objects; the largest has the accent. Returns their number. */
static size_t read_bars(struct sheet *s, struct chart_bar *bars, size_t list, const char *name, const char *value)
{
    size_t count = 0, largest = 0, n = sheet_count(s, list);
    for (size_t i = 0, at = list + 1; i < n && count < MOST_BARS; i++, at = sheet_next(s, at)) {
        double v = sheet_number(s, at, value);
        if (!(v >= 0))
            continue;
        bars[count] = (struct chart_bar){.label = sheet_text(s, at, name),
                                         .value = v,
                                         .low = sheet_number(s, at, "low"),
                                         .high = sheet_number(s, at, "high")};
        largest = v > bars[largest].value ? count : largest;
        count++;
    }
    if (count)
        bars[largest].accent = true;
    return count;
}

void sheet_step(struct sheet *s)
{
    static const char *const names[] = {"waiting for data", "transfer", "compute"};
    static const char *const keys[] = {"wait_ms", "transfer_ms", "compute_ms"};
    size_t step = sheet_child(s, 0, "step"), count = 0;
    struct chart_bar bars[3], layers[MOST_BARS];
    for (size_t i = 0; i < 3; i++) {
        double v = sheet_number(s, step, keys[i]);
        if (v >= 0)
            bars[count++] = (struct chart_bar){.label = names[i], .value = v, .accent = i == 0};
    }
    if (count) {
        page_heading(&s->page, "One training step");
        chart_bars(&s->page, &(struct bar_chart){.title = sheet_format(s, "A step takes %s",
                                                                       sheet_duration(s, 1e-3 * sheet_number(s, step, "ms"))),
                                                 .description = "The parts of one step in milliseconds.",
                                                 .unit = "ms",
                                                 .bars = bars,
                                                 .count = count});
    }
    count = read_bars(s, layers, sheet_child(s, step, "layers"), "name", "ms");
    if (count)
        chart_bars(&s->page, &(struct bar_chart){.title = "Layers of the model",
                                                 .description = "Milliseconds per step by layer.",
                                                 .unit = "ms",
                                                 .bars = layers,
                                                 .count = count});
}

/* Cores that all stages need together, beside those that there are. */
static const char *cores_words(struct sheet *s, size_t list)
{
    double sum = 0, cores = sheet_number(s, sheet_child(s, 0, "limits"), "cores");
    size_t n = sheet_count(s, list);
    for (size_t i = 0, at = list + 1; i < n; i++, at = sheet_next(s, at)) {
        double need = sheet_number(s, at, "cores");
        sum += isfinite(need) ? need : 0;
    }
    if (!(sum > 0))
        return "";
    return isfinite(cores)
               ? sheet_format(s, "All stages together use %s of %s cores.", sheet_figure(s, sum), sheet_figure(s, cores))
               : sheet_format(s, "All stages together use %s cores.", sheet_figure(s, sum));
}

void sheet_stages(struct sheet *s)
{
    struct chart_bar bars[MOST_BARS];
    size_t list = sheet_child(s, 0, "stages"), count = read_bars(s, bars, list, "name", "us_per_sample");
    const char *stage = sheet_text(s, sheet_child(s, 0, "verdict"), "stage"), *cores = cores_words(s, list);
    for (size_t i = 0; i < count && stage[0]; i++)
        bars[i].accent = bars[i].accent || strcmp(bars[i].label, stage) == 0;
    if (!count)
        return;
    page_heading(&s->page, "Cost of each stage");
    chart_bars(&s->page, &(struct bar_chart){.title = "Time per sample, by stage",
                                             .description = "Microseconds of one core per sample, by stage.",
                                             .unit = "µs",
                                             .bars = bars,
                                             .count = count});
    if (cores[0])
        page_paragraph(&s->page, cores);
}

void sheet_stacks(struct sheet *s)
{
    struct chart_bar bars[MOST_BARS];
    size_t count = read_bars(s, bars, sheet_child(s, 0, "stacks"), "where", "share");
    for (size_t i = 0; i < count; i++)
        bars[i].value *= 100;
    if (!count)
        return;
    page_heading(&s->page, "Where Python spends the time");
    chart_bars(&s->page, &(struct bar_chart){.title = "Functions that were running when a batch was made",
                                             .description = "Share of the sampled stacks, by function.",
                                             .unit = "%",
                                             .bars = bars,
                                             .count = count});
}

/* ---- Lines ---- */

/* Reads member `key` of every object of an array. */
static double *read_column(struct sheet *s, size_t list, const char *key, bool *ret_any)
{
    size_t n = sheet_count(s, list);
    double *values = sheet_alloc(s, n + 1, sizeof(*values));
    for (size_t i = 0, at = list + 1; values && i < n; i++, at = sheet_next(s, at)) {
        values[i] = sheet_number(s, at, key);
        *ret_any = *ret_any || isfinite(values[i]);
    }
    return values;
}

static void add_line_chart(struct sheet *s, size_t list, const char *x_key, const char *y_key, const struct line_chart *like)
{
    bool any_x = false, any_y = false;
    struct chart_line line = {.label = like->y_label, .count = sheet_count(s, list), .accent = true};
    struct line_chart chart = *like;
    line.x = read_column(s, list, x_key, &any_x);
    line.y = read_column(s, list, y_key, &any_y);
    chart.lines = &line;
    chart.count = 1;
    if (line.x && line.y && any_x && any_y)
        chart_lines(&s->page, &chart);
}

void sheet_timeline(struct sheet *s)
{
    size_t list = sheet_child(s, 0, "timeline");
    if (sheet_count(s, list) < 2)
        return;
    page_heading(&s->page, "Timeline");
    add_line_chart(s, list, "seconds", "samples_per_s",
                   &(struct line_chart){.title = "Rate while measuring",
                                        .description = "Samples per second by time.",
                                        .x_label = "seconds",
                                        .y_label = "samples/s",
                                        .from_zero = true});
    add_line_chart(s, list, "seconds", "wait_share",
                   &(struct line_chart){.title = "Share of the time spent waiting for data",
                                        .description = "Waiting share, 0 to 1, by time.",
                                        .x_label = "seconds",
                                        .y_label = "waiting",
                                        .from_zero = true});
}

void sheet_sweeps(struct sheet *s)
{
    size_t list = sheet_child(s, 0, "sweeps"), n = sheet_count(s, list);
    for (size_t i = 0, at = list + 1; i < n && i < MOST_SWEEPS; i++, at = sheet_next(s, at)) {
        const char *by = sheet_text(s, at, "by");
        if (i == 0)
            page_heading(&s->page, "Other settings");
        add_line_chart(s, sheet_child(s, at, "points"), "value", "samples_per_s",
                       &(struct line_chart){.title = sheet_format(s, "Samples per second by %s", by),
                                            .description = sheet_format(s, "Measured rate for several values of %s.", by),
                                            .x_label = by,
                                            .y_label = "samples/s",
                                            .from_zero = true});
    }
}

/* ---- Images ---- */

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = c ? strchr(digits, c) : NULL;
    return found ? (int)(found - digits) : -1;
}

/* Returns the bytes of a text in base64; 0 bytes if it is something else. */
static size_t decode_base64(struct sheet *s, const char *text, const void **ret)
{
    size_t length = strlen(text), count = 0;
    uint8_t *bytes = sheet_alloc(s, length + 1, 1);
    uint32_t bits = 0;
    for (size_t i = 0; bytes && i < length && text[i] != '='; i++) {
        int digit = base64_digit(text[i]);
        if (digit < 0)
            return 0;
        bits = bits << 6 | (uint32_t)digit;
        if (i % 4)
            bytes[count++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    *ret = bytes;
    return count;
}

static bool is_picture(const uint8_t *data, size_t length)
{
    return length > 8 && ((data[0] == 0x89 && data[1] == 'P') || (data[0] == 0xFF && data[1] == 0xD8));
}

static bool read_pair(struct sheet *s, size_t at, struct page_image pair[2])
{
    static const char *const keys[] = {"before", "after"};
    bool both = true;
    for (size_t k = 0; k < 2; k++) {
        pair[k] = (struct page_image){.caption = sheet_format(s, "%s: %s", keys[k], sheet_text(s, at, "caption"))};
        pair[k].length = decode_base64(s, sheet_text(s, at, keys[k]), &pair[k].data);
        both = both && pair[k].length && is_picture(pair[k].data, pair[k].length);
    }
    return both;
}

void sheet_images(struct sheet *s)
{
    struct page_image images[MOST_IMAGES];
    size_t list = sheet_child(s, 0, "images"), n = sheet_count(s, list), count = 0;
    for (size_t i = 0, at = list + 1; i < n && count + 2 <= MOST_IMAGES; i++, at = sheet_next(s, at))
        count += read_pair(s, at, &images[count]) ? 2 : 0;
    if (count) {
        page_heading(&s->page, "Samples before and after");
        page_image_pairs(&s->page, "The middle of samples, pixel by pixel, without and with the remedies that change pixels", images, count);
    }
}

/* ---- Everything else, as tables ---- */

static bool ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static const char *value_words(struct sheet *s, const char *name, size_t at)
{
    bool yes = false;
    double value = sheet_number(s, at, NULL);
    if (json_get_bool(&s->doc, at, &yes))
        return yes ? "yes" : "no";
    if (!isfinite(value))
        return sheet_text(s, at, NULL);
    if (ends_with(name, "bytes_per_s"))
        return sheet_format(s, "%s/s", sheet_bytes(s, value));
    if (ends_with(name, "bytes"))
        return sheet_bytes(s, value);
    if (ends_with(name, "seconds"))
        return sheet_duration(s, value);
    if (ends_with(name, "share"))
        return sheet_share(s, value);
    if (ends_with(name, "measured_at"))
        return sheet_date(s, value);
    return sheet_figure(s, value);
}

struct rows {
    const char **cells;
    size_t count;
};

static void add_row(struct sheet *s, struct rows *r, const char *name, size_t at)
{
    const char *value = value_words(s, name, at);
    if (r->count == MOST_ROWS || !value[0])
        return;
    char *words = sheet_alloc(s, strlen(name) + 1, 1);
    for (size_t i = 0; words && name[i]; i++)
        words[i] = name[i] == '_' ? ' ' : name[i];
    r->cells[2 * r->count] = words ? words : "";
    r->cells[2 * r->count + 1] = value;
    r->count++;
}

/* The document bounds the depth; the items of a container lie between it and its `next`. */
static void collect(struct sheet *s, struct rows *r, const char *name, size_t at)
{
    const struct json_item *item = &s->doc.items[at];
    if (item->kind < JSON_ARRAY) {
        add_row(s, r, name, at);
        return;
    }
    for (size_t i = 0, k = at + 1; i < item->count && r->count < MOST_ROWS && !s->failed; i++) {
        bool object = item->kind == JSON_OBJECT;
        size_t value = object ? sheet_next(s, k) : k;
        const char *key = object ? sheet_text(s, k, NULL) : sheet_format(s, "%zu", i + 1);
        const char *full = name[0] ? sheet_format(s, "%.*s %.*s", MOST_NAME, name, MOST_NAME, key) : key;
        collect(s, r, full, value);
        k = sheet_next(s, value);
    }
}

void sheet_members(struct sheet *s, const char *key, const char *title)
{
    static const char *const headings[] = {"Name", "Value"};
    size_t at = sheet_child(s, 0, key);
    struct rows rows = {.cells = sheet_alloc(s, 2 * (size_t)MOST_ROWS, sizeof(*rows.cells))};
    if (at == JSON_ABSENT || !rows.cells)
        return;
    collect(s, &rows, "", at);
    if (!rows.count)
        return;
    page_fold_begin(&s->page, title);
    page_table(&s->page, &(struct page_table){.headings = headings, .cells = rows.cells, .columns = 2, .rows = rows.count});
    page_fold_end(&s->page);
}
