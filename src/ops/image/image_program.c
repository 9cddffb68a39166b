/* image_program.c: a run of image operations as one. Which operations go together, and what they come down to: the decoder's
 * options, a frame for each image, and one conversion at the end. The pixels are image_pass.c's.
 *
 * The same bits as one by one: cuts and mirrors move pixels and commute with what is computed per pixel; a resize sees the
 * pixels that it would see; a normalised value is computed by the same operations; randomness is keyed by each part's own
 * place in the chain. */
#include "base/error.h"
#include "base/memory.h"
#include "ops/ctx.h"
#include "ops/fields.h"
#include "ops/image/image_op.h"
#include "ops/image/image_pass.h"
#include "ops/spec_memory.h"

#include <stdio.h>
#include <string.h>

/* ---- Which parts go together ---- */

/* The known properties of the image after the parts so far. */
struct state {
    const char *field;
    bool resized, padded, planar;
    bool worked; /* levels are others than the decoder's: a zero of the padding would no longer be one */
    bool plain;  /* planes have become pixels: what resizes now is another program's */
    pst_dtype dtype;
};

/* NULL: not an operation on images. */
static const struct image_facet *facet_of(const struct image_part *part)
{
    return op_image(part->op);
}

static const char *field_of(const void *config)
{
    return ((const struct image_field *)config)->name;
}

static bool is_geometric(const struct image_part *part)
{
    return facet_of(part) && facet_of(part)->geometry;
}

static bool take_geometric(struct state *s, const struct image_facet *f, const void *config)
{
    bool pads = f->pads && f->pads(config), late = s->worked || s->dtype != PST_DTYPE_U8;
    if (s->planar || (pads && s->worked) || (f->resizes && (s->resized || s->padded || s->plain || late)))
        return false;
    s->resized |= f->resizes;
    s->padded |= pads;
    return true;
}

static bool take_bytes(struct state *s, pst_dtype to)
{
    if (s->planar || s->dtype != PST_DTYPE_U8)
        return false;
    s->worked = true;
    s->dtype = to;
    return true;
}

/* Bytes are exact in every floating-point type; a second rounding would not be the same as one. */
static bool take_cast(struct state *s, pst_dtype to)
{
    bool narrow = to == PST_DTYPE_F16 || to == PST_DTYPE_BF16;
    bool fits = to == s->dtype || (s->dtype == PST_DTYPE_U8 && (narrow || to == PST_DTYPE_F32)) ||
                (s->dtype == PST_DTYPE_F32 && narrow);
    if (fits)
        s->dtype = to;
    return fits;
}

static bool take_layout(struct state *s, bool splits)
{
    if (s->planar && !splits)
        return false;
    s->planar = splits;
    return true;
}

/* Returns whether `part` can join the ones before it; then `s` describes the image after it. */
static bool take(struct state *s, const struct image_part *part)
{
    const struct image_facet *f = facet_of(part);
    bool first = !s->field;
    if (!f || (!first && strcmp(field_of(part->config), s->field) != 0))
        return false;
    s->field = field_of(part->config);
    if (f->geometry)
        return take_geometric(s, f, part->config);
    if (image_facet_works(f))
        return take_bytes(s, PST_DTYPE_U8);
    if (f->factors)
        return take_bytes(s, PST_DTYPE_F32);
    if (f->casts)
        return take_cast(s, f->casts(part->config));
    if (f->splits)
        return take_layout(s, f->splits(part->config));
    return first && f->decodes;
}

/* ---- The quality of a decode ---- */

/* Returns the number of geometric operations after a decode, up to the one that resizes and can be fused; 0: none.
 * `*ret_random`: one of them crops at random. */
static size_t length_to_resize(const struct image_part *parts, size_t count, bool *ret_random)
{
    struct state s = {.dtype = PST_DTYPE_U8};
    *ret_random = false;
    for (size_t n = 0; n < count && (n == 0 || is_geometric(&parts[n])) && take(&s, &parts[n]); n++) {
        const struct image_facet *f = facet_of(&parts[n]);
        if (f->needs_pixels && f->needs_pixels(parts[n].config))
            return 0;
        *ret_random |= f->cuts_at_random;
        if (s.resized)
            return n + 1;
    }
    return 0;
}

