/* inspect_report.c: the report in sections, each with its heading at the left; tables are as wide as their content. Names
 * and previews come from the library ready to be printed; paths are cleaned here. */
#include "cli/inspect_report.h"
#include "cli/say.h"
#include "cli/terminal.h"
#include "cli/utf8.h"
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define NAME_COLUMNS  28
#define CLASSES_SHOWN 20
#define PLACES_SHOWN  20
#define BAR_COLUMNS   40

static void put_spaces(size_t n)
{
    printf("%*s", (int)n, "");
}

/* Prints up to `columns` columns of a printable text; returns the columns used. */
static size_t put_cut(const char *s, size_t columns)
{
    size_t n = 0, taken = 0;

    if (utf8_columns(s, strlen(s)) <= columns)
        return put_clean_string(stdout, s);
    while (s[n]) {
        uint32_t c;
        size_t width = utf8_decode(s + n, strlen(s + n), &c);

        width = width ? width : 1;
        if (taken + utf8_columns(s + n, width) + 1 > columns)
            break;
        taken += utf8_columns(s + n, width);
        n += width;
    }
    put_clean(stdout, s, n);
    fputs("…", stdout);
    return taken + 1;
}

static void put_padded(const char *s, size_t columns)
{
    size_t taken = put_cut(s, columns);

    put_spaces(columns - taken + 2);
}

/* Whole numbers in full, others with enough digits to tell them apart. */
static void put_number(double value, bool whole)
{
    if (whole && fabs(value) < 1e15)
        printf("%.0f", value);
    else
        printf("%.5g", value);
}

/* ---- The first line ---- */

static const char *content_words(pst_content content)
{
    switch (content) {
    case PST_CONTENT_EMPTY:
        return "empty";
    case PST_CONTENT_EXAMPLES:
        return "tf.train.Example";
    case PST_CONTENT_EVENTS:
        return "TensorBoard events";
    case PST_CONTENT_SEQUENCES:
        return "tf.train.SequenceExample";
    case PST_CONTENT_OTHER:
        break;
    }
    return "neither Examples nor events";
}

static void put_compression(const pst_inspection *n)
{
    size_t counts[PST_COMPRESSION_ZSTD + 1] = {0};
    bool comma = false;

    for (size_t i = 0; i < n->shards; i++)
        counts[n->shard[i].compression]++;
    if (counts[PST_COMPRESSION_NONE] == n->shards) {
        fputs("not compressed", stdout);
        return;
    }
    for (int c = PST_COMPRESSION_NONE; c <= PST_COMPRESSION_ZSTD; c++) {
        if (!counts[c])
            continue;
        fputs(comma ? ", " : "", stdout);
        if (counts[c] < n->shards)
            printf("%zu ", counts[c]);
        fputs(c == PST_COMPRESSION_NONE ? "not compressed" : pst_compression_name((pst_compression)c), stdout);
        comma = true;
    }
}

static void put_summary(const pst_inspection *n)
{
    char records[AMOUNT_SIZE], shards[AMOUNT_SIZE], bytes[AMOUNT_SIZE];

    printf("%s%s %s in %s %s%s, %s, ", style_bold(stdout), amount_count(records, n->records),
           plural(n->records, "record", "records"), amount_count(shards, n->shards), plural(n->shards, "shard", "shards"),
           style_none(stdout), amount_bytes(bytes, (double)n->bytes));
    put_compression(n);
    printf(", %s\n", content_words(n->content));
    if (n->parsed < n->records && n->parsed && n->content != PST_CONTENT_OTHER)
        printf("%s(statistics from %s of %s records; --all reads every record)%s\n", style_dim(stdout),
               amount_count(records, n->parsed), amount_count(shards, n->records), style_none(stdout));
}

/* ---- Features ---- */

