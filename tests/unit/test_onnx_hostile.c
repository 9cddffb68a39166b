/* test_onnx_hostile.c: ONNX files that are damaged, nonsense or out to do harm fail with a status and a place. */
#include "base/fault.h"
#include "base/hash.h"
#include "base/memory.h"
#include "harness.h"
#include "unit/onnx_by_hand.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct text small_model(void)
{
    struct hand h = {0};
    float kernel[2 * 2 * 4], weights[3 * 18];
    hand_fill(kernel, 16, 1);
    hand_fill(weights, 54, 2);
    hand_port(&h, 11, "x", DIMS(-1, 2, 4, 4));
    hand_constant(&h, "c.weight", FLOAT, DIMS(2, 2, 2, 2), kernel, sizeof(kernel));
    hand_constant(&h, "w", FLOAT, DIMS(3, 18), weights, sizeof(weights));
    hand_constant(&h, "s", INT64, DIMS(2), (const int64_t[]){0, -1}, 16);
    hand_node(&h, "Conv", "x c.weight", "c", "kernel_shape=2,2");
    hand_node(&h, "Relu", "c", "r", "");
    hand_node(&h, "Add", "r c", "a", "");
    hand_node(&h, "Reshape", "a s", "f", "");
    hand_node(&h, "Gemm", "f w", "y", "transB:1");
    hand_port(&h, 12, "y", DIMS(-1, 3));
    return hand_finish(&h);
}

static bool is_refusal(pst_status st, const pst_error *e)
{
    return (st == PST_ECORRUPT || st == PST_EUNSUPPORTED || st == PST_ELIMIT || st == PST_EINVAL || st == PST_ETYPE) && e->status == st && e->message[0];
}

static void damage_is_refused(void)
{
    struct text file = small_model();
    uint8_t *copy = malloc(file.length);
    pst_error error = {0};
    struct onnx_model m = {0};
    uint64_t live;
    size_t taken = 0;
    CHECK_STATUS(onnx_import_bytes(&m, NULL, (const uint8_t *)file.data, file.length, &error), PST_OK, &error);
    CHECK(m.text && strstr(m.text, "residual") && strstr(m.text, "name=c"));
    onnx_model_finish(&m);
    live = mem_live();
    for (size_t cut = 0; cut < file.length; cut++) {
        memcpy(copy, file.data, cut);
        pst_status st = onnx_import_bytes(&m, NULL, copy, cut, &error);
        CHECK_MSG(is_refusal(st, &error), "cut at %zu: %s", cut, error.message);
    }
    for (size_t bit = 0; bit < 8 * file.length; bit++) {
        memcpy(copy, file.data, file.length);
        copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
        pst_status st = onnx_import_bytes(&m, NULL, copy, file.length, &error);
        CHECK_MSG(st == PST_OK || is_refusal(st, &error), "bit %zu: %s", bit, error.message);
        taken += st == PST_OK;
        onnx_model_finish(&m);
    }
    CHECK(taken > 8 * 70 * 4); /* weights have other values then */
    CHECK_INT(mem_live(), live);
    free(copy);
    text_finish(&file);
}

static void check_refused(struct hand *h, pst_status want, const char *part)
{
    struct onnx_model m;
    pst_error error;
    pst_status st = hand_import(h, &m, &error);
    CHECK_MSG(st == want && strstr(error.message, part) && strcmp(error.path, "by-hand.onnx") == 0, "%s: status %d, %s", part, (int)st, error.message);
    onnx_model_finish(&m);
}

