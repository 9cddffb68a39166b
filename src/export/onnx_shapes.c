/* onnx_shapes.c: numbers that a file computes from shapes, such as the new shape of a Reshape or the zeros of a Pad: short lists, known before
 * the model runs but for the size of the batch. */
#include "base/error.h"
#include "export/onnx_translate.h"

#include <inttypes.h>
#include <string.h>

#define MAX_NUMBERS 64 /* of a constant that is cut or made */

pst_status onnx_shape_node(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    struct onnx_value *v;
    pst_status st = onnx_value_input(t, n, 0, false, &v);
    if (st < 0)
        return st;
    int64_t start = onnx_int(n, "start", 0), end = onnx_int(n, "end", v->rank);
    start += start < 0 ? v->rank : 0;
    end += end < 0 ? v->rank : 0;
    out->kind = ONNX_SHAPE;
    out->shape_count = 0;
    for (int64_t i = start < 0 ? 0 : start; i < end && i < v->rank; i++)
        out->shape[out->shape_count++] = v->axes[i][0] == 'N' ? ONNX_BATCH : (int64_t)onnx_dim_size(v, (uint32_t)i);
    return PST_OK;
}

/* Numbers of an input that is a shape or a constant. */
static pst_status shape_input(const struct onnx_translation *t, const struct onnx_file_node *n, size_t i, int64_t ret[ONNX_MAX_SHAPE], size_t *ret_count)
{
    bool found;
    pst_status st = onnx_numbers(t, n, "", i, ret, ret_count, &found);
    return st == PST_OK && !found ? onnx_fail(t, PST_EUNSUPPORTED, "supported for shapes of values only") : st;
}

pst_status onnx_gather(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    int64_t from[ONNX_MAX_SHAPE], at[ONNX_MAX_SHAPE];
    size_t count = 0, picks = 0;
    pst_status st = shape_input(t, n, 0, from, &count);
    if (st == PST_OK)
        st = shape_input(t, n, 1, at, &picks);
    for (size_t i = 0; st == PST_OK && i < picks; i++) {
        int64_t k = at[i] < 0 ? at[i] + (int64_t)count : at[i];
        if (k < 0 || k >= (int64_t)count)
            return onnx_fail(t, PST_ECORRUPT, "number %" PRId64 " of %zu", at[i], count);
        out->shape[i] = from[k];
    }
    out->kind = st == PST_OK ? ONNX_SHAPE : ONNX_UNKNOWN;
    out->shape_count = picks;
    return st;
}

/* ---- Constants ---- */

/* A new constant of whole numbers; NULL: out of memory. */
static int64_t *make_numbers(struct onnx_translation *t, struct onnx_value *out, const uint64_t *dims, uint32_t rank)
{
    struct onnx_tensor *c = arena_alloc(&t->memory, sizeof(*c));
    int64_t *numbers = arena_alloc(&t->memory, MAX_NUMBERS * sizeof(*numbers));
    if (!c || !numbers)
        return NULL;
    *c = (struct onnx_tensor){.name = "", .type = ONNX_INT64, .rank = rank, .count = 1, .data = (const uint8_t *)numbers};
    for (uint32_t i = 0; i < rank; i++) {
        c->dims[i] = dims[i];
        c->count *= dims[i];
    }
    out->kind = ONNX_CONSTANT;
    out->constant = c;
    return numbers;
}

pst_status onnx_constant_of_shape(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    const struct onnx_file_attribute *a = onnx_attribute_find(n, "value");
    int64_t sizes[ONNX_MAX_SHAPE];
    uint64_t dims[ONNX_FILE_RANK];
    size_t rank = 0, count = 1;
    bool found;
    pst_status st = onnx_numbers(t, n, "", 0, sizes, &rank, &found);
    if (st < 0)
        return st;
    for (size_t i = 0; i < rank && rank <= ONNX_FILE_RANK; i++) {
        if (sizes[i] < 0 || sizes[i] > MAX_NUMBERS || (count *= (size_t)sizes[i]) > MAX_NUMBERS)
            return onnx_fail(t, PST_EUNSUPPORTED, "more than %d numbers; supported are the lists of other operators", MAX_NUMBERS);
        dims[i] = (uint64_t)sizes[i];
    }
    if (!found || rank > ONNX_FILE_RANK || !a || !a->t || a->t->count != 1 || a->t->type != ONNX_INT64)
        return onnx_fail(t, PST_EUNSUPPORTED, "supported are short lists of whole numbers");
    int64_t *numbers = make_numbers(t, out, dims, (uint32_t)rank);
    for (size_t i = 0; numbers && i < count; i++)
        numbers[i] = onnx_tensor_int(a->t, 0);
    return numbers ? PST_OK : onnx_fail_memory(t);
}

/* A part of a constant along one dimension, forwards or backwards. */
struct cut {
    int64_t axis, start, end, step;
};

