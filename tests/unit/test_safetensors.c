/* test_safetensors.c: files as other programs write them, headers that lie, every truncation and every bit flip. What holds for
 * any bytes is said by the fuzz target, which is linked here. */
#include "../fuzz/expect.h"
#include "base/fault.h"
#include "base/le.h"
#include "base/memory.h"
#include "export/safetensors.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

static const float kernel[6] = {1, 2, 3, 4, 5, 6}, bias[3] = {-1, 0.5f, 1e-30f};

static void write_sample(struct text *to)
{
    struct safetensor list[] = {
        {.name = "conv_1/kernel", .dtype = "F32", .rank = 2, .shape = {2, 3}, .count = 6, .data = kernel},
        {.name = "conv_1/bias", .dtype = "F32", .rank = 1, .shape = {3}, .count = 3, .data = bias},
        {.name = "a \"quoted\" name", .dtype = "F32", .rank = 2, .shape = {4, 0}, .count = 0},
    };
    safetensors_write(to, list, 3);
}

static void reads_what_it_writes(void)
{
    struct text file = {0};
    struct safetensors s = {0};
    pst_error error = {0};
    write_sample(&file);
    REQUIRE(!file.failed);
    CHECK_INT((8 + le64(file.data)) % 8, 0);
    REQUIRE_OK(safetensors_parse(&s, NULL, file.data, file.length, &error), &error);
    CHECK_INT(s.count, 3);
    const struct safetensor *k = safetensors_find(&s, "conv_1/kernel"), *b = safetensors_find(&s, "conv_1/bias");
    REQUIRE(k && b && safetensors_find(&s, "a \"quoted\" name"));
    CHECK(k->rank == 2 && k->shape[0] == 2 && k->shape[1] == 3 && memcmp(k->data, kernel, sizeof(kernel)) == 0);
    CHECK(b->rank == 1 && b->count == 3 && memcmp(b->data, bias, sizeof(bias)) == 0);
    CHECK((uintptr_t)((const char *)b->data - file.data) % 8 == 0); /* the first of the arrays with values, by name */
    CHECK(safetensors_find(&s, "conv_1") == NULL);
    safetensors_finish(&s);
    text_finish(&file);
}

/* `header` with its length, and `bytes` zeros. */
static pst_status parse(const char *header, size_t bytes, pst_error *error)
{
    static uint8_t file[4096];
    struct safetensors s = {0};
    size_t n = strlen(header);
    memset(file, 0, sizeof(file));
    put_le64(file, n);
    memcpy(file + 8, header, n);
    pst_status st = safetensors_parse(&s, NULL, file, 8 + n + bytes, error);
    safetensors_finish(&s);
    return st;
}

static void headers_that_lie(void)
{
    static const struct {
        const char *header;
        size_t bytes;
        pst_status want;
    } cases[] = {
        {"{}", 0, PST_OK},
        {"{\"__metadata__\":{\"format\":\"pt\"}}   ", 0, PST_OK},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, PST_OK},
        {"{\"a\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,2]}}", 2, PST_OK},
        {"{\"b\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[1,9]},\"a\":{\"dtype\":\"U8\",\"shape\":[1,1],\"data_"
         "offsets\":[0,1]}}",
         9, PST_OK},
        {"{}", 1, PST_ECORRUPT},                                                                 /* bytes of no array */
        {"[]", 0, PST_ECORRUPT},                                                                 /* not an object */
        {"{\"a\":1}", 0, PST_ECORRUPT},                                                          /* not a description */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7, PST_ECORRUPT},   /* cut short */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, PST_ECORRUPT},   /* another shape */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, PST_ECORRUPT},   /* backwards */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, PST_ECORRUPT},   /* a gap */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,0]}}", 0, PST_ECORRUPT},  /* negative */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", 4, PST_ECORRUPT}, /* not whole */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", 4, PST_ECORRUPT}, /* three offsets */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4,
         PST_ECORRUPT}, /* nine dimensions */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
         PST_ECORRUPT}, /* 2^64 values */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904],\"data_offsets\":[0,0]}}", 0,
         PST_ECORRUPT}, /* 2^64 bytes */
        {"{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, PST_EUNSUPPORTED},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_"
         "offsets\":[4,8]}}",
         8, PST_ECORRUPT}, /* twice */
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_"
         "offsets\":[0,4]}}",
         4, PST_ECORRUPT}, /* the same bytes */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pst_error error = {0};
        CHECK_MSG(parse(cases[i].header, cases[i].bytes, &error) == cases[i].want, "%s: %s", cases[i].header, error.message);
    }
}

static void header_lengths(void)
{
    uint8_t file[32] = {0};
    struct safetensors s = {0};
    static const uint64_t lengths[] = {0, 1, 25, 1 << 20, (uint64_t)1 << 40, UINT64_MAX - 7, UINT64_MAX};
    uint64_t live = mem_live();
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        pst_error error = {0};
        put_le64(file, lengths[i]);
        memcpy(file + 8, "{}                      ", 24);
        test_fault_arm(FAULT_MEMORY, 0, true); /* refused before anything is allocated */
        pst_status st = safetensors_parse(&s, NULL, file, sizeof(file), &error);
        test_fault_clear();
        CHECK_STATUS(st, PST_ECORRUPT, &error);
    }
    CHECK_INT(mem_live(), live);
}

/* Headers and data of a small file, damaged in every way: the fuzz target checks what is accepted. */
static void every_truncation_and_flip(void)
{
    struct text file = {0};
    struct safetensors s = {0};
    pst_error error = {0};
    uint64_t live = mem_live();
    write_sample(&file);
    REQUIRE(!file.failed);
    for (size_t n = 0; n < file.length; n++) {
        uint8_t *part = malloc(n + 1); /* a block of its own: sanitizers see reads behind its end */
        memcpy(part, file.data, n);
        CHECK(safetensors_parse(&s, NULL, part, n, &error) == PST_ECORRUPT);
        free(part);
    }
    for (size_t bit = 0; bit < 8 * file.length; bit++) {
        file.data[bit / 8] = (char)(file.data[bit / 8] ^ 1 << bit % 8);
        LLVMFuzzerTestOneInput((const uint8_t *)file.data, file.length);
        file.data[bit / 8] = (char)(file.data[bit / 8] ^ 1 << bit % 8);
    }
    text_finish(&file);
    CHECK_INT(mem_live(), live);
}

static void memory_may_run_out(void)
{
    struct text file = {0};
    write_sample(&file);
    REQUIRE(!file.failed);
    uint64_t live = mem_live();
    for (uint64_t n = 0;; n++) {
        struct safetensors s = {0};
        pst_error error = {0};
        test_fault_arm(FAULT_MEMORY, n, false);
        pst_status st = safetensors_parse(&s, NULL, file.data, file.length, &error);
        bool reached = test_fault_calls() > n;
        test_fault_clear();
        CHECK_STATUS(st, reached ? PST_ENOMEM : PST_OK, &error);
        safetensors_finish(&s);
        CHECK_INT(mem_live(), live);
        if (!reached)
            break;
    }
    text_finish(&file);
}

int main(int argc, char **argv)
{
    return test_main(argc, argv,
                     (const struct test[]){{"reads what it writes", reads_what_it_writes},
                                           {"headers that lie", headers_that_lie},
                                           {"header lengths", header_lengths},
                                           {"every truncation and flip", every_truncation_and_flip},
                                           {"memory may run out", memory_may_run_out},
                                           {0}});
}
