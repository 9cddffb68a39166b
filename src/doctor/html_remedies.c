/* html_remedies.c: what each remedy would bring: the picture, the table, the commands. See html.h. */
#include "doctor/html.h"

#include <math.h>
#include <string.h>

#define MOST_STEPS 12 /* remedies in the picture */

/* The quantity that falls: seconds of an epoch where they are known, else of one sample. */
static double cost(const struct sheet *s, size_t at, bool epochs)
{
    double rate = sheet_number(s, at, "samples_per_s");
    return epochs ? sheet_number(s, at, "epoch_seconds") : rate > 0 ? 1 / rate : NAN;
}

static bool is_true(const struct sheet *s, size_t at, const char *key)
{
    bool value = false;
    size_t found = json_find(&s->doc, at, key);
    return found != JSON_ABSENT && json_get_bool(&s->doc, found, &value) && value;
}

static bool is_bound(const struct sheet *s, size_t remedy)
{
    return is_true(s, sheet_child(s, remedy, "predicted"), "upper_bound");
}

/* Returns "predicted; measured 1.3 h" or the one that is known. */
static const char *both_words(struct sheet *s, size_t remedy, double predicted, double measured)
{
    if (isfinite(predicted) && isfinite(measured))
        return sheet_format(s, "predicted; measured %s", sheet_duration(s, measured));
    return isfinite(measured) ? "measured" : is_bound(s, remedy) ? "predicted, at best" : "predicted";
}

static bool fill_step(struct sheet *s, struct chart_step *step, size_t remedy, double now, double before, bool epochs)
{
    double predicted = cost(s, sheet_child(s, remedy, "predicted"), epochs);
    double measured = cost(s, sheet_child(s, remedy, "measured"), epochs);
    double gain = sheet_number(s, sheet_child(s, remedy, "measured"), "gain");
    if (gain > 0 && !(epochs && isfinite(measured))) /* of a sample, beside its own "now" */
        measured = now / gain;
    double after = isfinite(predicted) ? predicted : measured;
    const char *title = sheet_text(s, remedy, "title");
    if (!isfinite(after))
        return false;
    *step = (struct chart_step){.label = title[0] ? sheet_sentence(s, title) : sheet_text(s, remedy, "id"),
                                .before = before,
                                .after = after,
                                .measured = measured,
                                .number = sheet_duration(s, after),
                                .note = both_words(s, remedy, predicted, measured),
                                .predicted = isfinite(predicted)};
    return true;
}

static void add_picture(struct sheet *s, struct chart_step *steps, const bool *bound, size_t count, bool epochs, bool add_up)
{
    size_t best = add_up ? count - 1 : 0;
    for (size_t i = 1; i < count && !add_up; i++)
        best = !bound[i] && steps[i].after < steps[best].after ? i : best;
    steps[best].accent = true;
    chart_waterfall(&s->page, &(struct waterfall_chart){
                                  .title = sheet_format(s, "Time per %s, now and after %s", epochs ? "epoch" : "sample",
                                                        add_up ? "one remedy after the other" : "each remedy alone"),
                                  .description = sheet_format(s, "Now %s; best %s.", steps[0].number, steps[best].number),
                                  .steps = steps,
                                  .count = count});
}

static void add_waterfall(struct sheet *s, const char *key, bool add_up)
{
    size_t now = sheet_child(s, 0, "now"), list = sheet_child(s, 0, key), n = sheet_count(s, list), count = 1;
    bool epochs = isfinite(sheet_number(s, now, "epoch_seconds"));
    struct chart_step *steps = sheet_alloc(s, MOST_STEPS + 1, sizeof(*steps));
    bool bound[MOST_STEPS + 1] = {false}; /* says how good it could be, not how */
    double from = cost(s, now, epochs);
    if (!steps || !isfinite(from) || !n)
        return;
    steps[0] = (struct chart_step){
        .label = "Now", .before = from, .after = from, .measured = NAN, .number = sheet_duration(s, from), .note = "measured"};
    for (size_t i = 0, at = list + 1; i < n && count <= MOST_STEPS; i++, at = sheet_next(s, at))
        if (fill_step(s, &steps[count], at, from, add_up ? steps[count - 1].after : from, epochs))
            bound[count++] = is_bound(s, at);
    if (count > 1)
        add_picture(s, steps, bound, count, epochs, add_up);
}

/* "path" has remedies that add up, each with the result after it and those before it; in "remedies" each stands for itself. */
void sheet_waterfall(struct sheet *s)
{
    bool add_up = sheet_count(s, sheet_child(s, 0, "path")) > 0;
    if (!add_up) {
        add_waterfall(s, "remedies", false);
        return;
    }
    add_waterfall(s, "path", true);
    if (!sheet_count(s, sheet_child(s, 0, "remedies")))
        return;
    page_fold_begin(&s->page, "Each remedy alone");
    add_waterfall(s, "remedies", false);
    page_fold_end(&s->page);
}

