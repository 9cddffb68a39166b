/* onnx_axes.c: which dimension of a tensor of the file is which axis of ours, and the operators that change nothing else: Transpose,
 * Reshape, Flatten, Squeeze. */
#include "base/error.h"
#include "export/onnx_translate.h"

#include <inttypes.h>
#include <string.h>

#define MAX_REPEATED ((size_t)1 << 20) /* channels that one number is repeated for */

/* ---- Axes ---- */

uint32_t onnx_axis_size(const struct onnx_value *v, char axis)
{
    return axis == 'C' ? v->image.c : axis == 'H' ? v->image.h : axis == 'W' ? v->image.w : 1;
}

size_t onnx_dim_size(const struct onnx_value *v, uint32_t i)
{
    size_t size = 1;
    for (const char *a = v->axes[i]; *a; a++)
        size *= onnx_axis_size(v, *a);
    return size;
}

void onnx_set(struct onnx_translation *t, struct onnx_value *v, size_t ours, const char *axes)
{
    v->kind = ONNX_VALUE;
    v->ours = ours;
    v->image = *graph_shape(t->graph, ours);
    v->rank = (uint32_t)strlen(axes);
    v->positive = v->integers = false;
    memset(v->pads, 0, sizeof(v->pads));
    memset(v->axes, 0, sizeof(v->axes));
    for (uint32_t i = 0; i < v->rank; i++)
        if (axes[i] == 'N' || (axes[i] != '-' && onnx_axis_size(v, axes[i]) > 1))
            v->axes[i][0] = axes[i];
}

void onnx_follow(struct onnx_value *to, const struct onnx_value *from, size_t ours)
{
    to->kind = ONNX_VALUE;
    to->ours = ours;
    to->image = from->image;
    to->rank = from->rank;
    to->positive = false;
    to->integers = from->integers;
    to->levels = from->levels;
    memcpy(to->pads, from->pads, sizeof(to->pads));
    memcpy(to->axes, from->axes, sizeof(to->axes));
}

bool onnx_has_axes(const struct onnx_value *v, const char *axes)
{
    if (v->rank != strlen(axes))
        return false;
    for (uint32_t i = 0; i < v->rank; i++) {
        bool listed = axes[i] == 'N' || onnx_axis_size(v, axes[i]) > 1;
        if (v->axes[i][0] != (listed ? axes[i] : '\0') || (listed && v->axes[i][1]))
            return false;
    }
    return true;
}

uint32_t onnx_whole_dim(const struct onnx_value *v)
{
    uint32_t found = 0, axes = (v->image.h > 1) + (v->image.w > 1) + (v->image.c > 1);
    if (v->rank < 2 || strcmp(v->axes[0], "N") != 0)
        return 0;
    for (uint32_t i = 1; i < v->rank; i++)
        if (strlen(v->axes[i]) == axes)
            found = found && axes == 0 ? found : i; /* a single value: the first dimension will do */
    return found;
}

pst_status onnx_flatten(struct onnx_translation *t, const struct onnx_value *v, size_t *ret)
{
    *ret = v->ours;
    if (graph_shape(t->graph, v->ours)->rank == 1)
        return PST_OK;
    void *config = onnx_config(t, "flatten");
    return config ? onnx_add(t, "flatten", config, NULL, &v->ours, 1, ret) : onnx_fail_memory(t);
}

const uint32_t *onnx_positions(struct onnx_translation *t, const struct onnx_value *v, uint32_t dim)
{
    size_t count = onnx_dim_size(v, dim);
    uint32_t *ret = arena_alloc(&t->memory, count * sizeof(*ret));
    for (size_t i = 0; ret && i < count; i++) {
        size_t rest = i, at = 0;
        for (size_t k = strlen(v->axes[dim]); k-- > 0;) {
            char axis = v->axes[dim][k];
            uint32_t size = onnx_axis_size(v, axis);
            size_t stride = axis == 'C' ? 1 : axis == 'W' ? v->image.c : (size_t)v->image.w * v->image.c;
            at += rest % size * stride;
            rest /= size;
        }
        ret[i] = (uint32_t)at;
    }
    return ret;
}