/* Whether the first resize that follows works on pixels alone. */
static bool resizes_pixels(const struct image_part *parts, size_t count)
{
    for (size_t n = 1; n < count && is_geometric(&parts[n]); n++) {
        const struct image_facet *f = facet_of(&parts[n]);
        if (f->resizes)
            return f->needs_pixels && f->needs_pixels(parts[n].config);
    }
    return false;
}

static void choose_quality(struct decode_config *c, const struct image_part *parts, size_t count)
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

static bool begins_with_decode(const struct image_part *parts, size_t count)
{
    return count > 0 && facet_of(&parts[0]) && facet_of(&parts[0])->decodes;
}

void image_program_choose(void *config, const struct image_part *parts, size_t count)
{
    if (begins_with_decode(parts, count))
        choose_quality(config, parts, count);
}

size_t image_program_unit(const struct image_part *parts, size_t count)
{
    bool random;
    if (!begins_with_decode(parts, count))
        return 0;
    struct decode_config c = *(const struct decode_config *)parts[0].config;
    choose_quality(&c, parts, count);
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
    const struct op_decl *op;
    const struct image_facet *facet; /* its own */
    void *config;                    /* our copy */
    uint32_t ordinal;
};

struct program {
    size_t number;                      /* of the field; noted by the plan */
    const struct decode_config *decode; /* the first part's; NULL: the images are decoded already */
    size_t works;                       /* parts that work on bytes */
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
    const struct image_facet *f = facet_of(part);
    void *config = mem_alloc(part->op->op.config_size);
    if (!config)
        return false;
    memcpy(config, part->config, part->op->op.config_size);
    p->parts[p->count++] = (struct part){.op = part->op, .facet = f, .config = config, .ordinal = part->ordinal};
    if (f->decodes)
        p->decode = config;
    p->works += image_facet_works(f);
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
            return pst_fail(reterr, PST_EINVAL, "%s cannot join the operations before it",
                            parts[i].op ? parts[i].op->op.name : "an operation");
        }
        if (!add_part(p, &parts[i])) {
            image_program_free(p);
            p = NULL;
        }
    }
    if (!p)
        return fail_memory(reterr, "planning image operations");
    p->planar = s.planar;
    p->dtype = s.dtype;
    p->fast = image_program_unit(parts, count) > 0;
    p->plainly = plainly;
    *ret_config = p;
    return PST_OK;
}

/* Plans one part; `*planar` is the channel layout before it, and on return after it. */
static pst_status plan_part(const struct program *p, const struct part *part, const pst_spec *in, pst_spec *ret_out,
                            bool *planar, pst_error *reterr)
{
    pst_status st = part->op->op.plan(part->config, in, ret_out, reterr);
    if (st < 0 || !part->facet->splits)
        return st;
    bool splits = part->facet->splits(part->config);
    bool moves = ret_out->field[p->number].alias < 0;
    if (moves != (splits && !*planar)) /* the operation takes the channels to be elsewhere, by the shape alone */
        return pst_fail(reterr, PST_ETYPE, "field %s: the position of its channels is unknown", in->field[p->number].name);
    *planar = splits;
    return PST_OK;
}

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct program *p = config;
    pst_spec before = *in, after;
    struct arena memory;
    bool planar = false;
    arena_init(&memory);
    pst_status st = field_find(in, field_of(p->parts[0].config), &p->number, reterr);
    for (size_t i = 0; i < p->count && st == PST_OK; i++) {
        st = spec_init(&after, &memory, in->count, reterr);
        if (st == PST_OK)
            st = plan_part(p, &p->parts[i], &before, &after, &planar, reterr);
        if (st == PST_OK)
            before = after;
    }
    const pst_field *f = &in->field[p->number];
    if (st == PST_OK && !p->decode && (f->dtype != PST_DTYPE_U8 || !image_field_holds(f)))
        st = pst_fail(reterr, PST_ETYPE, "field %s does not hold images of bytes", f->name);
    if (st == PST_OK) {
        pst_spec_pass(in, ret_out);
        pst_spec_read(ret_out, p->number);
        *pst_spec_write(ret_out, p->number) = before.field[p->number];
        pst_spec_write(ret_out, p->number);
    }
    arena_finish(&memory);
    return st;
}

static pst_status start(const void *config, void *worker, pst_error *reterr)
{
    const struct program *p = config;
    return p->decode ? image_decoder_init(worker, p->decode, reterr) : PST_OK;
}