/* "int64", "float[32]", "bytes[0 to 2]"; feature lists of SequenceExamples end in "over steps". */
static char *type_text(char *buffer, size_t size, const pst_inspect_feature *f)
{
    const char *kind = pst_kind_name(f->kind);
    char least[AMOUNT_SIZE], most[AMOUNT_SIZE];

    amount_count(least, f->min_count);
    amount_count(most, f->max_count);
    if (f->min_count != f->max_count)
        snprintf(buffer, size, "%s[%s to %s]", kind, least, most);
    else if (f->max_count != 1)
        snprintf(buffer, size, "%s[%s]", kind, most);
    else
        snprintf(buffer, size, "%s", kind);
    if (f->layout == PST_RAGGED)
        strncat(buffer, " over steps", size - strlen(buffer) - 1);
    return buffer;
}

static void put_byte_range(const pst_inspect_feature *f)
{
    char a[AMOUNT_SIZE], b[AMOUNT_SIZE];

    amount_bytes(a, (double)f->min_bytes);
    amount_bytes(b, (double)f->max_bytes);
    if (f->min_bytes == f->max_bytes)
        fputs(b, stdout);
    else if (strcmp(strchr(a, ' '), strchr(b, ' ')) == 0) /* the same unit */
        printf("%.*s to %s", (int)strcspn(a, " "), a, b);
    else
        printf("%s to %s", a, b);
}

static void put_values(const pst_inspect_feature *f)
{
    char count[AMOUNT_SIZE];
    bool whole = f->kind == PST_INT64;

    if (f->kind == PST_BYTES && f->max_count) {
        fputs(f->image ? "images, " : f->text ? "text, " : "", stdout);
        put_byte_range(f);
        if (!f->image) {
            fputs(": ", stdout);
            put_clean_string(stdout, f->preview);
        }
    } else if (isfinite(f->mean)) {
        put_number(f->min, whole);
        if (f->min != f->max) {
            fputs(" to ", stdout);
            put_number(f->max, whole);
            printf(", mean %.4g", f->mean);
        }
    }
    if (f->nonfinite)
        printf("%s%s%s not finite%s", isfinite(f->mean) ? ", " : "", style_red(stdout), amount_count(count, f->nonfinite),
               style_none(stdout));
}

static void put_share(uint64_t present, uint64_t parsed)
{
    double percent = parsed ? 100.0 * (double)present / (double)parsed : 0;

    if (present == parsed)
        fputs("   all  ", stdout);
    else if (percent < 1)
        fputs(" < 1 %  ", stdout);
    else
        printf("%4.0f %%  ", percent < 99 ? percent : 99);
}

static void put_features(const pst_inspection *n)
{
    char type[96], count[AMOUNT_SIZE];
    size_t names = 4, types = 4;
    bool events = n->content == PST_CONTENT_EVENTS;

    if (!n->features)
        return;
    for (size_t i = 0; i < n->features; i++) {
        size_t name = utf8_columns(n->feature[i].name, strlen(n->feature[i].name)), wide;

        type_text(type, sizeof(type), &n->feature[i]);
        wide = strlen(type);
        names = name > names ? name : names;
        types = wide > types ? wide : types;
    }
    names = names < NAME_COLUMNS ? names : NAME_COLUMNS;
    put_heading(events ? "Scalars" : "Features");
    printf("%s%s\n", amount_count(count, n->features), n->features_cut ? " or more" : "");
    printf("%s  %-*s  %-*s  %s%s\n", style_dim(stdout), (int)names, "name", events ? 16 : (int)types,
           events ? "written" : "type", events ? "values" : "share   values", style_none(stdout));
    for (size_t i = 0; i < n->features; i++) {
        const pst_inspect_feature *f = &n->feature[i];

        fputs("  ", stdout);
        put_padded(f->name, names);
        if (events) {
            printf("%10s %s  ", amount_count(count, f->present), plural(f->present, "time ", "times"));
        } else {
            printf("%-*s  ", (int)types, type_text(type, sizeof(type), f));
            put_share(f->present, n->parsed);
        }
        put_values(f);
        putchar('\n');
    }
}

/* ---- Images ---- */

static void put_parts(const uint64_t *counts, size_t size, uint64_t all, const char *(*name)(size_t))
{
    char amount[AMOUNT_SIZE];
    bool comma = false;

    for (size_t i = 0; i < size; i++) {
        if (!counts[i])
            continue;
        fputs(comma ? ", " : "", stdout);
        if (counts[i] < all)
            printf("%s ", amount_count(amount, counts[i]));
        fputs(name(i), stdout);
        comma = true;
    }
}

