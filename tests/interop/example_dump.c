/* example_dump.c: what our parser makes of the Examples in a TFRecord file, exactly, as a line of JSON a record.
 *
 *     example_dump SCHEMA FILE                      each declared feature
 *     example_dump --walk FILE                      every feature, names in hexadecimal
 *     example_dump --rebuild FILE                   the bytes of an Example built anew from what was walked
 *     example_dump --batch SIZE SCHEMA FILE         columns, a line a batch
 *     example_dump --infer FILE                     a last line holds the schema
 *     example_dump --sequence CONTEXT LISTS FILE    SequenceExamples
 *
 * Floats are their bits in hexadecimal, bytes are hexadecimal. What fails is {"error": STATUS, "message": …}. */
#include <penstock/example.h>
#include <penstock/record.h>

#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(pst_status st, const pst_error *error)
{
    char text[512];
    if (st >= 0)
        return;
    fprintf(stderr, "%s\n", pst_error_text(error, text, sizeof(text)));
    exit(1);
}

static void add_hex(struct text *t, pst_bytes bytes)
{
    text_add(t, "\"");
    for (size_t i = 0; i < bytes.length; i++)
        text_addf(t, "%02x", bytes.data[i]);
    text_add(t, "\"");
}

/* "kind": "float", "present": true, "values": [...] */
static void add_value(struct text *t, const pst_value *v)
{
    text_addf(t, "\"kind\": \"%s\", \"present\": %s, \"values\": [", pst_kind_name(v->kind), v->present ? "true" : "false");
    for (size_t i = 0; i < v->count; i++) {
        uint32_t bits;
        text_add(t, i ? ", " : "");
        if (v->kind == PST_BYTES) {
            add_hex(t, ((const pst_bytes *)v->data)[i]);
        } else if (v->kind == PST_FLOAT) {
            memcpy(&bits, (const char *)v->data + i * sizeof(bits), sizeof(bits));
            text_addf(t, "\"%08" PRIx32 "\"", bits);
        } else {
            text_addf(t, "%" PRId64, ((const int64_t *)v->data)[i]);
        }
    }
    text_add(t, "]");
}

static void add_values(struct text *t, const char *name, const pst_value *values, size_t count)
{
    text_addf(t, "\"%s\": [", name);
    for (size_t i = 0; i < count; i++) {
        text_add(t, i ? ", {" : "{");
        add_value(t, &values[i]);
        text_add(t, "}");
    }
    text_add(t, "]");
}

static void add_columns(struct text *t, const char *name, const pst_column *columns, size_t count)
{
    text_addf(t, "\"%s\": [", name);
    for (size_t i = 0; i < count; i++) {
        const pst_column *c = &columns[i];
        text_addf(t, "%s{\"rows\": %zu, \"splits\": [", i ? ", " : "", c->rows);
        for (size_t k = 0; c->row_splits && k <= c->rows; k++)
            text_addf(t, "%s%" PRId64, k ? ", " : "", c->row_splits[k]);
        text_add(t, "], ");
        add_value(t, &c->values);
        text_add(t, "}");
    }
    text_add(t, "]");
}

static void add_walk(struct text *t, const pst_named_value *named, size_t count)
{
    text_add(t, "\"features\": [");
    for (size_t i = 0; i < count; i++) {
        text_add(t, i ? ", {\"name\": " : "{\"name\": ");
        add_hex(t, named[i].name);
        text_add(t, ", ");
        add_value(t, &named[i].value);
        text_add(t, "}");
    }
    text_add(t, "]");
}

static pst_status rebuild(pst_builder *builder, const pst_named_value *named, size_t count, pst_bytes *ret, pst_error *error)
{
    pst_status st = PST_OK;
    pst_builder_reset(builder);
    for (size_t i = 0; i < count && st == PST_OK; i++) {
        const pst_value *v = &named[i].value;
        char *name = strndup((const char *)named[i].name.data, named[i].name.length);
        float *aligned = malloc((v->count + 1) * sizeof(*aligned));
        if (v->kind == PST_FLOAT && v->count > 0)
            memcpy(aligned, v->data, v->count * sizeof(*aligned));
        if (v->kind == PST_BYTES)
            st = pst_builder_add_bytes(builder, name, v->data, v->count, error);
        else if (v->kind == PST_FLOAT)
            st = pst_builder_add_floats(builder, name, aligned, v->count, error);
        else if (v->kind == PST_INT64)
            st = pst_builder_add_int64s(builder, name, v->data, v->count, error);
        free(aligned);
        free(name);
    }
    return st < 0 ? st : pst_builder_finish(builder, ret, error);
}

/* What the modes keep from record to record; the unused parts are NULL. */
struct dump {
    pst_schema *schema, *lists;
    pst_parser *parser;
    pst_sequence_parser *sequence;
    pst_inference *inference;
    pst_builder *builder;
    bool walk;
    size_t batch;
    pst_bytes *held; /* copies of the records of a batch */
    size_t held_count;
    pst_value *values;
    pst_column *columns;
};

static pst_status flush_batch(struct dump *d, struct text *t, pst_error *error)
{
    pst_status st = pst_parser_parse_batch(d->parser, d->held, d->held_count, d->columns, error);
    if (st == PST_OK)
        add_columns(t, "columns", d->columns, pst_schema_count(d->schema));
    while (d->held_count > 0)
        free((void *)d->held[--d->held_count].data);
    return st;
}

