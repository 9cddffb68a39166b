/* test_doctor_html.c: the doctor's page: every section, hostile strings, awkward and absent members, failing memory.
 * `test_doctor_html --page FILE [ANSWER.json]` writes a page to look at. */
#include "base/fault.h"
#include "base/memory.h"
#include "harness.h"

#include <penstock/report.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PNG "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVQI12PYrK0NAANiATlONCTiAAAAAElFTkSuQmCC"

static const char answer[] =
    "{\"schema\": 1, \"subject\": \"photos/<script>alert(1)</script>.jpg\","
    "\"verdict\": {\"class\": \"input-bound\", \"wait_share\": 0.62, \"bottleneck\": \"cpu\", \"stage\": \"decode\", "
    "\"cause\": "
    "\"large-images\", \"sentence\": \"Your model waits for data 62 % of the time: decoding 12-megapixel photos takes 41 ms "
    "each; photos of 256 pixels would make an epoch 5.2 times as fast.\"},"
    "\"now\": {\"samples_per_s\": 141.2, \"low\": 138, \"high\": 144, \"epoch_seconds\": 849600, \"total_seconds\": 76464000},"
    "\"limits\": {\"cores\": 2, \"memory_bytes_per_s\": 24000000000, \"storage\": {\"sequential_bytes_per_s\": 1100000000, "
    "\"random_bytes_per_s\": 290000000}, \"affinity\": true, \"steal_share\": 0.02, \"measured_at\": 1795118220.5},"
    "\"step\": {\"ms\": 450, \"wait_ms\": 279, \"transfer_ms\": 12, \"compute_ms\": 159, \"layers\": [{\"name\": \"conv_1\", "
    "\"ms\": 90}, {\"name\": \"dense_1\", \"ms\": 30}]},"
    "\"stages\": [{\"name\": \"read\", \"us_per_sample\": 310, \"low\": 290, \"high\": 350, \"share\": 0.02, \"cores\": 0.04},"
    "{\"name\": \"decode\", \"us_per_sample\": 12900, \"low\": 12500, \"high\": 13500, \"share\": 0.9, \"cores\": 1.8},"
    "{\"name\": \"decode+random_resized_crop+flip+normalize+layout\", \"us_per_sample\": 870, \"share\": 0.06, \"cores\": "
    "0.12},"
    "{\"name\": \"<img src=x onerror=alert(1)>\", \"us_per_sample\": 40}],"
    "\"stacks\": [{\"where\": \"augment (train.py:41)\", \"share\": 0.7}, {\"where\": \"PIL/Image.py:resize\", \"share\": "
    "0.2}],"
    "\"remedies\": [{\"id\": \"resize-offline\", \"title\": \"Store the photos at 256 pixels\", \"command\": \"penstock pack "
    "'photos/<script>alert(1)</script>' shards/ --resize 256 --shards 16\", \"pipeline\": \"tfrecord shards/ | shuffle | "
    "example | decode | random_resized_crop 224 | flip | batch 64\", \"predicted\": {\"samples_per_s\": 734, \"gain\": 5.2, "
    "\"epoch_seconds\": 163400}, \"measured\": {\"samples_per_s\": 712, \"gain\": 5.04, \"epoch_seconds\": 168500}, \"price\": "
    "{\"disk_bytes\": 34000000000, \"seconds\": 5400, \"psnr\": 41.2}, \"effort\": \"low\", \"risk\": \"changed pixels\", "
    "\"cause\": \"large-images\", \"diff\": \"- folder photos/ | shuffle\\n"
    "+ tfrecord shards/ | shuffle | example\\n\"},"
    "{\"id\": \"entropy-index\", \"title\": \"Index the entropy code\", \"command\": \"penstock index --entropy shards/\", "
    "\"predicted\": {\"samples_per_s\": 190, \"gain\": 1.35, \"epoch_seconds\": 631000}, \"measured\": null, \"price\": "
    "{\"disk_bytes\": 2000000000}, \"effort\": \"low\"},"
    "{\"id\": \"cache-disk\", \"title\": \"Cache on disk\", \"available\": false, \"predicted\": null, \"measured\": null}],"
    "\"timeline\": [{\"seconds\": 0, \"samples_per_s\": 120, \"wait_share\": 0.6}, {\"seconds\": 1, \"samples_per_s\": 150, "
    "\"wait_share\": 0.64}, {\"seconds\": 2, \"samples_per_s\": 142, \"wait_share\": 0.62}],"
    "\"sweeps\": [{\"by\": \"workers\", \"points\": [{\"value\": 1, \"samples_per_s\": 71}, {\"value\": 2, \"samples_per_s\": "
    "141}, {\"value\": 4, \"samples_per_s\": 140}]}],"
    "\"images\": [{\"caption\": \"\\\"><script>alert(2)</script>\", \"before\": \"" PNG "\", \"after\": \"" PNG "\"}],"
    "\"pipeline\": \"folder photos/ | shuffle | decode | random_resized_crop 224 | flip | batch 64\","
    "\"machine\": {\"cpu\": \"AMD EPYC\", \"memory_bytes\": 25000000000}, \"settings\": {\"batch\": 64, \"workers\": 2}}";