static void nonsense_is_refused(void)
{
    struct hand h = {0};
    const float number = 2;
    hand_port(&h, 11, "x", DIMS(-1, 4));
    hand_port(&h, 12, "y", NULL, 0);
    hand_node(&h, "Add", "x b", "a", "");
    hand_node(&h, "Relu", "a", "b", "");
    hand_node(&h, "Relu", "b", "y", "");
    check_refused(&h, PST_ECORRUPT, "cycle");
    hand_port(&h, 11, "x", DIMS(-1, 4));
    hand_port(&h, 12, "y", NULL, 0);
    hand_node(&h, "Relu", "nowhere", "y", "");
    check_refused(&h, PST_ECORRUPT, "\"nowhere\" is not defined");
    hand_port(&h, 11, "x", DIMS(-1, 4));
    hand_port(&h, 12, "y", NULL, 0);
    hand_node(&h, "Relu", "x", "y", "");
    hand_node(&h, "Tanh", "x", "y", "");
    check_refused(&h, PST_ECORRUPT, "a name that is taken");
    hand_port(&h, 11, "x", DIMS(-1, 4));
    hand_port(&h, 12, "y", NULL, 0);
    hand_node(&h, "Teleport", "x", "y", "");
    check_refused(&h, PST_EUNSUPPORTED, "node 0 \"y\" (Teleport): the operator is not supported");
    hand_port(&h, 11, "x", DIMS(-1, 3, -1, 8));
    hand_port(&h, 12, "y", NULL, 0);
    hand_node(&h, "Relu", "x", "y", "");
    check_refused(&h, PST_EUNSUPPORTED, "dimension 2 of the input \"x\" is open");
    hand_port(&h, 11, "x", DIMS(-1, 65536, 65536, 65536));
    hand_port(&h, 12, "y", NULL, 0);
    hand_node(&h, "Relu", "x", "y", "");
    check_refused(&h, PST_ELIMIT, "2^32");
    hand_port(&h, 11, "x", DIMS(-1, 2000000000)); /* one number for each of so many channels */
    hand_port(&h, 12, "y", NULL, 0);
    hand_constant(&h, "n", FLOAT, NULL, 0, &number, 4);
    hand_node(&h, "Mul", "x n", "y", "");
    check_refused(&h, PST_ELIMIT, "a single number");
    hand_port(&h, 11, "x", DIMS(-1, 4));
    hand_port(&h, 12, "y", NULL, 0);
    hand_constant(&h, "w", FLOAT, DIMS((int64_t)1 << 62, 4), &number, 4);
    hand_node(&h, "MatMul", "x w", "y", "");
    check_refused(&h, PST_ECORRUPT, "more values than there are numbers");
    hand_port(&h, 11, "x", DIMS(-1, 4));
    hand_port(&h, 12, "y", NULL, 0);
    hand_constant(&h, "w", FLOAT, DIMS(4, 1000000), &number, 4);
    hand_node(&h, "MatMul", "x w", "y", "");
    check_refused(&h, PST_ECORRUPT, "another number of bytes");
}

/* Sums whose inputs are read again and again would double the text with each of them. */
static void tangles_are_refused(void)
{
    struct hand h = {0};
    char in[32], out[16];
    hand_port(&h, 11, "x", DIMS(-1, 4));
    hand_port(&h, 12, "v200", NULL, 0);
    hand_node(&h, "Relu", "x", "v0", "");
    hand_node(&h, "Tanh", "v0", "v1", "");
    for (int i = 2; i <= 200; i++) {
        snprintf(in, sizeof(in), "v%d v%d", i - 1, i - 2);
        snprintf(out, sizeof(out), "v%d", i);
        hand_node(&h, "Add", in, out, "");
    }
    check_refused(&h, PST_EUNSUPPORTED, "cross");
    hand_port(&h, 11, "x", DIMS(-1, 4));
    hand_port(&h, 12, "w39", NULL, 0);
    hand_node(&h, "Relu", "x", "w0", "");
    for (int i = 1; i < 40; i++) {
        snprintf(in, sizeof(in), "w%d w%d", i - 1, i - 1);
        snprintf(out, sizeof(out), "w%d", i);
        hand_node(&h, "Concat", in, out, "axis:1");
    }
    check_refused(&h, PST_ELIMIT, "2^32");
}