static const char *price_words(struct sheet *s, size_t price)
{
    double disk = sheet_number(s, price, "disk_bytes"), ram = sheet_number(s, price, "ram_bytes");
    double seconds = sheet_number(s, price, "seconds"), psnr = sheet_number(s, price, "psnr");
    const char *words = "", *note = sheet_text(s, price, "note");
    if (note[0])
        return note;
    if (disk > 0)
        words = sheet_format(s, "%s of disk", sheet_bytes(s, disk));
    if (ram > 0)
        words = sheet_format(s, "%s%s%s of RAM", words, words[0] ? ", " : "", sheet_bytes(s, ram));
    if (seconds > 0)
        words = sheet_format(s, "%s%s%s once", words, words[0] ? ", " : "", sheet_duration(s, seconds));
    if (isfinite(psnr))
        words = sheet_format(s, "%s%schanged pixels, %s dB", words, words[0] ? ", " : "", sheet_figure(s, psnr));
    return words;
}

static bool unavailable(const struct sheet *s, size_t remedy)
{
    bool available = true;
    size_t at = json_find(&s->doc, remedy, "available");
    return at != JSON_ABSENT && json_get_bool(&s->doc, at, &available) && !available;
}

static bool removes_cause(struct sheet *s, size_t remedy)
{
    const char *cause = sheet_text(s, remedy, "cause");
    return cause[0] && strcmp(cause, sheet_text(s, sheet_child(s, 0, "verdict"), "cause")) == 0;
}

/* What is done, its id, and whether it removes the cause. */
static const char *remedy_words(struct sheet *s, size_t remedy)
{
    const char *title = sheet_text(s, remedy, "title"), *id = sheet_text(s, remedy, "id");
    return title[0] ? sheet_format(s, "%.600s (%.60s%s)", sheet_sentence(s, title), id,
                                   removes_cause(s, remedy) ? "; removes the cause" : "")
                    : id;
}

static const char *at_best(struct sheet *s, size_t remedy, const char *words)
{
    return words[0] && is_bound(s, remedy) ? sheet_format(s, "up to %.60s", words) : words;
}

void sheet_what_if(struct sheet *s)
{
    static const char *const headings[] = {
        "Remedy", "Samples/s, predicted", "Gain", "One epoch", "On a sample, predicted", "On a sample, measured", "Price",
        "Effort"};
    size_t list = sheet_child(s, 0, "remedies"), n = sheet_count(s, list);
    const char **cells = n ? sheet_alloc(s, n * 8, sizeof(*cells)) : NULL;
    if (!cells)
        return;
    for (size_t i = 0, at = list + 1; i < n; i++, at = sheet_next(s, at)) {
        size_t predicted = sheet_child(s, at, "predicted"), measured = sheet_child(s, at, "measured");
        size_t known = predicted != JSON_ABSENT ? predicted : measured;
        const char **row = cells + 8 * i, *effort = sheet_text(s, at, "effort");
        row[0] = remedy_words(s, at);
        row[1] =
            unavailable(s, at) ? "not predicted" : at_best(s, at, sheet_rate(s, sheet_number(s, predicted, "samples_per_s")));
        row[2] = at_best(s, at, sheet_times(s, sheet_number(s, known, "gain")));
        row[3] = sheet_duration(s, sheet_number(s, known, "epoch_seconds"));
        row[4] = sheet_rate(s, sheet_number(s, measured, "predicted_samples_per_s"));
        row[5] = sheet_rate(s, sheet_number(s, measured, "samples_per_s"));
        row[6] = price_words(s, sheet_child(s, at, "price"));
        row[7] = effort[0] ? effort : sheet_figure(s, sheet_number(s, at, "effort"));
    }
    page_heading(&s->page, "What each remedy brings");
    page_paragraph(&s->page,
                   removes_cause(s, list + 1)
                       ? "What removes the cause stands first; the other remedies follow by their gain for the effort."
                       : "The remedies are ordered by their gain for the effort.");
    page_table(&s->page, &(struct page_table){
                             .headings = headings, .cells = cells, .columns = 8, .rows = n, .numbers = 0x3e, .stacked = true});
}

static void add_pipeline(struct sheet *s, size_t remedy, const char *command)
{
    const char *pipeline = sheet_text(s, remedy, "pipeline"), *diff = sheet_text(s, remedy, "diff");
    if (!diff[0] && (!pipeline[0] || strcmp(pipeline, command) == 0))
        return;
    page_fold_begin(&s->page, "The changed pipeline");
    if (diff[0])
        page_command(&s->page, diff);
    if (pipeline[0])
        page_command(&s->page, pipeline);
    page_fold_end(&s->page);
}

void sheet_commands(struct sheet *s)
{
    size_t list = sheet_child(s, 0, "remedies"), n = sheet_count(s, list), shown = 0;
    for (size_t i = 0, at = list + 1; i < n; i++, at = sheet_next(s, at)) {
        const char *command = sheet_text(s, at, "command"), *pipeline = sheet_text(s, at, "pipeline");
        const char *title = sheet_text(s, at, "title"), *risk = sheet_text(s, at, "risk"),
                   *reason = sheet_text(s, at, "reason");
        if (!command[0] && !pipeline[0] && !reason[0])
            continue;
        if (shown++ == 0)
            page_heading(&s->page, "How to apply them");
        page_paragraph(&s->page, sheet_format(s, "%s%s%s%s%s", title[0] ? sheet_sentence(s, title) : sheet_text(s, at, "id"),
                                              reason[0] ? ": " : "", reason, risk[0] ? ". Risk: " : "", risk));
        if (command[0])
            page_command(&s->page, command);
        add_pipeline(s, at, command);
    }
}
