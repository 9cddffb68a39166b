/* bench_example.c: how fast Examples of 32 floats and a label are parsed on one core: alone, with the two CRCs that a
 * verified read computes, and as batches. Prints best, median and worst of several rounds in million records a second. */
#include <penstock/example.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/le.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>

#define RECORDS 4096u
#define FLOATS  32u
#define BATCH   64u
#define ROUNDS  9u
#define PASSES  200u /* over all records, a round */

static pst_bytes records[RECORDS];
static uint8_t storage[RECORDS * 256];
static volatile uint64_t sink;

static void require(pst_status st, const pst_error *error)
{
    char text[512];
    if (st == PST_OK)
        return;
    fprintf(stderr, "%s\n", pst_error_text(error, text, sizeof(text)));
    exit(1);
}

static void make_records(void)
{
    struct random r;
    pst_builder *builder;
    pst_error error;
    size_t used = 0;
    random_init(&r, 7, 0, 0, 0);
    require(pst_builder_create(&builder, &error), &error);
    for (size_t i = 0; i < RECORDS; i++) {
        float x[FLOATS];
        int64_t label = (int64_t)random_below(&r, 1000);
        pst_bytes example;
        for (size_t k = 0; k < FLOATS; k++)
            x[k] = (float)random_unit(&r);
        pst_builder_reset(builder);
        require(pst_builder_add_int64s(builder, "label", &label, 1, &error), &error);
        require(pst_builder_add_floats(builder, "x", x, FLOATS, &error), &error);
        require(pst_builder_finish(builder, &example, &error), &error);
        memcpy(storage + used, example.data, example.length);
        records[i] = (pst_bytes){storage + used, example.length};
        used += example.length;
    }
    pst_builder_destroy(builder);
}

/* What keeps the parsed values from being optimised away. */
static uint64_t look_at(const pst_value *values)
{
    return *(const int64_t *)values[0].data + le32(values[1].data);
}

static void parse(pst_parser *parser, pst_error *error)
{
    for (size_t i = 0; i < RECORDS; i++) {
        pst_value values[2];
        require(pst_parser_parse(parser, records[i].data, records[i].length, values, error), error);
        sink += look_at(values);
    }
}

static void parse_with_crc(pst_parser *parser, pst_error *error)
{
    for (size_t i = 0; i < RECORDS; i++) {
        pst_value values[2];
        uint64_t length = records[i].length;
        sink += crc32c_masked(&length, sizeof(length)) + crc32c_masked(records[i].data, records[i].length);
        require(pst_parser_parse(parser, records[i].data, records[i].length, values, error), error);
        sink += look_at(values);
    }
}

static void parse_batches(pst_parser *parser, pst_error *error)
{
    for (size_t i = 0; i < RECORDS; i += BATCH) {
        pst_column columns[2];
        require(pst_parser_parse_batch(parser, records + i, BATCH, columns, error), error);
        sink += *(const int64_t *)columns[0].values.data + le32(columns[1].values.data);
    }
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const char *name, void (*run)(pst_parser *, pst_error *), pst_parser *parser, pst_error *error)
{
    double rates[ROUNDS];
    run(parser, error); /* memory grows here */
    for (size_t i = 0; i < ROUNDS; i++) {
        uint64_t start = clock_ns();
        for (size_t k = 0; k < PASSES; k++)
            run(parser, error);
        rates[i] = 1e3 * RECORDS * PASSES / (double)(clock_ns() - start);
    }
    qsort(rates, ROUNDS, sizeof(rates[0]), ascending);
    printf("%-14s %7.2f %7.2f %7.2f\n", name, rates[ROUNDS - 1], rates[ROUNDS / 2], rates[0]);
}

int main(void)
{
    pst_error error;
    pst_schema *schema;
    pst_parser *parser;
    make_records();
    require(pst_schema_parse(&schema, "label:int64 x:float[32]", &error), &error);
    require(pst_parser_create(&parser, schema, NULL, &error), &error);
    printf("32 floats and a label (%zu bytes), %u rounds of %u records, one core\n", records[0].length, ROUNDS,
           RECORDS * PASSES);
    printf("%-14s %7s %7s %7s  million records/s\n", "", "best", "median", "worst");
    measure("parse", parse, parser, &error);
    measure("parse + crc", parse_with_crc, parser, &error);
    measure("parse_batch", parse_batches, parser, &error);
    pst_parser_destroy(parser);
    pst_schema_destroy(schema);
    return 0;
}
