/* test_report.c: pages: escaping, structure, numbers, charts of awkward data. `test_report --page FILE` writes a page to look
 * at. */
#include "base/fault.h"
#include "base/memory.h"
#include "harness.h"
#include "report/chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t png[] = {0x89, 'P',  'N',  'G',  '\r', '\n', 0x1a, '\n', 0,    0,    0,    13,   'I',  'H',
                              'D',  'R',  0,    0,    0,    1,    0,    0,    0,    1,    8,    2,    0,    0,
                              0,    0x90, 0x77, 0x53, 0xde, 0,    0,    0,    12,   'I',  'D',  'A',  'T',  8,
                              0xd7, 0x63, 0xd8, 0xac, 0xad, 0x0d, 0x00, 0x03, 0x62, 0x01, 0x39, 0x4e, 0x34, 0x24,
                              0xe2, 0,    0,    0,    0,    'I',  'E',  'N',  'D',  0xae, 0x42, 0x60, 0x82};

static void add_lines(struct page *p)
{
    static double x[300], loss[300], val[300];
    for (int i = 0; i < 300; i++) {
        x[i] = i;
        loss[i] = 2.3 * exp(-i / 80.) + 0.1 * sin(i / 5.);
        val[i] = i % 10 ? NAN : 2.3 * exp(-i / 90.) + 0.25;
    }
    double vx[30], vy[30];
    for (int i = 0; i < 30; i++) {
        vx[i] = 10 * i;
        vy[i] = val[10 * i];
    }
    const double px[] = {299, 340}, py[] = {0.32, 0.25};
    const struct chart_line lines[] = {{.label = "training", .x = x, .y = loss, .count = 300},
                                       {.label = "validation", .x = vx, .y = vy, .count = 30, .accent = true},
                                       {.label = "expected", .x = px, .y = py, .count = 2, .predicted = true}};
    chart_lines(p, &(struct line_chart){.title = "Loss falls and stays down",
                                        .description = "Training and validation loss by step.",
                                        .x_label = "step",
                                        .y_label = "loss",
                                        .lines = lines,
                                        .count = 3,
                                        .from_zero = true});
}

static void add_bars(struct page *p)
{
    const struct chart_bar bars[] = {{.label = "penstock", .value = 5120, .low = 4900, .high = 5300, .accent = true},
                                     {.label = "tf.data", .value = 1830},
                                     {.label = "with 8 cores", .value = 18400, .predicted = true}};
    chart_bars(p,
               &(struct bar_chart){
                   .title = "Images per second", .description = "Three bars.", .unit = "images/s", .bars = bars, .count = 3});
}

