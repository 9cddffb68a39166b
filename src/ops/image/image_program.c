/* image_program.c: a run of image operations as one. Which operations go together, and what they come down to: the decoder's
 * options, a frame for each image, and one conversion at the end. The pixels are image_pass.c's.
 *
 * The same bits as one by one: cuts and mirrors move pixels and commute with what is computed per pixel; a resize sees the
 * pixels that it would see; a normalised value is computed by the same operations; randomness is keyed by each part's own
 * place in the chain. */
#include "base/memory.h"
#include "ops/ctx.h"
#include "ops/fields.h"
#include "ops/image/image_op.h"
#include "ops/image/image_pass.h"
#include "ops/op_table.h"

#include <stdio.h>
#include <string.h>

/* ---- Which parts go together ---- */

/* What is known of the image behind the parts so far. */
struct state {
    const char *field;
    bool resized, padded, planar;
    bool plain; /* planes have become pixels: what resizes now is another program's */
    pst_dtype dtype;
};

static const struct image_op *geometric(const pst_op_class *op)
{
    static const struct image_op *const ops[] = {&op_crop,        &op_center_crop,         &op_flip,
                                                 &op_random_crop, &op_random_resized_crop, &op_resize};
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        if (op == &ops[i]->op)
            return ops[i];
    return NULL;
}

/* NULL: not an operation on images. */
static const char *field_of(const struct image_part *part)
{
    if (part->op == &op_cast)
        return ((const struct cast_config *)part->config)->field;
    bool known = geometric(part->op) || part->op == &op_decode.op || part->op == &op_normalize || part->op == &op_layout;
    return known ? ((const struct image_field *)part->config)->name : NULL;
}

static bool take_geometric(struct state *s, const struct image_op *op, const void *config)
{
    if (s->planar || (op->resizes && (s->resized || s->padded || s->plain || s->dtype != PST_DTYPE_U8)))
        return false;
    s->resized |= op->resizes;
    s->padded |= op->pads && op->pads(config);
    return true;
}

static bool take_normalize(struct state *s)
{
    if (s->planar || s->dtype != PST_DTYPE_U8)
        return false;
    s->dtype = PST_DTYPE_F32;
    return true;
}

/* Bytes are exact in every floating-point type; a second rounding would not be the same as one. */
static bool take_cast(struct state *s, const struct cast_config *c)
{
    pst_dtype to = cast_target(c->to);
    bool narrow = to == PST_DTYPE_F16 || to == PST_DTYPE_BF16;
    bool fits = to == s->dtype || (s->dtype == PST_DTYPE_U8 && (narrow || to == PST_DTYPE_F32)) ||
                (s->dtype == PST_DTYPE_F32 && narrow);
    if (fits)
        s->dtype = to;
    return fits;
}

static bool take_layout(struct state *s, const struct layout_config *c)
{
    if (s->planar && c->order == LAYOUT_NHWC)
        return false;
    s->planar = c->order == LAYOUT_NCHW;
    return true;
}

/* Whether `part` can join the ones before it; then `s` is what is known behind it. */
static bool take(struct state *s, const struct image_part *part)
{
    const char *field = field_of(part);
    const struct image_op *op = geometric(part->op);
    bool first = !s->field;
    if (!field || (!first && strcmp(field, s->field) != 0))
        return false;
    s->field = field;
    if (op)
        return take_geometric(s, op, part->config);
    if (part->op == &op_normalize)
        return take_normalize(s);
    if (part->op == &op_cast)
        return take_cast(s, part->config);
    if (part->op == &op_layout)
        return take_layout(s, part->config);
    return first; /* decode */
}

/* ---- The quality of a decode ---- */

/* Geometric operations behind a decode, up to the one that resizes and joins in; 0: none does. `*ret_random`: one of them cuts
 * at random. */
static size_t length_to_resize(const struct image_part *parts, size_t count, bool *ret_random)
{
    struct state s = {.dtype = PST_DTYPE_U8};
    *ret_random = false;
    for (size_t n = 0; n < count && (n == 0 || geometric(parts[n].op)) && take(&s, &parts[n]); n++) {
        const struct image_op *op = geometric(parts[n].op);
        if (op && op->needs_pixels && op->needs_pixels(parts[n].config))
            return 0;
        *ret_random |= parts[n].op == &op_random_crop.op || parts[n].op == &op_random_resized_crop.op;
        if (s.resized)
            return n + 1;
    }
    return 0;
}

/* Whether the first resize that follows works on pixels alone. */
static bool resizes_pixels(const struct image_part *parts, size_t count)
{
    for (size_t n = 1; n < count && geometric(parts[n].op); n++) {
        const struct image_op *op = geometric(parts[n].op);
        if (op->resizes)
            return op->needs_pixels && op->needs_pixels(parts[n].config);
    }
    return false;
}