pst_status onnx_dim_values(struct onnx_translation *t, const struct onnx_value *v, uint32_t dim, const struct onnx_tensor *c, size_t *ret_ours,
                           float **ret)
{
    size_t count = onnx_dim_size(v, dim); /* as many as the file has, so that memory for them is no surprise */
    bool channels = graph_shape(t->graph, v->ours)->c == v->image.c && (v->image.c > 1 ? strcmp(v->axes[dim], "C") == 0 : !v->axes[dim][0]);
    if (c->count != count)
        return onnx_fail(t, PST_ECORRUPT, "the constant \"%.40s\" has %zu values, its input %zu", c->name, c->count, count);
    if (!channels && onnx_whole_dim(v) != dim)
        return onnx_fail(t, PST_EUNSUPPORTED, "a constant per position; expected one per channel, or of a flattened input");
    *ret_ours = v->ours;
    pst_status st = channels ? PST_OK : onnx_flatten(t, v, ret_ours);
    if (st < 0)
        return st;
    const uint32_t *positions = channels ? NULL : onnx_positions(t, v, dim);
    *ret = arena_alloc(&t->memory, count * sizeof(float));
    if (!*ret || (!channels && !positions))
        return onnx_fail_memory(t);
    for (size_t i = 0; i < count; i++)
        (*ret)[channels ? i : positions[i]] = onnx_tensor_float(c, i);
    return PST_OK;
}

pst_status onnx_channel_values(struct onnx_translation *t, const struct onnx_value *v, const struct onnx_tensor *c, size_t *ret_ours, float **ret)
{
    uint32_t varying = v->rank;
    if (c->count != 1 && c->rank > v->rank)
        return onnx_fail(t, PST_EUNSUPPORTED, "the constant \"%.40s\" has more dimensions than the value", c->name);
    for (uint32_t i = 0; i < c->rank && c->count != 1; i++) {
        if (c->dims[i] == 1)
            continue;
        if (varying != v->rank)
            return onnx_fail(t, PST_EUNSUPPORTED, "the constant \"%.40s\" differs along several dimensions; expected one number per channel", c->name);
        varying = v->rank - c->rank + i;
    }
    if (varying < v->rank)
        return onnx_dim_values(t, v, varying, c, ret_ours, ret);
    size_t channels = graph_shape(t->graph, v->ours)->c;
    if (channels > MAX_REPEATED)
        return onnx_fail(t, PST_ELIMIT, "a single number for %zu channels", channels);
    *ret_ours = v->ours;
    *ret = arena_alloc(&t->memory, channels * sizeof(float));
    if (!*ret)
        return onnx_fail_memory(t);
    for (size_t i = 0; i < channels; i++)
        (*ret)[i] = onnx_tensor_float(c, 0);
    return c->count == 1 ? PST_OK : onnx_fail(t, PST_ECORRUPT, "the constant \"%.40s\" is empty", c->name);
}

/* ---- Constants that change their shape ---- */

/* A tensor like `from` with other dimensions; the caller sets them. */
static struct onnx_tensor *derive(struct onnx_translation *t, const struct onnx_tensor *from, struct onnx_value *out)
{
    struct onnx_tensor *ret = arena_alloc(&t->memory, sizeof(*ret));
    if (ret) {
        *ret = *from;
        ret->integers = ret->scales = NULL; /* their order would change, too */
        out->kind = ONNX_CONSTANT;
        out->constant = ret;
    }
    return ret;
}

static pst_status transpose_constant(struct onnx_translation *t, const struct onnx_tensor *from, const int64_t *perm, struct onnx_value *out)
{
    size_t width = onnx_type_width(from->type), strides[ONNX_FILE_RANK];
    pst_status st = onnx_spend(t, from->count * width);
    if (st < 0)
        return st;
    struct onnx_tensor *to = derive(t, from, out);
    uint8_t *data = arena_alloc(&t->memory, from->count * width + 1);
    if (!to || !data)
        return onnx_fail_memory(t);
    for (uint32_t i = 0; i < from->rank; i++) {
        to->dims[i] = from->dims[perm[i]];
        strides[i] = 1;
        for (uint32_t k = (uint32_t)perm[i] + 1; k < from->rank; k++)
            strides[i] *= from->dims[k];
    }
    for (size_t i = 0; i < from->count; i++) {
        size_t rest = i, at = 0;
        for (uint32_t k = from->rank; k-- > 0;) {
            at += rest % to->dims[k] * strides[k];
            rest /= to->dims[k];
        }
        memcpy(data + i * width, from->data + at * width, width);
    }
    to->data = data;
    return PST_OK;
}