static void add_confusion(struct page *p, size_t n)
{
    uint64_t *counts = calloc(n * n, sizeof(*counts));
    const char **names = calloc(n, sizeof(*names));
    static const char *const few[] = {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"};
    for (size_t i = 0; i < n; i++) {
        names[i] = few[i % 10];
        for (size_t k = 0; k < n; k++)
            counts[i * n + k] = i == k ? 870 - 9 * i : i * 7 % (k + 3) + (i == 3 && k == 5 ? 90 : 0);
    }
    chart_confusion(p, &(struct confusion_chart){.title = "Cats are taken for dogs",
                                                 .description = "Confusion matrix.",
                                                 .classes = names,
                                                 .counts = counts,
                                                 .count = n});
    free(counts);
    free((void *)names);
}

static void write_page(struct text *to)
{
    static const char *const headings[] = {"layer", "empty", "time [ms]"}, *const cells[] = {"conv_1",      "",   "1.25",
                                                                                             "dense_1 <b>", NULL, "0.50"};
    const struct page_image images[] = {{png, sizeof(png), "cat, taken for a dog"}, {png, sizeof(png), "a \"ship\""}};
    struct page p;
    page_begin(&p, to, "Training run runs/first");
    page_sentence(&p, "The model is right for 75.3 % of the validation images, after 3 minutes.");
    add_lines(&p);
    page_heading(&p, "Where the time goes");
    add_bars(&p);
    page_table(&p, &(struct page_table){
                       .title = "Slowest layers", .headings = headings, .cells = cells, .columns = 3, .rows = 2, .numbers = 4});
    page_heading(&p, "Mistakes");
    add_confusion(&p, 10);
    page_images(&p, "Worst mistakes", images, 2);
    page_fold_begin(&p, "Details");
    page_paragraph(&p, "Text & <script>alert('no')</script> \x01 \xff.");
    page_command(&p, "penstock train --resume runs/first");
    add_confusion(&p, 40);
    page_fold_end(&p);
    page_end(&p);
}

static size_t count_of(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        n++;
    return n;
}

static void strings_are_escaped(void)
{
    struct text t = {0};
    page_escape(&t, "<a href=\"x\">&'");
    CHECK_STR(t.data, "&#60;a href=&#34;x&#34;&#62;&#38;&#39;");
    text_finish(&t);
    t = (struct text){0};
    page_escape(&t, "\xc3\xa4\n\x1b\xff\xc3");
    CHECK_STR(t.data, "\xc3\xa4\n\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    text_finish(&t);
    t = (struct text){0};
    write_page(&t);
    REQUIRE(!t.failed);
    CHECK(!strstr(t.data, "<script") && !strstr(t.data, "<b>") && strstr(t.data, "dense_1 &#60;b&#62;"));
    CHECK(!strstr(t.data, "http") && !strstr(t.data, "@import")); /* nothing from elsewhere */
    CHECK(strstr(t.data, ">layer</th><th scope=\"col\" class=\"n\">time [ms]</th>") &&
          strstr(t.data, "<tr><td>conv_1</td><td class=\"n\">1.25</td></tr>"));
    CHECK(text_is_utf8(t.data, t.length));
    text_finish(&t);
}

static void tags_are_balanced(void)
{
    static const char *const tags[] = {"figure", "table", "tr", "td",   "th",   "svg",  "details",
                                       "div",    "span",  "p",  "main", "html", "title"};
    struct text t = {0};
    write_page(&t);
    REQUIRE(!t.failed);
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
        char open[16], with[16], close[16];
        snprintf(open, sizeof(open), "<%s>", tags[i]);
        snprintf(with, sizeof(with), "<%s ", tags[i]);
        snprintf(close, sizeof(close), "</%s>", tags[i]);
        CHECK_MSG(count_of(t.data, open) + count_of(t.data, with) == count_of(t.data, close), "<%s>", tags[i]);
    }
    CHECK_INT(count_of(t.data, "<figcaption"), count_of(t.data, "<figure"));
    CHECK_INT(count_of(t.data, "aria-describedby"), count_of(t.data, "<figure"));
    text_finish(&t);
}

static void numbers_have_three_digits(void)
{
    static const struct {
        double value;
        const char *want;
    } cases[] = {{0, "0"},
                 {1.23456, "1.23"},
                 {12.3456, "12.3"},
                 {1234.5, "1,230"},
                 {0.00123456, "0.00123"},
                 {-0.5, "-0.500"},
                 {1e20, "1e+20"},
                 {1e-9, "1e-09"},
                 {NAN, "–"},
                 {123456789, "123,000,000"},
                 {-12345, "-12,300"},
                 {9.996, "10.0"},
                 {999.6, "1,000"},
                 {0.00099996, "0.00100"}};
    char buffer[FIGURE_SIZE];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        CHECK_STR(figure_number(buffer, cases[i].value), cases[i].want);
}

static void counts_and_times_suit_people(void)
{
    static const struct {
        double seconds;
        const char *want;
    } cases[] = {{0.0648, "64.8 ms"},
                 {0, "0 s"},
                 {5e-7, "0.500 µs"},
                 {59, "59.0 s"},
                 {849600, "9.83 days"},
                 {7200, "2.00 h"},
                 {600, "10.0 min"},
                 {0.99999, "1.00 s"},
                 {86400 * 1e6, "1,000,000 days"},
                 {NAN, "–"}};
    char buffer[FIGURE_SIZE];
    CHECK_STR(figure_count(buffer, 1281167), "1,281,167");
    CHECK_STR(figure_count(buffer, 999), "999");
    CHECK_STR(figure_count(buffer, -1000), "-1,000");
    CHECK_STR(figure_count(buffer, 1e18), "1e+18");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        CHECK_STR(figure_seconds(buffer, cases[i].seconds, " "), cases[i].want);
}

/* Draws one line; returns the page, to be freed. */
static char *draw(const double *x, const double *y, size_t count)
{
    struct text t = {0};
    struct page p = {.to = &t};
    chart_lines(&p, &(struct line_chart){.title = "t",
                                         .description = "d",
                                         .x_label = "x",
                                         .y_label = "y",
                                         .lines = &(struct chart_line){.label = "l", .x = x, .y = y, .count = count},
                                         .count = 1});
    return t.data;
}

static void awkward_values_are_drawn(void)
{
    static double x[100000], y[100000];
    const double one = 5, tiny[] = {1e-300, 2e-300}, huge[] = {-1e300, 1e300}, gap[] = {1, NAN, 2}, at[] = {0, 1, 2},
                 none[] = {NAN, INFINITY};
    char *t = draw(NULL, NULL, 0);
    CHECK(strstr(t, "no values") != NULL);
    mem_free(t);
    t = draw(at, none, 2);
    CHECK(strstr(t, "no values") != NULL);
    mem_free(t);
    for (int i = 0; i < 3; i++) {
        t = i == 0 ? draw(&one, &one, 1) : draw(at, i == 1 ? tiny : huge, 2);
        CHECK(!strstr(t, "nan") && !strstr(t, "inf") && strstr(t, "<polyline"));
        mem_free(t);
    }
    t = draw(at, gap, 3);
    CHECK_INT(count_of(t, "<polyline"), 2); /* a gap is not bridged */
    mem_free(t);
    for (int i = 0; i < 100000; i++) {
        x[i] = i;
        y[i] = i == 77777 ? 9 : 1;
    }
    t = draw(x, y, 100000); /* the one peak stays, the page stays small */
    CHECK(strlen(t) < 30000 && strstr(t, ",100.0 ") != NULL);
    mem_free(t);
}

static void memory_may_run_out(void)
{
    uint64_t live = mem_live();
    for (uint64_t n = 0;; n++) {
        struct text t = {0};
        test_fault_arm(FAULT_MEMORY, n, false);
        write_page(&t);
        bool reached = test_fault_calls() > n;
        test_fault_clear();
        CHECK(t.failed == reached);
        text_finish(&t);
        if (!reached)
            break;
    }
    CHECK_INT(mem_live(), live);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--page") == 0) {
        struct text t = {0};
        write_page(&t);
        test_write_file(argv[2], t.data, t.length);
        text_finish(&t);
        return 0;
    }
    return test_main(argc, argv,
                     (const struct test[]){{"strings are escaped", strings_are_escaped},
                                           {"tags are balanced", tags_are_balanced},
                                           {"numbers have three digits", numbers_have_three_digits},
                                           {"counts and times", counts_and_times_suit_people},
                                           {"awkward values are drawn", awkward_values_are_drawn},
                                           {"memory may run out", memory_may_run_out},
                                           {0}});
}