/* Repeated numbers cannot make more weights than the file could pay for. */
static void many_numbers_are_refused(void)
{
    struct hand h = {0};
    const float number = 2;
    char in[32], out[16];
    hand_port(&h, 11, "v0", DIMS(-1, 1000000));
    hand_port(&h, 12, "v100", NULL, 0);
    hand_constant(&h, "n", FLOAT, NULL, 0, &number, 4);
    for (int i = 1; i <= 100; i++) {
        snprintf(in, sizeof(in), "v%d n", i - 1);
        snprintf(out, sizeof(out), "v%d", i);
        hand_node(&h, "Mul", in, out, "");
    }
    check_refused(&h, PST_ELIMIT, "more weights than the file has");
}

/* ---- External data ---- */

static struct text external_model(const char *location, const char *offset, const char *length)
{
    struct hand h = {0};
    hand_port(&h, 11, "x", DIMS(-1, 4));
    hand_port(&h, 12, "y", NULL, 0);
    size_t begin = proto_begin(&h.graph, 5);
    proto_int(&h.graph, 1, 4);
    proto_int(&h.graph, 1, 2);
    proto_int(&h.graph, 2, FLOAT);
    proto_string(&h.graph, 8, "w");
    const char *const entries[][2] = {{"location", location}, {"offset", offset}, {"length", length}};
    for (size_t i = 0; i < 3; i++) {
        if (!entries[i][1])
            continue;
        size_t entry = proto_begin(&h.graph, 13);
        proto_string(&h.graph, 1, entries[i][0]);
        proto_string(&h.graph, 2, entries[i][1]);
        proto_end(&h.graph, entry);
    }
    proto_int(&h.graph, 14, 1);
    proto_end(&h.graph, begin);
    hand_node(&h, "MatMul", "x w", "y", "");
    return hand_finish(&h);
}

static void write_file(const char *path, const void *data, size_t length)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, length, f) != length || fclose(f) != 0)
        abort();
}

static void external_data_stays_inside(void)
{
    static const struct {
        const char *location, *offset, *length, *want; /* NULL: accepted */
    } rows[] = {
        {"weights.bin", NULL, NULL, NULL},
        {"weights.bin", "4", "32", NULL},
        {"below/weights.bin", "0", "32", NULL},
        {"./weights.bin", NULL, NULL, NULL},
        {"../secret.bin", NULL, NULL, "not a path inside"},
        {"below/../../secret.bin", NULL, NULL, "not a path inside"},
        {"..", NULL, NULL, "not a path inside"},
        {"/etc/passwd", NULL, NULL, "not a path inside"},
        {"", NULL, NULL, "not a path inside"},
        {"https://example.com/w", NULL, NULL, "not a path inside"},
        {"link.bin", NULL, NULL, "a link out of the model's folder"},
        {"linked/secret.bin", NULL, NULL, "a link out of the model's folder"},
        {"below", NULL, NULL, "not a file"},
        {"pipe", NULL, NULL, "not a file"},
        {"missing.bin", NULL, NULL, ""},
        {"weights.bin", "8", NULL, "shorter than its part"},
        {"weights.bin", "18446744073709551612", NULL, "shorter than its part"},
        {"weights.bin", "99999999999999999999", NULL, "offset of external data is not a number"},
        {"weights.bin", "-4", NULL, "offset of external data is not a number"},
        {"weights.bin", "0", "4", "another length than its shape"},
    };
    float values[9];
    char root[400], path[512];
    hand_fill(values, 9, 1);
    snprintf(root, sizeof(root), "%s", test_path("outside"));
    const char *const folders[] = {"", "/model", "/model/below", "/other"};
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%s%s", root, folders[i]);
        mkdir(path, 0700);
    }
    const char *const files[] = {"/model/weights.bin", "/model/below/weights.bin", "/secret.bin", "/other/secret.bin"};
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%s%s", root, files[i]);
        write_file(path, values, sizeof(values));
    }
    snprintf(path, sizeof(path), "%s/model/link.bin", root);
    CHECK(symlink("../secret.bin", path) == 0);
    snprintf(path, sizeof(path), "%s/model/linked", root);
    CHECK(symlink("../other", path) == 0);
    snprintf(path, sizeof(path), "%s/model/pipe", root);
    CHECK(mkfifo(path, 0600) == 0);
    snprintf(path, sizeof(path), "%s/model/a.onnx", root);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct text file = external_model(rows[i].location, rows[i].offset, rows[i].length);
        struct onnx_model m = {0};
        pst_error error = {0};
        write_file(path, file.data, file.length);
        pst_status st = onnx_import(&m, path, &error);
        if (!rows[i].want) {
            CHECK_STATUS(st, PST_OK, &error);
            size_t skipped = rows[i].offset && rows[i].offset[0] == '4' ? 1 : 0;
            CHECK(m.params && memcmp(m.params, values + skipped, 8 * sizeof(float)) == 0);
        } else {
            CHECK_MSG(st < 0 && strstr(error.message, rows[i].want), "%s: %s", rows[i].location, error.message);
        }
        onnx_model_finish(&m);
        text_finish(&file);
    }
    struct text file = external_model("weights.bin", NULL, NULL);
    struct onnx_model m = {0};
    pst_error error = {0};
    CHECK_STATUS(onnx_import_bytes(&m, NULL, (const uint8_t *)file.data, file.length, &error), PST_EUNSUPPORTED, &error);
    text_finish(&file);
}