/* Dimensions that Reshape asks for; −1 and 0 are resolved. */
static pst_status reshape_constant(struct onnx_translation *t, const struct onnx_tensor *from, const int64_t *dims, size_t rank, struct onnx_value *out)
{
    struct onnx_tensor *to = derive(t, from, out);
    size_t count = 1, open = rank;
    if (!to)
        return onnx_fail_memory(t);
    for (size_t i = 0; i < rank; i++) {
        int64_t size = dims[i] == 0 && i < from->rank ? (int64_t)from->dims[i] : dims[i];
        if (size == -1 && open == rank)
            open = i;
        else if (size < 0 || __builtin_mul_overflow(count, (size_t)size, &count))
            return onnx_fail(t, PST_ECORRUPT, "the shape of a constant makes no sense");
        to->dims[i] = (uint64_t)size;
    }
    if (open < rank)
        to->dims[open] = count ? from->count / count : 0;
    to->rank = (uint32_t)rank;
    return (open < rank ? count * to->dims[open] : count) == from->count ? PST_OK
                                                                         : onnx_fail(t, PST_ECORRUPT, "a constant of %zu values gets another shape", from->count);
}

/* ---- Order and shape of values ---- */

pst_status onnx_transpose(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    const struct onnx_value *v = onnx_input(t, n, 0);
    const struct onnx_file_attribute *a = onnx_attribute_find(n, "perm");
    uint32_t rank = v && v->kind == ONNX_CONSTANT ? v->constant->rank : v ? v->rank : 0;
    int64_t perm[ONNX_FILE_RANK];
    bool seen[ONNX_FILE_RANK] = {false};
    if (!v || (v->kind != ONNX_CONSTANT && v->kind != ONNX_VALUE) || (a && a->ints_count != rank))
        return onnx_fail(t, PST_ECORRUPT, "perm does not fit its input");
    for (uint32_t i = 0; i < rank; i++) {
        perm[i] = a ? a->ints[i] : (int64_t)(rank - 1 - i);
        if (perm[i] < 0 || perm[i] >= rank || seen[perm[i]])
            return onnx_fail(t, PST_ECORRUPT, "perm is not a permutation");
        seen[perm[i]] = true;
    }
    if (v->kind == ONNX_CONSTANT)
        return transpose_constant(t, v->constant, perm, out);
    onnx_follow(out, v, v->ours);
    out->positive = v->positive;
    for (uint32_t i = 0; i < rank; i++)
        memcpy(out->axes[i], v->axes[perm[i]], sizeof(out->axes[i]));
    return PST_OK;
}

/* Gives the axes of `v`, in their order, to dimensions of these sizes; the first is the batch. */
static pst_status regroup(struct onnx_translation *t, const struct onnx_value *v, const size_t *sizes, size_t rank, struct onnx_value *out)
{
    char all[ONNX_FILE_RANK + 1] = "";
    size_t at = 0;
    for (uint32_t i = 1; i < v->rank; i++)
        strcat(all, v->axes[i]);
    onnx_follow(out, v, v->ours);
    out->positive = v->positive;
    out->rank = (uint32_t)rank;
    memset(out->axes, 0, sizeof(out->axes));
    strcpy(out->axes[0], "N");
    for (size_t i = 1; i < rank; i++) {
        size_t size = 1, letters = 0;
        while (size < sizes[i] && all[at]) {
            size *= onnx_axis_size(v, all[at]);
            out->axes[i][letters++] = all[at++];
        }
        if (size != sizes[i])
            return onnx_fail(t, PST_EUNSUPPORTED, "a reshape that cuts axes apart; supported are those that flatten, and sizes of 1");
    }
    return all[at] ? onnx_fail(t, PST_ECORRUPT, "the new shape has fewer values") : PST_OK;
}

static pst_status check_batch_first(const struct onnx_translation *t, const struct onnx_value *v)
{
    if (v->pads[0] || v->pads[1] || v->pads[2] || v->pads[3])
        return onnx_fail(t, PST_EUNSUPPORTED, "its input comes from Pad, which is supported before Conv and MaxPool");
    return v->rank && strcmp(v->axes[0], "N") == 0 ? PST_OK : onnx_fail(t, PST_EUNSUPPORTED, "the batch is not the first dimension of its input");
}

static pst_status reshape_value(struct onnx_translation *t, const struct onnx_value *v, const int64_t *dims, size_t rank, struct onnx_value *out)
{
    size_t total = shape_values(&v->image), count = 1, open = 0, sizes[ONNX_FILE_RANK] = {0};
    pst_status st = check_batch_first(t, v);
    if (st < 0)
        return st;
    if (rank == 0 || rank > ONNX_FILE_RANK)
        return onnx_fail(t, PST_EUNSUPPORTED, "a shape of %zu dimensions", rank);
    for (size_t i = 1; i < rank; i++) {
        int64_t size = dims[i] == 0 && i < v->rank ? (int64_t)onnx_dim_size(v, (uint32_t)i) : dims[i];
        if (size == -1 && open == 0)
            open = i;
        else if (size <= 0 || (uint64_t)size > total || __builtin_mul_overflow(count, (size_t)size, &count))
            return onnx_fail(t, PST_EUNSUPPORTED, "dimension %zu of the new shape is %" PRId64 " of %zu values per sample", i, size, total);
        else
            sizes[i] = (size_t)size;
    }
    if (open)
        sizes[open] = total / count;
    bool batch = dims[0] == ONNX_BATCH || dims[0] == 0 || (dims[0] == -1 && !open) || (dims[0] == t->batch && t->batch > 0);
    if (!batch || (open ? count * sizes[open] : count) != total)
        return onnx_fail(t, PST_EUNSUPPORTED, "the new shape does not keep the batch as its first dimension, with %zu values per sample", total);
    return regroup(t, v, sizes, rank, out);
}