static const char *format_name(size_t format)
{
    return pst_image_format_name((pst_image_format)format);
}

static const char *channel_name(size_t channels)
{
    static const char *const names[] = {"no channels", "gray", "gray with alpha", "RGB", "RGB with alpha"};

    return names[channels];
}

static void put_side(const char *name, uint32_t least, uint32_t most, double mean)
{
    if (least == most)
        printf("%s %u", name, (unsigned)most);
    else
        printf("%s %u to %u, mean %.0f", name, (unsigned)least, (unsigned)most, mean);
}

static void put_images(const pst_inspection *n)
{
    char count[AMOUNT_SIZE], bytes[AMOUNT_SIZE];
    const pst_inspect_images *m = &n->images;

    if (!m->count)
        return;
    put_heading("Images");
    printf("%s in \"", amount_count(count, m->count));
    put_clean_string(stdout, n->image_feature);
    fputs("\": ", stdout);
    put_parts(m->by_format, PST_IMAGE_FORMATS, m->count, format_name);
    fputs("; ", stdout);
    put_parts(m->by_channels, 5, m->count, channel_name);
    printf("\n%*s", INDENT, "");
    put_side("width", m->min_width, m->max_width, m->mean_width);
    fputs("; ", stdout);
    put_side("height", m->min_height, m->max_height, m->mean_height);
    printf("; %s on average\n", amount_bytes(bytes, m->mean_bytes));
}

/* ---- Classes: by label where all of them are shown, else the largest first ---- */

static int compare_counts(const void *a, const void *b)
{
    const pst_inspect_class *x = *(const pst_inspect_class *const *)a, *y = *(const pst_inspect_class *const *)b;

    if (x->records != y->records)
        return x->records > y->records ? -1 : 1;
    return x->label < y->label ? -1 : 1;
}

static void put_bar(uint64_t value, uint64_t most, size_t columns)
{
    size_t length = (size_t)((double)value / (double)most * (double)columns + 0.5);

    for (size_t i = 0; i < (length ? length : 1); i++)
        fputs(terminal_utf8() ? "█" : "#", stdout);
}

static void put_class(const pst_inspect_class *c, uint64_t most, size_t names, bool named, int digits)
{
    char count[AMOUNT_SIZE];
    size_t used = names + 16 + (size_t)digits, width = terminal_width(stdout);
    size_t columns = width > used + 8 ? width - used : 8;

    printf("  %*lld  ", digits, (long long)c->label);
    if (named)
        put_padded(c->name, names);
    printf("%9s  ", amount_count(count, c->records));
    put_bar(c->records, most, columns < BAR_COLUMNS ? columns : BAR_COLUMNS);
    putchar('\n');
}

/* How even the classes are, in words. */
static void put_evenness(const pst_inspect_class *const *sorted, size_t count)
{
    char most[AMOUNT_SIZE], least[AMOUNT_SIZE];
    uint64_t largest = sorted[0]->records, smallest = sorted[count - 1]->records;

    amount_count(most, largest);
    amount_count(least, smallest);
    if (count == 1)
        return;
    if (largest == smallest)
        printf(", %s %s each", most, plural(largest, "record", "records"));
    else
        printf(", %s to %s records: %s, %.3g to 1", least, most,
               (double)largest < 1.5 * (double)smallest ? "balanced"
               : largest < 10 * smallest                ? "uneven"
                                                        : "very uneven",
               (double)largest / (double)smallest);
}

static void put_class_list(const pst_inspection *n, const pst_inspect_class **sorted, size_t shown, uint64_t most)
{
    char count[AMOUNT_SIZE], number[32];
    size_t names = 0;
    int digits = 1;

    for (size_t i = 0; i < shown; i++) {
        size_t name = utf8_columns(sorted[i]->name, strlen(sorted[i]->name));
        int length = snprintf(number, sizeof(number), "%lld", (long long)sorted[i]->label);

        names = name > names ? name : names;
        digits = length > digits ? length : digits;
    }
    names = names < NAME_COLUMNS ? names : NAME_COLUMNS;
    for (size_t i = 0; i < shown; i++)
        put_class(sorted[i], most, names, names > 0, digits);
    if (shown < n->classes)
        printf("  … %s more\n", amount_count(count, n->classes - shown));
}