static size_t count_of(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        n++;
    return n;
}

static char *page_of(const char *json)
{
    char *page = NULL;
    pst_error error;
    pst_status st = pst_doctor_page(&page, json, strlen(json), &error);
    CHECK_MSG(st == PST_OK, "%s", st == PST_OK ? "" : error.message);
    return page;
}

static void every_section_is_there(void)
{
    static const char *const wanted[] = {"waits for data 62 %",
                                         "Waiting for data</dt><dd>62.0",
                                         "large-images (decode)",
                                         "9.83\xC2\xA0"
                                         "days",
                                         "Store the photos at 256 pixels",
                                         "predicted; measured 46.8",
                                         "41.2 dB",
                                         "not predicted",
                                         "A step takes 450",
                                         "conv_1",
                                         "use 1.96 of 2 cores",
                                         "augment (train.py:41)",
                                         "Rate while measuring",
                                         "Samples per second by workers",
                                         "data:image/png;base64," PNG,
                                         "penstock index --entropy",
                                         "storage sequential bytes per s",
                                         "GiB/s",
                                         "- folder photos/ | shuffle\n+ tfrecord shards/",
                                         "(resize-offline; removes the cause)",
                                         "What removes the cause stands first",
                                         "Now</th>",
                                         "2026-11-19 19:57 UTC",
                                         "AMD EPYC"};
    char *page = page_of(answer);
    REQUIRE(page != NULL);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        CHECK_MSG(strstr(page, wanted[i]) != NULL, "%s", wanted[i]);
    pst_free(page);
}

static void strings_are_shown_not_run(void)
{
    char *page = page_of(answer);
    REQUIRE(page != NULL);
    CHECK(!strstr(page, "<script") && !strstr(page, "onerror=alert(1)>") && !strstr(page, "<img src=x"));
    CHECK(strstr(page, "&#60;script&#62;alert(1)") && strstr(page, "&#60;img src=x"));
    CHECK(!strstr(page, "http") && !strstr(page, "@import"));
    CHECK_INT(count_of(page, "url("), count_of(page, "url(#"));
    CHECK_INT(count_of(page, "<figure"), count_of(page, "</figure>"));
    CHECK_INT(count_of(page, "<figcaption"), count_of(page, "<figure"));
    CHECK_INT(count_of(page, "<table"), count_of(page, "</table>"));
    CHECK_INT(count_of(page, "<div"), count_of(page, "</div>"));
    CHECK_INT(count_of(page, "<img "), count_of(page, " alt=\""));
    pst_free(page);
}

static void remedies_that_add_up_are_drawn_so(void)
{
    char *page = page_of("{\"schema\": 1, \"verdict\": {\"sentence\": \"s\"}, \"now\": {\"samples_per_s\": 100}, \"path\": "
                         "[{\"id\": \"pack\", \"predicted\": {\"samples_per_s\": 200}}, {\"id\": \"prefetch\", \"predicted\": "
                         "{\"samples_per_s\": 400}}]}");
    REQUIRE(page != NULL);
    CHECK(strstr(page, "Time per sample, now and after one remedy after the other") != NULL);
    CHECK(!strstr(page, "Each remedy alone"));
    CHECK(strstr(page, "<rect class=\"saved\" x=\"25.00%\" width=\"25.00%\"") != NULL); /* from 5 ms to 2.5 ms of 10 ms */
    pst_free(page);
}

/* What could be had at best is not what the reader should look at. */
static void upper_bounds_have_no_accent(void)
{
    char *page = page_of(
        "{\"schema\": 1, \"verdict\": {\"sentence\": \"s\"}, \"now\": {\"samples_per_s\": 7000000}, \"remedies\": "
        "[{\"id\": \"faster-step\", \"predicted\": {\"samples_per_s\": 12800059.5, \"gain\": 1809, \"upper_bound\": true}}, "
        "{\"id\": \"prefetch\", \"predicted\": {\"samples_per_s\": 8000000, \"gain\": 1.14}}], \"path\": "
        "[{\"id\": \"prefetch\", \"predicted\": {\"samples_per_s\": 8000000}}]}");
    REQUIRE(page != NULL);
    CHECK(strstr(page, "up to 12,800,000") && strstr(page, "up to 1,810\xC2\xA0×") && strstr(page, "predicted, at best"));
    const char *alone = strstr(page, "Each remedy alone"), *end = alone ? strstr(alone, "</details>") : NULL;
    REQUIRE(end != NULL);
    const char *bound = strstr(alone, "faster-step"), *other = bound ? strstr(bound, "prefetch") : NULL;
    REQUIRE(other && other < end);
    const char *accent = strstr(alone, "b a p");
    CHECK(accent && accent > other && accent < end);
    pst_free(page);
}