pst_status onnx_reshape(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    const struct onnx_value *v = onnx_input(t, n, 0);
    int64_t dims[ONNX_MAX_SHAPE];
    size_t rank = 0;
    bool found;
    pst_status st = onnx_numbers(t, n, "shape", 1, dims, &rank, &found);
    if (st < 0)
        return st;
    if (!found || !v || rank > ONNX_FILE_RANK || (v->kind != ONNX_VALUE && v->kind != ONNX_CONSTANT))
        return onnx_fail(t, PST_EUNSUPPORTED, "the new shape is not known before the model runs");
    return v->kind == ONNX_CONSTANT ? reshape_constant(t, v->constant, dims, rank, out) : reshape_value(t, v, dims, rank, out);
}

pst_status onnx_flatten_node(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    struct onnx_value *v;
    pst_status st = onnx_value_input(t, n, 0, false, &v);
    if (st < 0)
        return st;
    int64_t axis = onnx_int(n, "axis", 1);
    axis += axis < 0 ? v->rank : 0;
    if (axis < 1 || axis > v->rank)
        return onnx_fail(t, PST_EUNSUPPORTED, "axis %" PRId64 "; expected 1: one row per sample", axis);
    for (uint32_t i = 1; i < axis; i++)
        if (v->axes[i][0])
            return onnx_fail(t, PST_EUNSUPPORTED, "axis %" PRId64 "; expected 1: one row per sample", axis);
    return reshape_value(t, v, (const int64_t[]){ONNX_BATCH, -1}, 2, out);
}

/* Dimensions that an operator names, counted from the end where they are negative, as a set. */
static pst_status get_dims(const struct onnx_translation *t, const struct onnx_file_node *n, uint32_t rank, uint64_t *ret, bool *ret_found)
{
    int64_t dims[ONNX_MAX_SHAPE];
    size_t count = 0;
    pst_status st = onnx_numbers(t, n, "axes", 1, dims, &count, ret_found);
    *ret = 0;
    for (size_t i = 0; st == PST_OK && i < count; i++) {
        int64_t d = dims[i] < 0 ? dims[i] + rank : dims[i];
        if (d < 0 || d >= rank)
            return onnx_fail(t, PST_ECORRUPT, "axis %" PRId64 " of %u dimensions", dims[i], rank);
        *ret |= (uint64_t)1 << d;
    }
    return st;
}

pst_status onnx_squeeze(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    const struct onnx_value *v = onnx_input(t, n, 0);
    uint64_t dims;
    bool found;
    if (!v || v->kind == ONNX_UNKNOWN)
        return onnx_fail(t, PST_ECORRUPT, "it has no input");
    if (v->kind == ONNX_SHAPE) {
        *out = (struct onnx_value){.name = out->name, .maker = out->maker, .reader = out->reader, .uses = out->uses, .kind = ONNX_SHAPE,
                                   .shape_count = v->shape_count};
        memcpy(out->shape, v->shape, sizeof(out->shape));
        return PST_OK;
    }
    uint32_t rank = v->kind == ONNX_CONSTANT ? v->constant->rank : v->rank, kept = 0;
    pst_status st = get_dims(t, n, rank, &dims, &found);
    if (st < 0)
        return st;
    if (v->kind == ONNX_CONSTANT) {
        int64_t sizes[ONNX_FILE_RANK];
        for (uint32_t i = 0; i < rank; i++)
            if (found ? !(dims >> i & 1) : v->constant->dims[i] != 1)
                sizes[kept++] = (int64_t)v->constant->dims[i];
        return reshape_constant(t, v->constant, sizes, kept, out);
    }
    onnx_follow(out, v, v->ours);
    out->positive = v->positive;
    memset(out->axes, 0, sizeof(out->axes));
    for (uint32_t i = 0; i < rank; i++) {
        if (found && (dims >> i & 1) && v->axes[i][0])
            return onnx_fail(t, PST_EUNSUPPORTED, "dimension %u is not 1", i);
        if (found ? !(dims >> i & 1) : v->axes[i][0] != '\0')
            memcpy(out->axes[kept++], v->axes[i], sizeof(out->axes[i]));
    }
    out->rank = kept;
    return PST_OK;
}