static void put_classes(const pst_inspection *n, bool verbose)
{
    char count[AMOUNT_SIZE];
    const pst_inspect_class **sorted;
    bool few = n->classes <= CLASSES_SHOWN;
    uint64_t most = 1;

    if (!n->classes && !n->classes_cut)
        return;
    put_heading("Classes");
    if (n->classes_cut) {
        fputs("\"", stdout);
        put_clean_string(stdout, n->label_feature);
        puts("\" has too many values for a class label; classes are not counted");
        return;
    }
    sorted = calloc(n->classes, sizeof(*sorted));
    printf("%s in \"", amount_count(count, n->classes));
    put_clean_string(stdout, n->label_feature);
    fputs("\"", stdout);
    if (sorted) {
        for (size_t i = 0; i < n->classes; i++)
            sorted[i] = &n->class_[i];
        qsort(sorted, n->classes, sizeof(*sorted), compare_counts);
        put_evenness(sorted, n->classes);
        most = sorted[0]->records;
    }
    putchar('\n');
    for (size_t i = 0; sorted && few && i < n->classes; i++)
        sorted[i] = &n->class_[i];
    if (sorted)
        put_class_list(n, sorted, few || verbose ? n->classes : CLASSES_SHOWN, most);
    free(sorted);
}

/* ---- Damage ---- */

static void put_place(const pst_damage *d)
{
    char record[AMOUNT_SIZE], offset[AMOUNT_SIZE], bytes[AMOUNT_SIZE];

    fputs("  ", stdout);
    put_clean_string(stdout, d->path);
    if (d->record != PST_NOWHERE)
        printf(": record %s at byte %s", amount_count(record, d->record), amount_count(offset, d->offset));
    printf(": %s", pst_cause_name(d->cause));
    if (d->bytes)
        printf(", %s", amount_bytes(bytes, (double)d->bytes));
    putchar('\n');
}

static void put_damage(const pst_inspection *n, struct report_style style)
{
    char count[AMOUNT_SIZE];
    uint64_t all = pst_damage_log_total(n->damage);
    size_t places = pst_damage_log_places(n->damage);
    bool comma = false;

    put_heading("Damage");
    if (!all) {
        puts(style.verified ? "none: every record is sound" : "none found; --verify reads and decodes everything");
        return;
    }
    printf("%s%s %s%s: ", style_red(stdout), amount_count(count, all), plural(all, "place", "places"), style_none(stdout));
    for (int c = 0; c < PST_CAUSES; c++) {
        uint64_t cause = pst_damage_log_count(n->damage, (pst_cause)c);

        if (cause) {
            printf("%s%s %s", comma ? ", " : "", amount_count(count, cause), pst_cause_name((pst_cause)c));
            comma = true;
        }
    }
    puts(style.verified ? "" : "; --verify checks everything");
    places = style.verbose || places < PLACES_SHOWN ? places : PLACES_SHOWN;
    for (size_t i = 0; i < places; i++) {
        pst_damage d = pst_damage_log_place(n->damage, i);

        put_place(&d);
    }
    if (places < all)
        printf("  … %s more\n", amount_count(count, all - places));
    if (!n->records)
        printf("%*sno valid record was found: is this a TFRecord file? `penstock cat FILE` shows tables, tars,\n"
               "%*stext and arrays, and `penstock pack` makes shards of them\n",
               INDENT, "", INDENT, "");
}

/* ---- All of it ---- */

void put_report(const pst_inspection *n, struct report_style style)
{
    put_summary(n);
    putchar('\n');
    put_shards(n, style.verbose);
    put_features(n);
    put_images(n);
    put_classes(n, style.verbose);
    put_damage(n, style);
    put_heading("Fingerprint");
    printf("%016llx\n", (unsigned long long)n->fingerprint);
}
