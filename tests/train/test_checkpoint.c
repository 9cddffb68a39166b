/* test_checkpoint.c: checkpoints continue bit-identically; damage is refused and changes nothing; safetensors with hostile headers. */
#include "base/fault.h"
#include "base/hash.h"
#include "base/le.h"
#include "base/memory.h"
#include "export/safetensors.h"
#include "harness.h"
#include "train/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 6

static float values[SAMPLES * 5];
static int64_t labels[SAMPLES] = {0, 1, 2, 0, 1, 2};
static pst_tensor input = {.dtype = PST_DTYPE_F32, .rank = 2, .shape = {SAMPLES, 5}, .data = values};
static pst_tensor target = {.dtype = PST_DTYPE_I64, .rank = 1, .shape = {SAMPLES}, .data = labels};
static const pst_samples samples = {.size = sizeof(samples), .input = &input, .target = &target};

struct rig {
    pst_model *model;
    pst_trainer *trainer;
};

static pst_status rig_make(struct rig *r, const char *text, pst_error *error)
{
    pst_train_options o = {.size = sizeof(o), .batch = SAMPLES, .threads = 1, .loss = PST_LOSS_SPARSE, .rate = 0.05, .ema = 0.9};
    *r = (struct rig){0};
    for (size_t i = 0; i < SAMPLES * 5; i++)
        values[i] = (float)(i * 7 % 11) / 11;
    pst_status st = pst_model_parse(&r->model, text, &(pst_shape){.rank = 1, .size = {5}}, error);
    return st == PST_OK ? pst_trainer_create(&r->trainer, r->model, &o, error) : st;
}

static void rig_finish(struct rig *r)
{
    pst_trainer_destroy(r->trainer);
    pst_model_destroy(r->model);
}

static bool same_weights(const struct rig *a, const struct rig *b)
{
    for (size_t i = 0; i < a->model->graph->param_count; i++)
        if (memcmp(pst_trainer_values(a->trainer, i), pst_trainer_values(b->trainer, i), a->model->graph->params[i].count * sizeof(float)) != 0)
            return false;
    return true;
}

static const char model[] = "dense 4 relu | dropout 0.2 | dense 3";

static void train(struct rig *r, int steps)
{
    pst_error error;
    for (int i = 0; i < steps; i++)
        CHECK_STATUS(pst_trainer_step(r->trainer, &samples, NULL, &error), PST_OK, &error);
}

/* Cursors are kept as bytes: also those of a pipeline whose cursor holds more than the four numbers. */
static void test_cursors(void)
{
    pst_error error;
    struct rig a;
    struct run_state state = {.epoch = 3, .best_loss = 0.5, .has_cursor = true}, got;
    pst_run_options options = {.size = sizeof(options), .folder = test_path("run")};
    REQUIRE_OK(rig_make(&a, model, &error), &error);
    for (int more = 0; more < 2; more++) {
        const char *folder = test_path(more ? "long cursor" : "cursor");
        pst_cursor_set(&state.cursor, &(pst_position){.fingerprint = UINT64_MAX - 5, .seed = 7, .epoch = 2, .next = 41});
        for (size_t i = 0; more && state.cursor.size < PST_CURSOR_BYTES; i++)
            state.cursor.bytes[state.cursor.size++] = (uint8_t)(i * 31);
        REQUIRE_OK(checkpoint_write(a.trainer, folder, &state, &options, &error), &error);
        REQUIRE_OK(checkpoint_read(a.trainer, folder, &got, &error), &error);
        CHECK(got.has_cursor && got.epoch == 3 && got.cursor.size == state.cursor.size);
        CHECK(memcmp(got.cursor.bytes, state.cursor.bytes, state.cursor.size) == 0);
    }
    rig_finish(&a);
}

static void test_continues(void)
{
    struct rig a, b;
    pst_error error;
    const char *path = test_path("saved");
    REQUIRE_OK(rig_make(&a, model, &error), &error);
    REQUIRE_OK(rig_make(&b, model, &error), &error);
    train(&a, 5);
    REQUIRE_OK(pst_trainer_save(a.trainer, path, &error), &error);
    REQUIRE_OK(pst_trainer_save(a.trainer, path, &error), &error); /* in place of the first */
    train(&a, 5);
    REQUIRE_OK(pst_trainer_load(b.trainer, path, &error), &error);
    CHECK_INT(pst_trainer_steps(b.trainer), 5);
    CHECK(!same_weights(&a, &b));
    train(&b, 5);
    CHECK(same_weights(&a, &b));
    rig_finish(&a);
    rig_finish(&b);
}

