/* onnx_by_hand.c: see onnx_by_hand.h. */
#include "unit/onnx_by_hand.h"

#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hand_fill(float *values, size_t count, uint64_t key)
{
    struct random r;
    random_init(&r, key, 0, 0, 0);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)random_between(&r, -1, 1);
}

void hand_constant(struct hand *h, const char *name, int type, const int64_t *dims, size_t rank, const void *data, size_t bytes)
{
    size_t begin = proto_begin(&h->graph, 5);
    for (size_t i = 0; i < rank; i++)
        proto_int(&h->graph, 1, dims[i]);
    proto_int(&h->graph, 2, type);
    proto_string(&h->graph, 8, name);
    proto_bytes(&h->graph, 9, data, bytes);
    proto_end(&h->graph, begin);
}

/* An attribute "name=1,2": whole numbers; "name:1": one of them; "name~0.5": a float; "name@1": a tensor with one whole number. */
static void attribute(struct text *to, const char *text)
{
    size_t begin = proto_begin(to, 5), length = strcspn(text, "=:~@");
    proto_bytes(to, 1, text, length);
    const char *at = text + length + 1;
    if (text[length] == '~')
        proto_float(to, 2, strtof(at, NULL));
    else if (text[length] == ':')
        proto_int(to, 3, strtoll(at, NULL, 10));
    if (text[length] == '@') {
        size_t tensor = proto_begin(to, 5);
        proto_int(to, 1, 1);
        proto_int(to, 2, INT64);
        proto_bytes(to, 9, &(int64_t){strtoll(at, NULL, 10)}, 8);
        proto_end(to, tensor);
    }
    for (char *end; text[length] == '=' && *at; at = *end ? end + 1 : end)
        proto_int(to, 8, strtoll(at, &end, 10));
    proto_end(to, begin);
}

void hand_node_of(struct hand *h, const char *domain, const char *op, const char *in, const char *out, const char *words)
{
    size_t begin = proto_begin(&h->graph, 1);
    char all[256], *rest = all, *word;
    snprintf(all, sizeof(all), "%s", in);
    while ((word = strsep(&rest, " ")))
        proto_string(&h->graph, 1, strcmp(word, "-") == 0 ? "" : word);
    proto_string(&h->graph, 2, out);
    proto_string(&h->graph, 3, out);
    proto_string(&h->graph, 4, op);
    if (domain[0])
        proto_string(&h->graph, 7, domain);
    snprintf(all, sizeof(all), "%s", words);
    for (rest = all; *words && (word = strsep(&rest, " "));)
        attribute(&h->graph, word);
    proto_end(&h->graph, begin);
}

void hand_node(struct hand *h, const char *op, const char *in, const char *out, const char *words)
{
    hand_node_of(h, "", op, in, out, words);
}

void hand_port(struct hand *h, unsigned field, const char *name, const int64_t *dims, size_t rank)
{
    size_t begin = proto_begin(&h->graph, field);
    proto_string(&h->graph, 1, name);
    size_t type = proto_begin(&h->graph, 2), tensor = proto_begin(&h->graph, 1);
    proto_int(&h->graph, 1, FLOAT);
    size_t shape = proto_begin(&h->graph, 2);
    for (size_t i = 0; i < rank; i++) {
        size_t dimension = proto_begin(&h->graph, 1);
        if (dims[i] >= 0)
            proto_int(&h->graph, 1, dims[i]);
        else
            proto_string(&h->graph, 2, "N");
        proto_end(&h->graph, dimension);
    }
    proto_end(&h->graph, shape);
    proto_end(&h->graph, tensor);
    proto_end(&h->graph, type);
    proto_end(&h->graph, begin);
}

struct text hand_finish(struct hand *h)
{
    struct text file = {0};
    proto_int(&file, 1, 8);
    size_t opset = proto_begin(&file, 8);
    proto_int(&file, 2, 17);
    proto_end(&file, opset);
    proto_bytes(&file, 7, h->graph.data, h->graph.length);
    text_finish(&h->graph);
    *h = (struct hand){0};
    return file;
}

pst_status hand_import(struct hand *h, struct onnx_model *m, pst_error *error)
{
    struct text file = hand_finish(h);
    *m = (struct onnx_model){0};
    *error = (pst_error){0};
    pst_status st = onnx_import_bytes(m, "by-hand.onnx", (const uint8_t *)file.data, file.length, error);
    text_finish(&file);
    return st;
}