pst_status onnx_unsqueeze(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    const struct onnx_value *v = onnx_input(t, n, 0);
    int64_t axes[ONNX_MAX_SHAPE];
    size_t count = 0;
    uint64_t dims = 0;
    bool found;
    if (!v || v->kind == ONNX_UNKNOWN)
        return onnx_fail(t, PST_ECORRUPT, "it has no input");
    if (v->kind == ONNX_SHAPE)
        return onnx_squeeze(t, n, out); /* a number becomes a list of one, which it is here already */
    uint32_t rank = v->kind == ONNX_CONSTANT ? v->constant->rank : v->rank, from = 0;
    pst_status st = onnx_numbers(t, n, "axes", 1, axes, &count, &found);
    if (st == PST_OK && rank + count > ONNX_FILE_RANK)
        st = onnx_fail(t, PST_ELIMIT, "more than 8 dimensions");
    if (st == PST_OK)
        st = get_dims(t, n, rank + (uint32_t)count, &dims, &found);
    if (st < 0)
        return st;
    if (v->kind == ONNX_CONSTANT) {
        int64_t sizes[ONNX_FILE_RANK];
        for (uint32_t i = 0; i < rank + count; i++)
            sizes[i] = dims >> i & 1 || from >= rank ? 1 : (int64_t)v->constant->dims[from++];
        return reshape_constant(t, v->constant, sizes, rank + count, out);
    }
    onnx_follow(out, v, v->ours);
    out->positive = v->positive;
    memset(out->axes, 0, sizeof(out->axes));
    out->rank = rank + (uint32_t)count;
    for (uint32_t i = 0; i < out->rank; i++)
        if (!(dims >> i & 1) && from < rank)
            memcpy(out->axes[i], v->axes[from++], sizeof(out->axes[i]));
    return PST_OK;
}

/* ---- The same under another name ---- */

pst_status onnx_identity(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    const struct onnx_value *v = onnx_input(t, n, 0);
    struct onnx_value kept = *out;
    if (!v || v->kind == ONNX_UNKNOWN)
        return onnx_fail(t, PST_ECORRUPT, "it has no input");
    *out = *v;
    out->name = kept.name;
    out->maker = kept.maker;
    out->reader = kept.reader;
    out->uses = kept.uses;
    return PST_OK;
}

pst_status onnx_cast(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    const struct onnx_value *v = onnx_input(t, n, 0);
    int64_t to = onnx_int(n, "to", ONNX_FLOAT32);
    bool floats = to == ONNX_FLOAT32 || to == ONNX_FLOAT16 || to == ONNX_FLOAT64 || to == ONNX_BFLOAT16, ints = to == ONNX_INT64 || to == ONNX_INT32;
    if (v && v->kind == ONNX_VALUE && !floats)
        return onnx_fail(t, PST_EUNSUPPORTED, "values of the model become whole numbers");
    if (v && v->kind != ONNX_VALUE && !floats && !ints)
        return onnx_fail(t, PST_EUNSUPPORTED, "a constant becomes type %" PRId64, to);
    return onnx_identity(t, n, out);
}

pst_status onnx_constant_node(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    const struct onnx_file_attribute *a = onnx_attribute_find(n, "value");
    if (a && a->t) {
        out->kind = ONNX_CONSTANT;
        out->constant = a->t;
        return PST_OK;
    }
    struct onnx_tensor *made = arena_alloc(&t->memory, sizeof(*made));
    if (!made)
        return onnx_fail_memory(t);
    *made = (struct onnx_tensor){.name = "", .type = ONNX_INT64, .count = 1};
    if ((a = onnx_attribute_find(n, "value_float"))) {
        made->type = ONNX_FLOAT32;
        made->data = (const uint8_t *)&a->f;
    } else if ((a = onnx_attribute_find(n, "value_int"))) {
        made->data = (const uint8_t *)&a->i;
    } else if ((a = onnx_attribute_find(n, "value_ints"))) {
        made->rank = 1;
        made->dims[0] = made->count = a->ints_count;
        made->data = (const uint8_t *)a->ints;
    } else {
        return onnx_fail(t, PST_EUNSUPPORTED, "a constant that is neither a tensor nor a number");
    }
    out->kind = ONNX_CONSTANT;
    out->constant = made;
    return PST_OK;
}
