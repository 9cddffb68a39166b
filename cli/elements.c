/* elements.c: see elements.h. Names and bytes come from untrusted data: they are escaped before they are printed. */
#include "cli/elements.h"
#include "cli/json.h"
#include "cli/say.h"
#include "cli/utf8.h"
#include "cli/values.h"
#include <math.h>
#include <penstock/image.h>
#include <stdio.h>
#include <string.h>

#define TEXT_COLUMNS 80
#define HEX_BYTES    12
#define TYPE_SIZE    256
#define NAME_SIZE    (6 * PST_NAME_SIZE) /* every byte may become \xHH or more */

/* A field of an element, or of a batch. */
struct shown {
    const char *name;
    pst_tensor tensor;
    uint64_t count; /* values */
};

/* `i` is the element; SIZE_MAX: the whole batch. */
static struct shown field_shown(const pst_batch *batch, size_t field, size_t i)
{
    const pst_tensor *t = pst_batch_at(batch, field);
    struct shown s = {.name = pst_batch_name(batch, field), .tensor = i == SIZE_MAX ? *t : element_view(t, i)};

    s.count = value_count(&s.tensor, pst_batch_size(batch));
    return s;
}

/* "float32 [224,224,3]"; ? where it varies. */
static char *type_text(char buffer[TYPE_SIZE], const pst_tensor *t)
{
    size_t used = (size_t)snprintf(buffer, TYPE_SIZE, "%s", pst_dtype_name(t->dtype));

    for (uint32_t d = 0; d < t->rank; d++) {
        used += (size_t)snprintf(buffer + used, TYPE_SIZE - used, "%s", d ? "," : " [");
        if (t->shape[d] == PST_ANY)
            used += (size_t)snprintf(buffer + used, TYPE_SIZE - used, "?");
        else
            used += (size_t)snprintf(buffer + used, TYPE_SIZE - used, "%llu", (unsigned long long)t->shape[d]);
    }
    if (t->rank)
        snprintf(buffer + used, TYPE_SIZE - used, "]");
    return buffer;
}

static bool is_text(pst_bytes b)
{
    for (size_t i = 0; i < b.length;) {
        uint32_t c;
        size_t width = utf8_decode((const char *)b.data + i, b.length - i, &c);

        if (width == 0 || c == 0x7f || (c < 0x20 && c != '\n' && c != '\r' && c != '\t'))
            return false;
        i += width;
    }
    return true;
}

/* ---- For people ---- */

static void put_text(pst_bytes b)
{
    const char *s = (const char *)b.data;
    size_t n = 0, columns = 0;

    while (n < b.length) {
        uint32_t c;
        size_t width = utf8_decode(s + n, b.length - n, &c);

        columns += utf8_columns(s + n, width);
        if (columns > TEXT_COLUMNS)
            break;
        n += width;
    }
    putchar('"');
    put_clean(stdout, s, n);
    fputs(n < b.length ? "…\"" : "\"", stdout);
}

static void put_bytes(pst_bytes b)
{
    char length[AMOUNT_SIZE];
    pst_image_info info;

    if (is_text(b)) {
        put_text(b);
        return;
    }
    amount_count(length, b.length);
    if (pst_image_probe(b.data, b.length, &info, NULL) == PST_OK) {
        printf("<%s %u×%u, %s bytes>", pst_image_format_name(info.format), info.width, info.height, length);
        return;
    }
    printf("<%s bytes:", length);
    for (size_t i = 0; i < b.length && i < HEX_BYTES; i++)
        printf(" %02x", b.data[i]);
    fputs(b.length > HEX_BYTES ? " …>" : ">", stdout);
}

static void put_summary(const struct shown *s)
{
    struct value_summary sum = values_summary(&s->tensor, s->count);

    fputs("; ", stdout);
    if (!isnan(sum.mean))
        printf("%.6g to %.6g, mean %.6g, ", sum.min, sum.max, sum.mean);
    if (sum.nonfinite)
        printf("%llu not finite, ", (unsigned long long)sum.nonfinite);
    printf("digest %016llx", (unsigned long long)sum.digest);
}

static void put_values(const struct shown *s, uint64_t most)
{
    char number[VALUE_SIZE];
    bool bytes = s->tensor.dtype == PST_DTYPE_BYTES;

    for (uint64_t i = 0; i < s->count && i < most; i++) {
        fputs(i ? ", " : "", stdout);
        if (bytes)
            put_bytes(((const pst_bytes *)s->tensor.data)[i]);
        else
            fputs(value_text(number, &s->tensor, i), stdout);
    }
    if (s->count > most) {
        fputs(most ? ", …" : "…", stdout);
        put_summary(s);
    } else if (bytes && s->count == 1 && !is_text(*(const pst_bytes *)s->tensor.data)) {
        const pst_bytes *b = s->tensor.data;

        printf(", digest %016llx", (unsigned long long)bytes_digest(b->data, b->length));
    }
}

/* Escapes a field's name for printing; returns its width in columns. */
static size_t clean_columns(char buffer[NAME_SIZE], const char *name)
{
    clean_text(buffer, NAME_SIZE, name);
    return utf8_columns(buffer, strlen(buffer));
}

