/* op_bucket.c: the declaration of `bucket`; the engine carries it out. */
#include "base/error.h"
#include "ops/fields.h"
#include "ops/op_table.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define MOST_BUCKETS 256

struct config {
    const char *field, *boundaries, *sizes;
    uint64_t tokens, most;
    bool pads, pad_to_boundary, drop_remainder;
    struct pad_rule pad;
    /* Noted by the plan: */
    struct key_rule key;
    uint64_t ends[MOST_BUCKETS], size[MOST_BUCKETS + 1];
};

/* Reads up to `most` whole numbers that commas separate; "" is an empty list. `name` is the parameter, for errors. */
static pst_status read_numbers(const char *name, const char *text, uint64_t *ret, size_t most, size_t *ret_count, pst_error *reterr)
{
    size_t n = 0;
    *ret_count = 0;
    for (const char *at = text; *at;) {
        char *end;
        errno = 0;
        unsigned long long value = isdigit((unsigned char)*at) ? strtoull(at, &end, 10) : 0;
        if (!isdigit((unsigned char)*at) || errno || (*end && *end != ',') || (*end == ',' && !end[1]))
            return pst_fail(reterr, PST_EINVAL, "%s: \"%s\" is not a list of whole numbers such as 16,32,64", name, text);
        if (n == most)
            return pst_fail(reterr, PST_EINVAL, "%s: more than %zu numbers", name, most);
        ret[n++] = value;
        at = *end ? end + 1 : end;
    }
    *ret_count = n;
    return PST_OK;
}

/* One size per bucket, or one for all of them; with a budget there need not be any. */
static pst_status read_sizes(struct config *c, pst_error *reterr)
{
    size_t buckets = c->key.boundary_count + 1, count;
    pst_status st = read_numbers("sizes", c->sizes, c->size, MOST_BUCKETS + 1, &count, reterr);
    if (st < 0)
        return st;
    if (count == 0 && c->tokens == 0)
        return pst_fail(reterr, PST_EINVAL, "expected the number of elements per batch (sizes=), or of values (tokens=)");
    if (count == 0)
        c->size[count++] = c->most < c->tokens ? c->most : c->tokens;
    if (count != 1 && count != buckets)
        return pst_fail(reterr, PST_EINVAL, "sizes: %zu numbers; expected 1, or %zu: one more than boundaries", count, buckets);
    for (size_t i = 0; i < buckets; i++) {
        c->size[i] = count == 1 ? c->size[0] : c->size[i];
        if (c->size[i] == 0 || c->size[i] > 1000000000)
            return pst_fail(reterr, PST_EINVAL, "sizes: %" PRIu64 " elements per batch; expected 1 to 1000000000", c->size[i]);
    }
    return PST_OK;
}

static pst_status plan(void *config, const pst_spec *in, pst_spec *out, pst_error *reterr)
{
    struct config *c = config;
    size_t field;
    c->key = (struct key_rule){.kind = KEY_LENGTH, .boundaries = c->ends, .sizes = c->size, .tokens = c->tokens};
    pst_status st = field_find(in, c->field, &field, reterr);
    if (st == PST_OK)
        st = read_numbers("boundaries", c->boundaries, c->ends, MOST_BUCKETS, &c->key.boundary_count, reterr);
    if (st == PST_OK)
        st = read_sizes(c, reterr);
    if (st < 0)
        return st;
    for (size_t i = 1; i < c->key.boundary_count; i++)
        if (c->ends[i] <= c->ends[i - 1])
            return pst_fail(reterr, PST_EINVAL, "boundaries: %" PRIu64 " after %" PRIu64 "; expected them in ascending order",
                            c->ends[i], c->ends[i - 1]);
    const pst_field *f = &in->field[field];
    bool is_float = f->dtype >= PST_DTYPE_F16 && f->dtype <= PST_DTYPE_F64;
    if (f->rank == 0 && is_float)
        return pst_fail(reterr, PST_ETYPE, "field %s is a single number of type %s; expected an array, bytes or a whole number",
                        c->field, pst_dtype_name(f->dtype));
    if (c->pad_to_boundary && c->key.boundary_count == 0)
        return pst_fail(reterr, PST_EINVAL, "pad_to_boundary: there are no boundaries");
    c->key.field = field;
    c->pad.field = c->field;
    c->pad.boundaries = c->pad_to_boundary ? c->ends : NULL;
    c->pad.boundary_count = c->key.boundary_count;
    pst_spec_pass(in, out);
    return PST_OK;
}