/* Appends what a record is to `t`. PST_END: nothing to print for it. */
static pst_status dump_record(struct dump *d, const pst_record *r, struct text *t, pst_error *error)
{
    const pst_named_value *named;
    size_t count;
    pst_bytes built;
    pst_status st;
    if (d->inference)
        return pst_inference_add(d->inference, r->data, r->length, error);
    if (d->sequence) {
        st = pst_sequence_parser_parse(d->sequence, r->data, r->length, d->values, d->columns, error);
        if (st < 0)
            return st;
        add_values(t, "context", d->values, pst_schema_count(d->schema));
        text_add(t, ", ");
        add_columns(t, "lists", d->columns, pst_schema_count(d->lists));
        return st;
    }
    if (d->batch) {
        uint8_t *copy = malloc(r->length + 1);
        memcpy(copy, r->data, r->length);
        d->held[d->held_count++] = (pst_bytes){copy, r->length};
        return d->held_count < d->batch ? PST_END : flush_batch(d, t, error);
    }
    if (!d->walk && !d->builder) {
        st = pst_parser_parse(d->parser, r->data, r->length, d->values, error);
        if (st == PST_OK)
            add_values(t, "values", d->values, pst_schema_count(d->schema));
        return st;
    }
    st = pst_parser_walk(d->parser, r->data, r->length, &named, &count, error);
    if (st == PST_OK && d->builder)
        st = rebuild(d->builder, named, count, &built, error);
    if (st == PST_OK && d->builder) {
        text_add(t, "\"bytes\": ");
        add_hex(t, built);
    } else if (st == PST_OK) {
        add_walk(t, named, count);
    }
    return st;
}

static void print_line(struct text *t, pst_status st, const pst_error *error)
{
    if (st == PST_END)
        return;
    if (st < 0) {
        text_addf(t, "\"error\": \"%s\", \"message\": ", pst_status_name(st));
        text_add_json(t, error->message, strlen(error->message));
    }
    printf("{%s}\n", t->data ? t->data : "");
    if (t->failed)
        exit(1);
    text_finish(t);
}

static const char *set_up(struct dump *d, int argc, char **argv)
{
    pst_error error;
    const char *mode = argc > 2 ? argv[1] : "";
    const char *schema = NULL, *lists = NULL;
    if (strcmp(mode, "--walk") == 0 && argc == 3) {
        d->walk = true;
    } else if (strcmp(mode, "--rebuild") == 0 && argc == 3) {
        die(pst_builder_create(&d->builder, &error), &error);
    } else if (strcmp(mode, "--infer") == 0 && argc == 3) {
        die(pst_inference_create(&d->inference, NULL, &error), &error);
    } else if (strcmp(mode, "--batch") == 0 && argc == 5) {
        d->batch = strtoul(argv[2], NULL, 10);
        schema = argv[3];
    } else if (strcmp(mode, "--sequence") == 0 && argc == 5) {
        schema = argv[2];
        lists = argv[3];
    } else if (argc == 3) {
        schema = argv[1];
    } else {
        fprintf(stderr, "usage: example_dump [--walk | --rebuild | --infer | --batch SIZE SCHEMA | --sequence CONTEXT LISTS | "
                        "SCHEMA] FILE\n");
        exit(2);
    }
    die(pst_schema_parse(&d->schema, schema ? schema : "", &error), &error);
    die(pst_schema_parse(&d->lists, lists ? lists : "", &error), &error);
    if (lists)
        die(pst_sequence_parser_create(&d->sequence, d->schema, d->lists, NULL, &error), &error);
    else
        die(pst_parser_create(&d->parser, d->schema, NULL, &error), &error);
    d->held = calloc(d->batch + 1, sizeof(*d->held));
    d->values = calloc(pst_schema_count(d->schema) + 1, sizeof(*d->values));
    d->columns = calloc(pst_schema_count(d->schema) + pst_schema_count(d->lists) + 1, sizeof(*d->columns));
    return argv[argc - 1];
}

static void print_inferred(const struct dump *d)
{
    static char text[1 << 16];
    struct text t = {0};
    pst_error error;
    pst_schema *inferred;
    die(pst_inference_schema(d->inference, &inferred, &error), &error);
    text_add(&t, "\"schema\": ");
    pst_schema_text(inferred, text, sizeof(text));
    text_add_json(&t, text, strlen(text));
    print_line(&t, PST_OK, &error);
    pst_schema_destroy(inferred);
}

int main(int argc, char **argv)
{
    struct dump d = {0};
    struct text t = {0};
    pst_error error;
    pst_reader *reader;
    pst_record record;
    pst_status st;
    const char *path = set_up(&d, argc, argv);
    die(pst_reader_open(&reader, path, NULL, &error), &error);
    while ((st = pst_reader_next(reader, &record, &error)) == PST_OK) {
        pst_status dumped = dump_record(&d, &record, &t, &error);
        print_line(&t, dumped, &error);
    }
    die(st, &error);
    if (d.held_count > 0) {
        st = flush_batch(&d, &t, &error);
        print_line(&t, st, &error);
    }
    if (d.inference)
        print_inferred(&d);
    pst_reader_close(reader);
    pst_inference_destroy(d.inference);
    pst_builder_destroy(d.builder);
    pst_sequence_parser_destroy(d.sequence);
    pst_parser_destroy(d.parser);
    pst_schema_destroy(d.lists);
    pst_schema_destroy(d.schema);
    free(d.held);
    free(d.values);
    free(d.columns);
    return 0;
}