/* Writes one byte in place: a file that is truncated first would be flushed each time. */
static void poke(const char *path, size_t at, uint8_t byte)
{
    FILE *f = fopen(path, "r+b");
    if (!f || fseek(f, (long)at, SEEK_SET) != 0 || fputc(byte, f) == EOF || fclose(f) != 0)
        abort();
}

/* Every bit flipped: refused, the message names the file, and the trainer stays as it was. */
static void test_flips(void)
{
    static const char *const names[] = {"weights.safetensors", "optimizer.safetensors", "state.json"};
    struct rig a, b;
    pst_error error;
    char path[512];
    REQUIRE_OK(rig_make(&a, "dense 3", &error), &error);
    REQUIRE_OK(rig_make(&b, "dense 3", &error), &error);
    train(&a, 3);
    REQUIRE_OK(pst_trainer_save(a.trainer, test_path("flips"), &error), &error);
    for (size_t f = 0; f < 3; f++) {
        size_t length, taken = 0, unnamed = 0;
        snprintf(path, sizeof(path), "%s/%s", test_path("flips"), names[f]);
        uint8_t *bytes = test_read_file(path, &length);
        for (size_t i = 0; i < 8 * length; i++) {
            poke(path, i / 8, (uint8_t)(bytes[i / 8] ^ (1 << i % 8)));
            taken += pst_trainer_load(b.trainer, test_path("flips"), &error) == PST_OK;
            unnamed += strstr(error.path, names[f]) == NULL;
            poke(path, i / 8, bytes[i / 8]);
        }
        CHECK_MSG(taken == 0 && unnamed == 0, "%s: of %zu flips %zu were not noticed, %zu not named", names[f], 8 * length, taken, unnamed);
        for (size_t cut = 0; cut < length; cut += 97) {
            test_write_file(path, bytes, cut);
            CHECK(pst_trainer_load(b.trainer, test_path("flips"), &error) < 0);
        }
        test_write_file(path, bytes, length);
        free(bytes);
    }
    CHECK_INT(pst_trainer_steps(b.trainer), 0);
    REQUIRE_OK(pst_trainer_load(b.trainer, test_path("flips"), &error), &error);
    CHECK(same_weights(&a, &b));
    rig_finish(&a);
    rig_finish(&b);
}

static void test_other_model(void)
{
    struct rig a, b;
    pst_error error;
    size_t loaded = 0;
    REQUIRE_OK(rig_make(&a, model, &error), &error);
    REQUIRE_OK(rig_make(&b, "dense 4 relu | dropout 0.2 | dense 3 name=head", &error), &error);
    REQUIRE_OK(pst_trainer_save(a.trainer, test_path("other"), &error), &error);
    CHECK_STATUS(pst_trainer_load(b.trainer, test_path("other"), &error), PST_ETYPE, &error);
    CHECK(strstr(error.message, "head") != NULL);
    REQUIRE_OK(pst_trainer_load_weights(b.trainer, test_path("other"), &loaded, &error), &error);
    CHECK_INT(loaded, 2);
    CHECK(memcmp(pst_trainer_values(a.trainer, 0), pst_trainer_values(b.trainer, 0), 20 * sizeof(float)) == 0);
    CHECK_STATUS(pst_trainer_load(b.trainer, test_path("nowhere"), &error), PST_ENOTFOUND, &error);
    rig_finish(&a);
    rig_finish(&b);
}

static void replace(char *in, const char *from, const char *to)
{
    char *at = strstr(in, from);
    if (at)
        memcpy(at, to, strlen(to));
}

/* A newer format is refused by name; the hash is that of the changed file. */
static void test_newer(void)
{
    struct rig a;
    pst_error error;
    char path[512];
    size_t length;
    REQUIRE_OK(rig_make(&a, model, &error), &error);
    REQUIRE_OK(pst_trainer_save(a.trainer, test_path("newer"), &error), &error);
    snprintf(path, sizeof(path), "%s/state.json", test_path("newer"));
    char *bytes = (char *)test_read_file(path, &length);
    replace(bytes, "\"format\": 1", "\"format\": 9");
    char hash[17];
    snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)hash_bytes(bytes, length - 33, 0));
    memcpy(bytes + length - 21 + 1, hash, 16);
    test_write_file(path, bytes, length);
    CHECK_STATUS(pst_trainer_load(a.trainer, test_path("newer"), &error), PST_EUNSUPPORTED, &error);
    CHECK(strstr(error.message, "format 9") != NULL);
    free(bytes);
    rig_finish(&a);
}

