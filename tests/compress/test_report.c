/* test_report.c: the page of a compression: its sentence, the variants that no other one surpasses, a point for each. */
#include "base/memory.h"
#include "harness.h"
#include "io/file.h"
#include <penstock/compress.h>

#include <stdio.h>
#include <string.h>

static pst_compress_variant variant(const char *name, bool accepted, double accuracy, double images_per_second)
{
    pst_compress_variant v = {.size = sizeof(v), .accepted = accepted, .accuracy = accuracy, .latency1 = 1e-3, .latency64 = 64 / images_per_second, .file_bytes = 1000};
    snprintf(v.name, sizeof(v.name), "%s", name);
    return v;
}

/* The page; mem_free. */
static char *page_of(pst_compress_variant *variants, size_t count, size_t chosen)
{
    pst_compress_result r = {.size = sizeof(r), .variants = variants, .count = count, .chosen = chosen};
    pst_error error;
    uint8_t *bytes = NULL;
    size_t length = 0;
    CHECK_STATUS(pst_compress_report(&r, "a model", test_path("page.html"), &error), PST_OK, &error);
    CHECK_STATUS(file_read_all(&bytes, &length, test_path("page.html"), 1 << 20, &error), PST_OK, &error);
    return (char *)bytes;
}

static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *s = strstr(text, what); s; s = strstr(s + 1, what))
        n++;
    return n;
}

/* Points of the line with the accent that is not a single dot. */
static size_t points_of_front(const char *page)
{
    const char *line = strstr(page, "<polyline class=\"a \" points=\"");
    size_t n = 0;
    for (const char *s = line ? strchr(line, '=') + 1 : ""; *s && *s != '>'; s++)
        n += *s == ',';
    return n;
}

/* The order of the steps does not matter, what is slower and worse is beside the line, and so is what lost too much. */
static void test_front(void)
{
    pst_compress_variant v[] = {variant("original", true, 0.90, 1000), variant("channels", true, 0.89, 2000), variant("zeros", true, 0.88, 1500),
                                variant("int8 of all", true, 0.895, 1800), variant("too much", false, 0.5, 9000)};
    char *page = page_of(v, 5, 3);
    CHECK_INT(points_of_front(page), 3);
    CHECK_INT(count_of(page, "<polyline class=\"d\""), 4);
    CHECK_INT(count_of(page, "<polyline class=\"a d\""), 1);
    for (size_t i = 0; i < 5; i++) {
        char label[96];
        snprintf(label, sizeof(label), ">%s</span>", v[i].name);
        CHECK_MSG(strstr(page, label) != NULL, "no label %s", v[i].name);
    }
    CHECK(strstr(page, "for 0.50 points of accuracy less.") != NULL);
    mem_free(page);
}

static void test_equal_accuracy(void)
{
    pst_compress_variant v[] = {variant("original", true, 0.90, 1000), variant("int8", true, 0.90, 2000), variant("int8 again", true, 0.90, 2000)};
    char *page = page_of(v, 2, 1);
    CHECK(strstr(page, "2.0 times as fast at a batch of 64, with the same accuracy.") != NULL);
    CHECK_INT(points_of_front(page), 0); /* one variant surpasses the others: a dot */
    mem_free(page);
    page = page_of(v, 3, 2);
    CHECK_INT(points_of_front(page), 0);
    mem_free(page);
    v[1].accuracy = 0.91;
    page = page_of(v, 2, 1);
    CHECK(strstr(page, "for 1.00 points of accuracy more.") != NULL);
    mem_free(page);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"front", test_front}, {"equal accuracy", test_equal_accuracy}, {0}};
    return test_main(argc, argv, tests);
}