static pst_status slice_constant(struct onnx_translation *t, const struct onnx_tensor *c, const struct cut *cut, struct onnx_value *out)
{
    uint64_t dims[ONNX_FILE_RANK] = {0};
    int64_t axis = cut->axis + (cut->axis < 0 ? c->rank : 0), picks[MAX_NUMBERS];
    size_t kept = 0, inner = 1, outer = 1;
    if (c->count > MAX_NUMBERS || c->count == 0 || axis < 0 || axis >= c->rank || (cut->step != 1 && cut->step != -1))
        return onnx_fail(t, PST_EUNSUPPORTED, "supported are parts of short lists, in steps of 1");
    int64_t size = (int64_t)c->dims[axis], start = cut->start + (cut->start < 0 ? size : 0), end = cut->end + (cut->end < 0 ? size : 0);
    start = start < 0 ? 0 : start > size - (cut->step < 0) ? size - (cut->step < 0) : start;
    end = end < -1 ? -1 : end > size ? size : end;
    for (int64_t i = start; cut->step > 0 ? i < end : i > end; i += cut->step)
        picks[kept++] = i;
    for (uint32_t i = 0; i < c->rank; i++) {
        dims[i] = i == axis ? kept : c->dims[i];
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : c->dims[i];
    }
    int64_t *numbers = make_numbers(t, out, dims, c->rank);
    for (size_t o = 0; numbers && o < outer; o++)
        for (size_t k = 0; k < kept; k++)
            for (size_t i = 0; i < inner; i++)
                numbers[(o * kept + k) * inner + i] = onnx_tensor_int(c, (o * (size_t)size + (size_t)picks[k]) * inner + i);
    return numbers ? PST_OK : onnx_fail_memory(t);
}

/* One number of an attribute or an input; the fallback where there is none. */
static pst_status one_number(const struct onnx_translation *t, const struct onnx_file_node *n, const char *name, size_t i, int64_t fallback, int64_t *ret)
{
    int64_t list[ONNX_MAX_SHAPE];
    size_t count = 0;
    bool found;
    pst_status st = onnx_numbers(t, n, name, i, list, &count, &found);
    *ret = found && count ? list[0] : fallback;
    return st == PST_OK && found && count != 1 ? onnx_fail(t, PST_EUNSUPPORTED, "supported are parts along one dimension") : st;
}

pst_status onnx_slice(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    const struct onnx_value *v = onnx_input(t, n, 0);
    int64_t from[ONNX_MAX_SHAPE];
    struct cut cut = {0};
    size_t count = 0;
    pst_status st = one_number(t, n, "starts", 1, 0, &cut.start);
    if (st == PST_OK)
        st = one_number(t, n, "ends", 2, 0, &cut.end);
    if (st == PST_OK)
        st = one_number(t, n, "axes", 3, 0, &cut.axis);
    if (st == PST_OK)
        st = one_number(t, n, "", 4, 1, &cut.step);
    if (st == PST_OK && v && v->kind == ONNX_CONSTANT && v->constant->type == ONNX_INT64)
        return slice_constant(t, v->constant, &cut, out);
    if (st == PST_OK)
        st = shape_input(t, n, 0, from, &count);
    if (st == PST_OK && cut.step != 1)
        st = onnx_fail(t, PST_EUNSUPPORTED, "supported are parts of a shape in steps of 1");
    if (st < 0)
        return st;
    int64_t size = (int64_t)count, begin = cut.start + (cut.start < 0 ? size : 0), end = cut.end + (cut.end < 0 ? size : 0);
    out->kind = ONNX_SHAPE;
    out->shape_count = 0;
    for (int64_t i = begin < 0 ? 0 : begin; i < end && i < size; i++)
        out->shape[out->shape_count++] = from[i];
    return PST_OK;
}

pst_status onnx_concat_shapes(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    size_t count = 0;
    for (size_t i = 0; i < n->ins; i++) {
        int64_t part[ONNX_MAX_SHAPE];
        size_t more = 0;
        pst_status st = shape_input(t, n, i, part, &more);
        if (st < 0)
            return st;
        if (count + more > ONNX_MAX_SHAPE)
            return onnx_fail(t, PST_ELIMIT, "a shape of more than %d dimensions", ONNX_MAX_SHAPE);
        memcpy(out->shape + count, part, more * sizeof(*part));
        count += more;
    }
    out->kind = ONNX_SHAPE;
    out->shape_count = count;
    for (size_t i = 0; i < n->ins; i++)
        if (onnx_input(t, n, i)->kind != ONNX_CONSTANT)
            return PST_OK;
    int64_t *numbers = make_numbers(t, out, (const uint64_t[]){count}, 1); /* all of it is known: a constant, which may be cut and turned */
    if (numbers)
        memcpy(numbers, out->shape, count * sizeof(*numbers));
    return numbers ? PST_OK : onnx_fail_memory(t);
}
