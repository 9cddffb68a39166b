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

/* Returns "predicted 1.2 h, measured 1.3 h" or the one that is known. */
static const char *both_words(struct sheet *s, double predicted, double measured)
{
    if (isfinite(predicted) && isfinite(measured))
        return sheet_format(s, "predicted; measured %s", sheet_duration(s, measured));
    return isfinite(measured) ? "measured" : "predicted";
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
    *step = (struct chart_step){.label = title[0] ? title : sheet_text(s, remedy, "id"),
                                .before = before,
                                .after = after,
                                .measured = measured,
                                .number = sheet_duration(s, after),
                                .note = both_words(s, predicted, measured),
                                .predicted = isfinite(predicted)};
    return true;
}

static void add_picture(struct sheet *s, struct chart_step *steps, size_t count, bool epochs, bool add_up)
{
    size_t best = 1;
    for (size_t i = 2; i < count; i++)
        best = steps[i].after < steps[best].after ? i : best;
    steps[add_up ? count - 1 : best].accent = true;
    chart_waterfall(&s->page, &(struct waterfall_chart){
                                  .title = sheet_format(s, "Time per %s, now and after %s", epochs ? "epoch" : "sample",
                                                        add_up ? "one remedy after the other" : "each remedy alone"),
                                  .description = sheet_format(s, "Now %s; best %s.", steps[0].number,
                                                              steps[add_up ? count - 1 : best].number),
                                  .steps = steps,
                                  .count = count});
}

/* "path" has remedies that add up, each with the result after it and those before it; without it each remedy of "remedies"
 * stands for itself. */
void sheet_waterfall(struct sheet *s)
{
    size_t now = sheet_child(s, 0, "now"), path = sheet_child(s, 0, "path");
    bool add_up = sheet_count(s, path) > 0, epochs = isfinite(sheet_number(s, now, "epoch_seconds"));
    size_t list = add_up ? path : sheet_child(s, 0, "remedies"), n = sheet_count(s, list), count = 1;
    struct chart_step *steps = sheet_alloc(s, MOST_STEPS + 1, sizeof(*steps));
    double from = cost(s, now, epochs);
    if (!steps || !isfinite(from) || !n)
        return;
    steps[0] = (struct chart_step){
        .label = "now", .before = from, .after = from, .measured = NAN, .number = sheet_duration(s, from), .note = "measured"};
    for (size_t i = 0, at = list + 1; i < n && count <= MOST_STEPS; i++, at = sheet_next(s, at))
        if (fill_step(s, &steps[count], at, from, add_up ? steps[count - 1].after : from, epochs))
            count++;
    if (count > 1)
        add_picture(s, steps, count, epochs, add_up);
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

void sheet_what_if(struct sheet *s)
{
    static const char *const headings[] = {
        "Remedy", "Samples/s, predicted", "Gain", "One epoch", "On a sample, predicted", "On a sample, measured", "Price", "Effort"};
    size_t list = sheet_child(s, 0, "remedies"), n = sheet_count(s, list);
    const char **cells = n ? sheet_alloc(s, n * 8, sizeof(*cells)) : NULL;
    if (!cells)
        return;
    for (size_t i = 0, at = list + 1; i < n; i++, at = sheet_next(s, at)) {
        size_t predicted = sheet_child(s, at, "predicted"), measured = sheet_child(s, at, "measured");
        size_t known = predicted != JSON_ABSENT ? predicted : measured;
        const char **row = cells + 8 * i, *title = sheet_text(s, at, "title"), *effort = sheet_text(s, at, "effort");
        row[0] = title[0] ? sheet_format(s, "%s (%s)", title, sheet_text(s, at, "id")) : sheet_text(s, at, "id");
        row[1] = unavailable(s, at) ? "not predicted" : sheet_figure(s, sheet_number(s, predicted, "samples_per_s"));
        row[2] = sheet_times(s, sheet_number(s, known, "gain"));
        row[3] = sheet_duration(s, sheet_number(s, known, "epoch_seconds"));
        row[4] = sheet_figure(s, sheet_number(s, measured, "predicted_samples_per_s"));
        row[5] = sheet_figure(s, sheet_number(s, measured, "samples_per_s"));
        row[6] = price_words(s, sheet_child(s, at, "price"));
        row[7] = effort[0] ? effort : sheet_figure(s, sheet_number(s, at, "effort"));
    }
    page_heading(&s->page, "What each remedy brings");
    page_table(&s->page, &(struct page_table){
                             .headings = headings, .cells = cells, .columns = 8, .rows = n, .numbers = 0x3e, .stacked = true});
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
        page_paragraph(&s->page, sheet_format(s, "%s%s%s%s%s", title[0] ? title : sheet_text(s, at, "id"),
                                              reason[0] ? ": " : "", reason, risk[0] ? ". Risk: " : "", risk));
        if (command[0])
            page_command(&s->page, command);
        if (pipeline[0] && strcmp(pipeline, command) != 0)
            page_command(&s->page, pipeline);
    }
}