/* Seconds of an import of a file with many constants whose names the unseeded hash puts into one `part`th of the table. */
static double seconds_with(uint64_t part)
{
    enum { NAMES = 30000, SLOTS = 65536 };
    struct hand h = {0};
    struct onnx_model m;
    pst_error error;
    char name[16];
    for (uint64_t i = 0, found = 0; found < NAMES; i++) {
        snprintf(name, sizeof(name), "%" PRIx64, i);
        if ((hash_bytes(name, strlen(name), 0) & (SLOTS - 1)) >= SLOTS / part)
            continue;
        hand_constant(&h, name, FLOAT, NULL, 0, &(float){1}, 4);
        found++;
    }
    hand_port(&h, 11, "x", DIMS(-1, 6));
    hand_node(&h, "Relu", "x", "y", "");
    hand_port(&h, 12, "y", NULL, 0);
    clock_t begin = clock();
    CHECK_STATUS(hand_import(&h, &m, &error), PST_OK, &error);
    double took = (double)(clock() - begin) / CLOCKS_PER_SEC;
    onnx_model_finish(&m);
    return took;
}

static void chosen_names_do_not_collide(void)
{
    double any = seconds_with(1), chosen = seconds_with(32);
    CHECK_MSG(chosen < 10 * any + 0.05, "%g s; with other names %g s", chosen, any);
}

static void memory_may_run_out(void)
{
    struct text file = small_model();
    pst_error error = {0};
    struct onnx_model m = {0};
    uint64_t live = mem_live();
    for (uint64_t n = 0;; n++) {
        test_fault_arm(FAULT_MEMORY, n, false);
        pst_status st = onnx_import_bytes(&m, NULL, (const uint8_t *)file.data, file.length, &error);
        bool reached = test_fault_calls() > n;
        test_fault_clear();
        if (!reached) {
            CHECK_STATUS(st, PST_OK, &error);
            onnx_model_finish(&m);
            break;
        }
        CHECK_STATUS(st, PST_ENOMEM, &error);
        CHECK_INT(mem_live(), live);
    }
    text_finish(&file);
}

int main(int argc, char **argv)
{
    return test_main(argc, argv,
                     (const struct test[]){{"damage is refused", damage_is_refused},
                                           {"nonsense is refused", nonsense_is_refused},
                                           {"tangles are refused", tangles_are_refused},
                                           {"many numbers are refused", many_numbers_are_refused},
                                           {"external data stays inside", external_data_stays_inside},
                                           {"chosen names do not collide", chosen_names_do_not_collide},
                                           {"memory may run out", memory_may_run_out},
                                           {0}});
}