static void awkward_answers_are_pages(void)
{
    static const char *const odd[] = {
        "{\"schema\":1,\"verdict\":{}}",
        "{\"schema\":1,\"verdict\":[],\"remedies\":{},\"stages\":7,\"now\":null,\"step\":\"x\",\"limits\":[1,[2,{\"a\":3}]]}",
        "{\"schema\":1,\"verdict\":{\"sentence\":7,\"wait_share\":\"x\"},\"remedies\":[1,\"x\",null,{}],\"stages\":[{},[],-1]}",
        "{\"schema\":1,\"verdict\":{\"sentence\":\"s\"},\"now\":{\"samples_per_s\":0,\"epoch_seconds\":-1},\"remedies\":[{"
        "\"id\":\"x\","
        "\"predicted\":{\"samples_per_s\":1e308,\"epoch_seconds\":1e300}}],\"images\":[{\"before\":\"!!\",\"after\":\"AAAA\"}],"
        "\"timeline\":[1,2,3],\"sweeps\":[{\"by\":1,\"points\":[{}]}]}"};
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        char *page = page_of(odd[i]);
        REQUIRE(page != NULL);
        CHECK(strstr(page, "</html>") != NULL && !strstr(page, "nan") && !strstr(page, "inf%"));
        pst_free(page);
    }
}

static void other_texts_are_refused(void)
{
    char *page = NULL;
    pst_error error;
    CHECK_INT(pst_doctor_page(&page, "{", 1, &error), PST_ECORRUPT);
    CHECK_INT(pst_doctor_page(&page, "[]", 2, &error), PST_EINVAL);
    CHECK(strstr(error.message, "penstock doctor --json") != NULL);
    CHECK_INT(pst_doctor_page(&page, "{\"schema\":2,\"verdict\":{}}", 25, &error), PST_EUNSUPPORTED);
    CHECK(page == NULL);
}

static void files_are_written_whole(void)
{
    const char *path = test_path("report.html");
    pst_error error;
    CHECK_INT(pst_doctor_report(path, answer, strlen(answer), false, &error), PST_OK);
    CHECK_INT(pst_doctor_report(path, answer, strlen(answer), false, &error), PST_EEXIST);
    CHECK_INT(pst_doctor_report(path, answer, strlen(answer), true, &error), PST_OK);
}

static void memory_may_run_out(void)
{
    uint64_t live = mem_live();
    for (uint64_t n = 0;; n++) {
        char *page = NULL;
        test_fault_arm(FAULT_MEMORY, n, false);
        pst_status st = pst_doctor_page(&page, answer, strlen(answer), NULL);
        bool reached = test_fault_calls() > n;
        test_fault_clear();
        CHECK_INT(st, reached ? PST_ENOMEM : PST_OK);
        pst_free(page);
        if (!reached)
            break;
    }
    CHECK_INT(mem_live(), live);
}

static int write_page(const char *path, const char *from)
{
    static char json[1 << 22];
    FILE *f = from ? fopen(from, "rb") : NULL;
    size_t length = f ? fread(json, 1, sizeof(json), f) : 0;
    pst_error error;
    if (f)
        fclose(f);
    pst_status st = pst_doctor_report(path, from ? json : answer, from ? length : strlen(answer), true, &error);
    if (st < 0)
        fprintf(stderr, "%s\n", error.message);
    return st < 0;
}

int main(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "--page") == 0)
        return write_page(argv[2], argc > 3 ? argv[3] : NULL);
    return test_main(argc, argv,
                     (const struct test[]){{"every section is there", every_section_is_there},
                                           {"strings are shown, not run", strings_are_shown_not_run},
                                           {"remedies that add up are drawn so", remedies_that_add_up_are_drawn_so},
                                           {"upper bounds", upper_bounds_have_no_accent},
                                           {"awkward answers are pages", awkward_answers_are_pages},
                                           {"other texts are refused", other_texts_are_refused},
                                           {"files are written whole", files_are_written_whole},
                                           {"memory may run out", memory_may_run_out},
                                           {0}});
}