void decode_choose(struct decode_config *c, const struct image_part *parts, size_t count)
{
    bool random;
    size_t resized = length_to_resize(parts, count, &random);
    c->fast = c->quality == QUALITY_FAST || (c->quality == QUALITY_AUTO && resized && random);
    c->reason = c->format == DECODE_RAW                  ? NULL
                : c->quality != QUALITY_AUTO             ? "as asked for"
                : c->fast                                ? "a random crop and a resize follow"
                : random && resizes_pixels(parts, count) ? "the method of the resize that follows is for pixels"
                                                         : "no random crop with a resize follows";
}

size_t image_program_unit(const struct image_part *parts, size_t count)
{
    bool random;
    if (count == 0 || parts[0].op != &op_decode.op)
        return 0;
    struct decode_config c = *(const struct decode_config *)parts[0].config;
    decode_choose(&c, parts, count);
    if (!c.reason || !c.fast)
        return 0;
    size_t resized = length_to_resize(parts, count, &random);
    return resized ? resized : 1;
}

/* ---- How many go together ---- */

size_t image_program_length(const struct image_part *parts, size_t count)
{
    struct state s = {.dtype = PST_DTYPE_U8};
    size_t n = 0, unit = image_program_unit(parts, count);
    while (n < count && take(&s, &parts[n])) {
        n++;
        s.plain = unit > 0 && n >= unit;
    }
    return n;
}

/* ---- The program ---- */

struct part {
    const pst_op_class *op;
    const struct image_op *geometric; /* or NULL */
    void *config;                     /* our copy */
    uint32_t ordinal;
};

struct program {
    size_t number;                            /* of the field; noted by the plan */
    const struct decode_config *decode;       /* NULL: the images are decoded already */
    const struct normalize_config *normalize; /* NULL: levels stay what they are */
    bool planar;
    bool fast, plainly;
    pst_dtype dtype;
    size_t count;
    struct part parts[];
};

void image_program_free(void *config)
{
    struct program *p = config;
    if (!p)
        return;
    for (size_t i = 0; i < p->count; i++)
        mem_free(p->parts[i].config);
    mem_free(p);
}

static bool add_part(struct program *p, const struct image_part *part)
{
    void *config = mem_alloc(part->op->config_size);
    if (!config)
        return false;
    memcpy(config, part->config, part->op->config_size);
    p->parts[p->count++] =
        (struct part){.op = part->op, .geometric = geometric(part->op), .config = config, .ordinal = part->ordinal};
    if (part->op == &op_decode.op)
        p->decode = config;
    if (part->op == &op_normalize)
        p->normalize = config;
    return true;
}

pst_status image_program_create(void **ret_config, const struct image_part *parts, size_t count, bool plainly,
                                pst_error *reterr)
{
    struct state s = {.dtype = PST_DTYPE_U8};
    struct program *p = mem_zalloc(sizeof(*p) + count * sizeof(p->parts[0]));
    for (size_t i = 0; p && i < count; i++) {
        if (!take(&s, &parts[i])) {
            image_program_free(p);
            return pst_fail(reterr, PST_EINVAL, "%s does not go together with the operations in front of it",
                            parts[i].op->name);
        }
        if (!add_part(p, &parts[i])) {
            image_program_free(p);
            p = NULL;
        }
    }
    if (!p)
        return pst_fail(reterr, PST_ENOMEM, "planning image operations: out of memory");
    p->planar = s.planar;
    p->dtype = s.dtype;
    p->fast = image_program_unit(parts, count) > 0;
    p->plainly = plainly;
    *ret_config = p;
    return PST_OK;
}

/* Plans one part; `*planar` is how the channels lie in front of it, and then behind it. */
static pst_status plan_part(const struct program *p, const struct part *part, const pst_spec *in, pst_spec *ret_out,
                            bool *planar, pst_error *reterr)
{
    pst_status st = part->op->plan(part->config, in, ret_out, reterr);
    if (st < 0 || part->op != &op_layout)
        return st;
    bool splits = ((const struct layout_config *)part->config)->order == LAYOUT_NCHW;
    bool moves = ret_out->field[p->number].alias < 0;
    if (moves != (splits && !*planar)) /* the operation takes the channels to be elsewhere, by the shape alone */
        return pst_fail(reterr, PST_ETYPE, "field %s: where its channels are is not certain", in->field[p->number].name);
    *planar = splits;
    return PST_OK;
}

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct program *p = config;
    pst_spec before = *in, after;
    bool planar = false;
    const struct image_part first = {.op = p->parts[0].op, .config = p->parts[0].config};
    pst_status st = field_find(in, field_of(&first), &p->number, reterr);
    for (size_t i = 0; i < p->count && st == PST_OK; i++) {
        st = plan_part(p, &p->parts[i], &before, &after, &planar, reterr);
        if (st == PST_OK)
            before = after;
    }
    if (st < 0)
        return st;
    const pst_field *f = &in->field[p->number];
    if (!p->decode && (f->dtype != PST_DTYPE_U8 || !image_field_holds(f)))
        return pst_fail(reterr, PST_ETYPE, "field %s does not hold images of bytes", f->name);
    pst_spec_pass(in, ret_out);
    ret_out->field[p->number] = before.field[p->number];
    ret_out->field[p->number].alias = -1;
    ret_out->reads = UINT64_C(1) << p->number;
    return PST_OK;
}