/* Every allocation and every call on storage may fail: an error, no leak, and the earlier checkpoint is still whole. */
static void test_faults(void)
{
    struct rig a, b;
    pst_error error;
    REQUIRE_OK(rig_make(&a, model, &error), &error);
    train(&a, 2);
    REQUIRE_OK(pst_trainer_save(a.trainer, test_path("faults"), &error), &error);
    for (int kind = FAULT_MEMORY; kind <= FAULT_IO; kind++)
        for (uint64_t n = 0;; n++) {
            uint64_t live = mem_live();
            test_fault_arm(kind, n, false);
            pst_status st = rig_make(&b, model, &error);
            if (st == PST_OK)
                st = pst_trainer_load(b.trainer, test_path("faults"), &error);
            if (st == PST_OK)
                st = pst_trainer_save(b.trainer, test_path("faults"), &error);
            bool reached = test_fault_calls() > n;
            test_fault_clear();
            rig_finish(&b);
            CHECK_INT(mem_live(), live);
            REQUIRE_OK(checkpoint_read(a.trainer, test_path("faults"), NULL, &error), &error);
            if (!reached)
                break;
            CHECK_MSG(st < 0 || kind == FAULT_IO, "fault %d of kind %d went unnoticed", (int)n, kind);
        }
    rig_finish(&a);
}

/* ---- safetensors ---- */

static void test_round_trip(void)
{
    const float x[] = {1, 2, 3, 4, 5, 6}, y[] = {7};
    struct safetensor list[] = {{.name = "b/\"q\"", .dtype = "F32", .rank = 2, .shape = {2, 3}, .count = 6, .data = x},
                                {.name = "a", .dtype = "F32", .rank = 0, .count = 1, .data = y}};
    struct text t = {0};
    struct safetensors s = {0};
    pst_error error;
    safetensors_write(&t, list, 2);
    REQUIRE(!t.failed);
    CHECK_INT((8 + le64(t.data)) % 64, 0);
    REQUIRE_OK(safetensors_parse(&s, NULL, t.data, t.length, &error), &error);
    CHECK_INT(s.count, 2);
    const struct safetensor *b = safetensors_find(&s, "b/\"q\"");
    REQUIRE(b != NULL && safetensors_find(&s, "a") && !safetensors_find(&s, "c"));
    CHECK(b->rank == 2 && b->shape[1] == 3 && memcmp(b->data, x, sizeof(x)) == 0);
    safetensors_finish(&s);
    text_finish(&t);
}

static void test_hostile(void)
{
    static const struct {
        const char *header;
        pst_status want;
    } rows[] = {
        {"{}", PST_ECORRUPT}, /* bytes that belong to no array */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", PST_OK},
        {"{\"__metadata__\":{\"x\":\"y\"},\"a\":{\"shape\":[2],\"data_offsets\":[0,8],\"dtype\":\"F32\"}}", PST_OK},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", PST_ECORRUPT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", PST_ECORRUPT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", PST_ECORRUPT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", PST_ECORRUPT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,8]}}", PST_ECORRUPT},
        {"{\"a\":{\"dtype\":\"F99\",\"shape\":[2],\"data_offsets\":[0,8]}}", PST_EUNSUPPORTED},
        {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", PST_ECORRUPT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         PST_ECORRUPT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         PST_ECORRUPT},
        {"[1,2]", PST_ECORRUPT},
        {"{\"a\":", PST_ECORRUPT},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}} x", PST_ECORRUPT},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t bytes[512];
        struct safetensors s = {0};
        pst_error error = {0};
        size_t n = strlen(rows[i].header);
        put_le64(bytes, n);
        memcpy(bytes + 8, rows[i].header, n);
        memset(bytes + 8 + n, 0, 8);
        pst_status st = safetensors_parse(&s, NULL, bytes, n + 16, &error);
        CHECK_MSG(st == rows[i].want, "%s: %s, %s", rows[i].header, pst_status_name(st), error.message);
        safetensors_finish(&s);
        put_le64(bytes, UINT64_MAX - 3);
        CHECK(safetensors_parse(&s, NULL, bytes, n + 16, &error) == PST_ECORRUPT);
    }
    CHECK(safetensors_parse(&(struct safetensors){0}, NULL, "abc", 3, NULL) == PST_ECORRUPT);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"a checkpoint continues", test_continues},
                                        {"cursors are kept whole", test_cursors},
                                        {"every bit damaged", test_flips},
                                        {"another model", test_other_model},
                                        {"a newer format", test_newer},
                                        {"everything may fail", test_faults},
                                        {"safetensors: written and read", test_round_trip},
                                        {"safetensors: hostile headers", test_hostile},
                                        {0}};
    return test_main(argc, argv, tests);
}