static void put_fields(const pst_batch *batch, size_t i, uint64_t values)
{
    char name[NAME_SIZE], type[TYPE_SIZE];
    size_t names = 0, types = 0;

    for (size_t f = 0; f < pst_batch_fields(batch); f++) {
        struct shown s = field_shown(batch, f, i);
        size_t columns = clean_columns(name, s.name);

        names = columns > names ? columns : names;
        columns = strlen(type_text(type, &s.tensor));
        types = columns > types ? columns : types;
    }
    for (size_t f = 0; f < pst_batch_fields(batch); f++) {
        struct shown s = field_shown(batch, f, i);
        size_t columns = clean_columns(name, s.name);

        printf("  %s%*s  %-*s", name, (int)(names - columns), "", s.count ? (int)types : 0, type_text(type, &s.tensor));
        fputs(s.count ? "  " : "", stdout);
        put_values(&s, values);
        putchar('\n');
    }
}

void put_element(const pst_batch *batch, size_t i, uint64_t number, uint64_t values)
{
    printf("element %llu\n", (unsigned long long)number);
    put_fields(batch, i, values);
}

void put_batch(const pst_batch *batch, uint64_t number, uint64_t values)
{
    size_t size = pst_batch_size(batch);

    printf("batch %llu, %zu %s\n", (unsigned long long)number, size, plural(size, "element", "elements"));
    put_fields(batch, SIZE_MAX, values);
}

/* ---- For programs ---- */

static void put_digest(struct json *j, uint64_t digest)
{
    char text[24];

    snprintf(text, sizeof(text), "%016llx", (unsigned long long)digest);
    json_string(j, "digest", text);
}

static void put_bytes_json(struct json *j, const char *key, pst_bytes b)
{
    pst_image_info info;

    if (is_text(b)) {
        json_bytes(j, key, b.data, b.length);
        return;
    }
    json_begin_object(j, key);
    json_uint(j, "bytes", b.length);
    if (pst_image_probe(b.data, b.length, &info, NULL) == PST_OK) {
        json_string(j, "format", pst_image_format_name(info.format));
        json_uint(j, "width", info.width);
        json_uint(j, "height", info.height);
    }
    put_digest(j, bytes_digest(b.data, b.length));
    json_end_object(j);
}

static void put_value_json(struct json *j, const char *key, const pst_tensor *t, uint64_t i)
{
    char number[VALUE_SIZE];

    if (t->dtype == PST_DTYPE_BYTES)
        put_bytes_json(j, key, ((const pst_bytes *)t->data)[i]);
    else if (t->dtype != PST_DTYPE_I64 && !isfinite(value_number(t, i)))
        json_null(j, key);
    else
        json_raw(j, key, value_text(number, t, i));
}

/* Nested arrays; `*at` counts the values. */
static void put_array_json(struct json *j, const char *key, const pst_tensor *t, uint32_t d, uint64_t *at)
{
    if (d == t->rank) {
        put_value_json(j, key, t, (*at)++);
        return;
    }
    json_begin_array(j, key);
    for (uint64_t i = 0; i < t->shape[d]; i++)
        put_array_json(j, NULL, t, d + 1, at);
    json_end_array(j);
}

static void put_summary_json(struct json *j, const struct shown *s)
{
    struct value_summary sum = values_summary(&s->tensor, s->count);

    json_begin_object(j, s->name);
    json_string(j, "dtype", pst_dtype_name(s->tensor.dtype));
    json_begin_array(j, "shape");
    for (uint32_t d = 0; d < s->tensor.rank; d++) {
        if (s->tensor.shape[d] == PST_ANY)
            json_null(j, NULL);
        else
            json_uint(j, NULL, s->tensor.shape[d]);
    }
    json_end_array(j);
    if (s->tensor.dtype != PST_DTYPE_BYTES) {
        json_number(j, "min", sum.min);
        json_number(j, "max", sum.max);
        json_number(j, "mean", sum.mean);
    }
    put_digest(j, sum.digest);
    json_end_object(j);
}

static void put_ragged_json(struct json *j, const struct shown *s, size_t size)
{
    json_begin_array(j, s->name);
    for (size_t i = 0; i < size; i++) {
        pst_tensor element = element_view(&s->tensor, i);
        uint64_t at = 0;

        put_array_json(j, NULL, &element, 0, &at);
    }
    json_end_array(j);
}

static void put_line_json(const char *what, uint64_t number, const pst_batch *batch, size_t i, uint64_t values)
{
    struct json j = json_to(stdout);

    json_begin_object(&j, NULL);
    json_uint(&j, what, number);
    if (i == SIZE_MAX)
        json_uint(&j, "size", pst_batch_size(batch));
    json_begin_object(&j, "fields");
    for (size_t f = 0; f < pst_batch_fields(batch); f++) {
        struct shown s = field_shown(batch, f, i);
        uint64_t at = 0;

        if (s.count > values)
            put_summary_json(&j, &s);
        else if (s.tensor.row_splits)
            put_ragged_json(&j, &s, pst_batch_size(batch));
        else
            put_array_json(&j, s.name, &s.tensor, 0, &at);
    }
    json_end_object(&j);
    json_end_object(&j);
    putchar('\n');
}

void put_element_json(const pst_batch *batch, size_t i, uint64_t number, uint64_t values)
{
    put_line_json("element", number, batch, i, values);
}

void put_batch_json(const pst_batch *batch, uint64_t number, uint64_t values)
{
    put_line_json("batch", number, batch, SIZE_MAX, values);
}