static pst_status start(const void *config, void *worker, pst_error *reterr)
{
    const struct program *p = config;
    return p->decode ? image_decoder_init(worker, p->decode, reterr) : PST_OK;
}

static void stop(const void *config, void *worker)
{
    (void)config;
    image_decoder_finish(worker);
}

/* ---- An image ---- */

/* A failure is the operation's that would have met it by itself. */
static pst_status blame(const char *op, pst_status st, pst_error *reterr)
{
    if (st < 0 && st != PST_ENOMEM && op && reterr)
        snprintf(reterr->op, sizeof(reterr->op), "%s", op);
    return st;
}

static pst_status frame_of(const struct program *p, pst_ctx *ctx, const struct region_info *info, struct frame *ret,
                           pst_error *reterr)
{
    frame_init(ret, info->width, info->height);
    for (size_t i = 0; i < p->count; i++) {
        const struct part *part = &p->parts[i];
        struct geometry g;
        if (!part->geometric)
            continue;
        ctx_enter(ctx, part->ordinal);
        pst_status st = image_op_geometry(part->geometric, part->config, ctx, box_width(&ret->window), box_height(&ret->window),
                                          &g, reterr);
        if (st < 0)
            return blame(part->geometric->op.name, st, reterr);
        frame_add(ret, &g);
    }
    return PST_OK;
}

static pst_status choose_conversion(const struct program *p, uint32_t channels, struct convert *ret, pst_error *reterr)
{
    float scale[4] = {1, 1, 1, 1}, bias[4] = {0};
    pst_status st = p->normalize ? normalize_factors(p->normalize, channels, scale, bias, reterr) : PST_OK;
    if (st == PST_OK)
        convert_init(ret, channels, p->planar, p->dtype == PST_DTYPE_U8 ? NULL : scale, bias);
    return blame(op_normalize.name, st, reterr);
}

/* An image that does not decode fails for that, whatever else is wrong with it: it would have been decoded first. */
static pst_status fail_later(const struct program *p, struct image_source *s, pst_status st, pst_error *reterr)
{
    const struct region all = {.width = s->info.width, .height = s->info.height};
    struct image_planes planes;
    pst_error inner;
    pst_image pixels;
    pst_status decoded = p->fast ? image_source_planes(s, &all, 8, true, &planes, &inner) : PST_EUNSUPPORTED;
    if (decoded == PST_EUNSUPPORTED)
        decoded = image_source_pixels(s, &all, &pixels, &inner);
    if (decoded == PST_OK)
        return st;
    if (reterr)
        *reterr = inner;
    return blame(op_decode.op.name, decoded, reterr);
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    const struct program *p = config;
    const char *decode = p->decode ? op_decode.op.name : NULL;
    pst_tensor *to = &out[p->number];
    struct image_source source;
    struct frame frame;
    struct image_pass pass = {
        .ctx = ctx, .frame = &frame, .dtype = p->dtype, .source = &source, .fast = p->fast, .whole = p->plainly};
    pst_status st = image_source_open(&source, p->decode, worker, ctx, &in[p->number], reterr);
    if (st < 0)
        return blame(decode, st, reterr);
    st = frame_of(p, ctx, &source.info, &frame, reterr);
    if (st == PST_OK)
        st = choose_conversion(p, source.info.channels, &pass.convert, reterr);
    if (st < 0)
        return fail_later(p, &source, st, reterr);
    uint64_t height = box_height(&frame.window), width = box_width(&frame.window), channels = source.info.channels;
    const uint64_t pixels[3] = {height, width, channels}, planes[3] = {channels, height, width};
    st = field_prepare(ctx, to, 3, p->planar ? planes : pixels, reterr);
    if (st < 0)
        return st;
    pass.out = to->data;
    return blame(decode, image_pass_run(&pass, reterr), reterr);
}

const pst_op_class op_image_program = {
    .abi = PST_OP_ABI,
    .name = "image",
    .doc = "A run of image operations as one pass.",
    .worker_size = sizeof(struct image_decoder),
    .plan = plan,
    .start = start,
    .run = run,
    .stop = stop,
};