static void order(const void *config, const struct order_env *env, struct order_step *ret)
{
    const struct config *c = config;
    (void)env;
    *ret = (struct order_step){
        .kind = ORDER_BATCH, .drop_remainder = c->drop_remainder, .pad = c->pads ? &c->pad : NULL, .key = &c->key};
    for (size_t i = 0; i <= c->key.boundary_count; i++)
        ret->size = c->size[i] > ret->size ? c->size[i] : ret->size;
}

static const pst_param params[] = {
    {"field", PST_PARAM_STRING, offsetof(struct config, field), NULL, 0, 0, NULL,
     "the field whose length counts: its first dimension; of a single text its bytes, of a single whole number its value"},
    {"boundaries", PST_PARAM_STRING, offsetof(struct config, boundaries), "", 0, 0, NULL,
     "lengths at which the next bucket begins, in ascending order: 16,32,64 makes four buckets"},
    {"sizes", PST_PARAM_STRING, offsetof(struct config, sizes), "", 0, 0, NULL,
     "elements per batch: one number, or one per bucket, which is one more than boundaries"},
    {"tokens", PST_PARAM_UINT, offsetof(struct config, tokens), "0", 0, 1e15, NULL,
     "values per batch: a batch is full when one more element would make its number of elements, times the longest of "
     "them, larger than this; 0: no budget"},
    {"most", PST_PARAM_UINT, offsetof(struct config, most), "1024", 1, 1e9, NULL,
     "elements per batch at most, if tokens is given and sizes is not"},
    {"pad", PST_PARAM_BOOL, offsetof(struct config, pads), "true", 0, 0, NULL,
     "fill the elements of a batch up to the longest; false: they stay as they are, as in batch"},
    {"pad_to_boundary", PST_PARAM_BOOL, offsetof(struct config, pad_to_boundary), "false", 0, 0, NULL,
     "fill them up to the end of their bucket"},
    {"multiple", PST_PARAM_UINT, offsetof(struct config, pad.multiple), "1", 1, 1e9, NULL,
     "fill every varying dimension up to a multiple of this"},
    {"value", PST_PARAM_FLOAT, offsetof(struct config, pad.value), "0", -INFINITY, INFINITY, NULL,
     "value of the numbers that are added; fields of bytes get empty bytes"},
    {"values", PST_PARAM_STRING, offsetof(struct config, pad.values), "", 0, 0, NULL,
     "other values for some fields, as labels:-100,weights:1"},
    {"drop_remainder", PST_PARAM_BOOL, offsetof(struct config, drop_remainder), "false", 0, 0, NULL,
     "leave out the batches at the end that are not full"},
    {0},
};

const struct op_decl op_bucket = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "bucket",
            .doc = "Combines elements of similar length into batches, so that little is filled up: "
                   "bucket_by_sequence_length of tf.data, or a budget of values per batch. Batches come out when they are "
                   "full; at the end the rest comes out, the shortest first. The data decides which elements come "
                   "together, so a stream begins here: ordered, and the same for any number of workers.",
            .example = "tfrecord text/ | example | shuffle | bucket tokens boundaries=16,32,64 sizes=128,64,32,16",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
        },
    .kind = PST_OP_BATCHING,
    .order = order,
    .cut = CUT_KEYED,
};