static void stop(const void *config, void *worker)
{
    (void)config;
    region_decoder_finish(worker);
}

/* ---- An image ---- */

/* A failure is attributed to the operation that would have failed if run alone. */
static pst_status blame(const struct part *part, pst_ctx *ctx, pst_status st, pst_error *reterr)
{
    if (st >= 0)
        return st;
    ctx->cause = op_cause(part->op);
    if (st != PST_ENOMEM && reterr)
        snprintf(reterr->op, sizeof(reterr->op), "%s", part->op->op.name);
    return st;
}

/* The combined effect of the parts on one image. */
struct recipe {
    struct frame frame;
    float scale[4], bias[4];
    struct image_work *works;
    size_t work_count;
};

static pst_status ask(const struct part *part, pst_ctx *ctx, uint32_t channels, struct recipe *r, pst_error *reterr)
{
    const struct image_facet *f = part->facet;
    if (f->factors)
        return f->factors(part->config, channels, r->scale, r->bias, reterr);
    if (!f->geometry && !image_facet_works(f))
        return PST_OK;
    ctx_enter(ctx, part->ordinal);
    if (!f->geometry)
        return image_work_begin(&r->works[r->work_count++], f, part->config, ctx, channels, reterr);
    struct geometry g;
    const struct frame_box *window = &r->frame.window;
    pst_status st = image_op_geometry(part->op, part->config, ctx, box_width(window), box_height(window), &g, reterr);
    if (st == PST_OK)
        frame_add(&r->frame, &g);
    return st;
}

/* Asks the parts in their order, so that the one fails that would have failed first. */
static pst_status recipe_init(struct recipe *r, const struct program *p, pst_ctx *ctx, const struct region_info *info,
                              pst_error *reterr)
{
    *r = (struct recipe){.scale = {1, 1, 1, 1}};
    frame_init(&r->frame, info->width, info->height);
    if (p->works && !(r->works = pst_scratch(ctx, p->works * sizeof(*r->works))))
        return fail_memory(reterr, "allocating %zu image operations", p->works);
    for (size_t i = 0; i < p->count; i++) {
        pst_status st = ask(&p->parts[i], ctx, info->channels, r, reterr);
        if (st < 0)
            return blame(&p->parts[i], ctx, st, reterr);
    }
    return PST_OK;
}

/* An image that does not decode fails for that, whatever else is wrong with it: it would have been decoded first. */
static pst_status fail_later(const struct program *p, pst_ctx *ctx, struct image_source *s, pst_status st, pst_error *reterr)
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
    return blame(&p->parts[0], ctx, decoded, reterr);
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    const struct program *p = config;
    const struct part *first = &p->parts[0], *last = &p->parts[p->count - 1];
    pst_tensor *to = &out[p->number];
    struct image_source source;
    struct recipe recipe;
    pst_status st = image_source_open(&source, p->decode, worker, ctx, &in[p->number], reterr);
    if (st < 0)
        return blame(first, ctx, st, reterr);
    st = recipe_init(&recipe, p, ctx, &source.info, reterr);
    if (st < 0)
        return fail_later(p, ctx, &source, st, reterr);
    const struct frame_box *window = &recipe.frame.window;
    uint64_t height = box_height(window), width = box_width(window), channels = source.info.channels;
    const uint64_t pixels[3] = {height, width, channels}, planes[3] = {channels, height, width};
    st = field_prepare(ctx, to, 3, p->planar ? planes : pixels, reterr);
    if (st < 0)
        return blame(last, ctx, st, reterr);
    struct image_pass pass = {.ctx = ctx,
                              .frame = &recipe.frame,
                              .works = recipe.works,
                              .work_count = recipe.work_count,
                              .dtype = p->dtype,
                              .out = to->data,
                              .source = &source,
                              .fast = p->fast,
                              .whole = p->plainly};
    convert_init(&pass.convert, source.info.channels, p->planar, p->dtype == PST_DTYPE_U8 ? NULL : recipe.scale, recipe.bias);
    return blame(first, ctx, image_pass_run(&pass, reterr), reterr);
}

const pst_op_class op_image_program = {
    .size = sizeof(pst_op_class),
    .name = "image",
    .doc = "A run of image operations as one pass.",
    .worker_size = sizeof(struct region_decoder),
    .plan = plan,
    .start = start,
    .run = run,
    .stop = stop,
};
