/* f32_wino4_c.c: the Winograd kernels in plain C: the reference, and the level for processors without another one.
 *
 * One tile at a time; loops over 16 output channels are left to the compiler's vectoriser. */
#include "model/kernels/wino4_blocks.h"

#include <string.h>

static const float a = WINO4_A, b = WINO4_B, aa = WINO4_AA, bb = WINO4_BB;

/* ---- Transforms of one dimension; elements lie `step` floats apart. ---- */

static void input_1d(const float *d, size_t from, float *v, size_t to)
{
    float d0 = d[0], d1 = d[from], d2 = d[2 * from], d3 = d[3 * from], d4 = d[4 * from], d5 = d[5 * from];
    v[0] = d0 + d4 - WINO4_AA_BB * d2;
    v[to] = (d4 - bb * d2) + a * (d3 - bb * d1);
    v[2 * to] = (d4 - bb * d2) - a * (d3 - bb * d1);
    v[3 * to] = (d4 - aa * d2) + b * (d3 - aa * d1);
    v[4 * to] = (d4 - aa * d2) - b * (d3 - aa * d1);
    v[5 * to] = d1 + d5 - WINO4_AA_BB * d3;
}

static void weights_1d(const float *g, size_t from, float *u, size_t to)
{
    float g0 = g[0], g1 = g[from], g2 = g[2 * from];
    u[0] = g0;
    u[to] = WINO4_K * ((g0 + aa * g2) + a * g1);
    u[2 * to] = WINO4_K * ((g0 + aa * g2) - a * g1);
    u[3 * to] = -WINO4_K * ((g0 + bb * g2) + b * g1);
    u[4 * to] = -WINO4_K * ((g0 + bb * g2) - b * g1);
    u[5 * to] = g2;
}

static void output_1d(const float *m, size_t from, float *y, size_t to)
{
    float s1 = m[from] + m[2 * from], d1 = m[from] - m[2 * from], s2 = m[3 * from] + m[4 * from];
    float d2 = m[3 * from] - m[4 * from];
    y[0] = m[0] + bb * s1 + aa * s2;
    y[to] = b * d1 + a * d2;
    y[2 * to] = s1 + s2;
    y[3 * to] = m[5 * from] + a * d1 + b * d2;
}

static void gradient_1d(const float *y, size_t from, float *m, size_t to)
{
    float y0 = y[0], y1 = y[from], y2 = y[2 * from], y3 = y[3 * from];
    m[0] = y0;
    m[to] = (y0 + aa * y2) + a * (y1 + aa * y3);
    m[2 * to] = (y0 + aa * y2) - a * (y1 + aa * y3);
    m[3 * to] = (y0 + bb * y2) + b * (y1 + bb * y3);
    m[4 * to] = (y0 + bb * y2) - b * (y1 + bb * y3);
    m[5 * to] = y3;
}

static void finish_1d(const float *u, size_t from, float *g, size_t to)
{
    float s1 = WINO4_N1 * (u[from] + u[2 * from]), d1 = WINO4_N1 * (u[from] - u[2 * from]);
    float s2 = WINO4_N2 * (u[3 * from] + u[4 * from]), d2 = WINO4_N2 * (u[3 * from] - u[4 * from]);
    g[0] = u[0] + s1 + s2;
    g[to] = a * d1 + b * d2;
    g[2 * to] = aa * s1 + bb * s2 + u[5 * from];
}

/* ---- Weights ---- */

/* One 3 × 3 kernel (taps `from` floats apart) to 36 frequencies, 16 · ci apart. */
static void weights_one(const float *g, size_t from, float *u, size_t to)
{
    float t[6][3];
    for (size_t j = 0; j < 3; j++)
        weights_1d(g + j * from, 3 * from, &t[0][j], 3);
    for (size_t i = 0; i < 6; i++)
        weights_1d(t[i], 1, u + 6 * i * to, to);
}

static void weights(const float *hwio, size_t ci, size_t co, float *ret)
{
    memset(ret, 0, wino4_weights_bytes(ci, co));
    for (size_t i = 0; i < ci; i++)
        for (size_t o = 0; o < co; o++)
            weights_one(hwio + i * co + o, ci * co, ret + (o / 16 * WINO4_FREQS * ci + i) * 16 + o % 16, 16 * ci);
}

static void weights_back(const float *hwio, size_t ci, size_t co, float *ret)
{
    memset(ret, 0, wino4_weights_bytes(co, ci));
    for (size_t i = 0; i < ci; i++)
        for (size_t o = 0; o < co; o++) {
            float flipped[9];
            for (size_t t = 0; t < 9; t++)
                flipped[t] = hwio[(8 - t) * ci * co + i * co + o];
            weights_one(flipped, 1, ret + (i / 16 * WINO4_FREQS * co + o) * 16 + i % 16, 16 * co);
        }
}

static void weight_gradient_finish(const float *transformed, size_t ci, size_t co, size_t first, size_t count, float *ret_hwio)
{
    for (size_t i = 0; i < ci; i++)
        for (size_t o = first * WINO4_PANEL; o < co && o < (first + count) * WINO4_PANEL; o++) {
            const float *u = transformed + (o / 16 * WINO4_FREQS * ci + i) * 16 + o % 16;
            float t[3][6], g[9];
            for (size_t j = 0; j < 6; j++)
                finish_1d(u + j * 16 * ci, 6 * 16 * ci, &t[0][j], 6);
            for (size_t y = 0; y < 3; y++)
                finish_1d(t[y], 1, g + 3 * y, 1);
            for (size_t tap = 0; tap < 9; tap++)
                ret_hwio[tap * ci * co + i * co + o] = g[tap];
        }
}

/* ---- Forward pass and data gradient ---- */

/* The window of the output tile at (y, x) to v[36][ci]. */
static void input_tile(const struct conv_source *s, size_t image, size_t y, size_t x, size_t ci, float *v)
{
    for (size_t c = 0; c < ci; c++) {
        float d[6][6], t[6][6];
        for (size_t i = 0; i < 6; i++)
            for (size_t j = 0; j < 6; j++) {
                size_t row = y + i - s->top, column = x + j - s->left; /* those before 0 wrap to large numbers */
                bool inside = row < s->h && column < s->w;
                d[i][j] = inside ? s->data[wino4_offset(&s->strides, image, row, column) + c] : 0;
            }
        for (size_t j = 0; j < 6; j++)
            input_1d(&d[0][j], 6, &t[0][j], 6);
        for (size_t i = 0; i < 6; i++)
            input_1d(t[i], 1, v + 6 * i * ci + c, ci);
    }
}

struct place {
    size_t image, y, x; /* of the tile's first output */
    size_t h, w;        /* outputs of the tile that exist */
    size_t channel, count;
};

static float clamp(float v, float low, float high)
{
    return v < low ? low : v > high ? high : v;
}

static void epilogue_pool(const struct conv_job *c, const struct place *p, float (*y)[4][4])
{
    for (size_t k = 0; k < p->count; k++)
        for (size_t i = 0; i < p->h / 2; i++)
            for (size_t j = 0; j < p->w / 2; j++) {
                const float *top = &y[k][2 * i][2 * j];
                const float of[4] = {top[0], top[1], top[4], top[5]};
                size_t best = 0, channel = p->channel + k, row = p->y / 2 + i, column = p->x / 2 + j;
                for (size_t n = 1; n < 4; n++)
                    best = of[n] > of[best] ? n : best;
                float v = of[best] + (c->bias ? c->bias[channel] : 0);
                ((float *)c->out)[wino4_offset(&c->out_strides, p->image, row, column) + channel] = clamp(v, c->low, c->high);
                if (c->argmax)
                    c->argmax[wino4_offset(&c->argmax_strides, p->image, row, column) + channel] =
                        v > c->low && v < c->high ? (uint8_t)best : 255;
            }
}

static float extra_at(const void *data, const struct conv_strides *s, const struct place *p, size_t i, size_t j, size_t channel)
{
    return ((const float *)data)[wino4_offset(s, p->image, p->y + i, p->x + j) + channel];
}

static void epilogue(const struct conv_job *c, const struct place *p, float (*y)[4][4])
{
    for (size_t k = 0; k < p->count; k++)
        for (size_t i = 0; i < p->h; i++)
            for (size_t j = 0; j < p->w; j++) {
                size_t channel = p->channel + k;
                float v = y[k][i][j], shift = c->shift ? c->shift[channel] : 0, first = v - shift, second = first * first;
                if (c->epilogue == CONV_CLAMP)
                    v = clamp(v + (c->bias ? c->bias[channel] : 0) + (c->add.data ? extra_at(c->add.data, &c->add.strides, p, i, j, channel) : 0), c->low,
                              c->high);
                if (c->epilogue == CONV_GRADIENT) {
                    if (c->add.data)
                        v += extra_at(c->add.data, &c->add.strides, p, i, j, channel);
                    if (c->mask.data) {
                        float m = extra_at(c->mask.data, &c->mask.strides, p, i, j, channel);
                        v = m > c->low && m < c->high ? v : 0;
                    }
                    first = v;
                    second = c->sum ? v * (extra_at(c->z.data, &c->z.strides, p, i, j, channel) - shift) : 0;
                }
                if (c->sum && c->epilogue != CONV_CLAMP) {
                    c->sum[channel] += (double)first;
                    c->sum2[channel] += (double)second;
                }
                ((float *)c->out)[wino4_offset(&c->out_strides, p->image, p->y + i, p->x + j) + channel] = v;
            }
}

/* v[36][ci] to the outputs of up to 16 channels of one tile. */
static void output_tile(const struct conv_job *c, const struct place *p, const float *v)
{
    const float *u = c->weights + p->channel / 16 * WINO4_FREQS * c->shape.ci * 16;
    float m[WINO4_FREQS][16], y[16][4][4];
    for (size_t f = 0; f < WINO4_FREQS; f++) {
        memset(m[f], 0, sizeof(m[f]));
        for (size_t k = 0; k < c->shape.ci; k++, u += 16)
            for (size_t o = 0; o < 16; o++)
                m[f][o] += v[f * c->shape.ci + k] * u[o];
    }
    for (size_t o = 0; o < p->count; o++) {
        float t[4][6];
        for (size_t j = 0; j < 6; j++)
            output_1d(&m[j][o], 6 * 16, &t[0][j], 6);
        for (size_t i = 0; i < 4; i++)
            output_1d(t[i], 1, y[o][i], 1);
    }
    if (c->epilogue == CONV_POOL)
        epilogue_pool(c, p, y);
    else
        epilogue(c, p, y);
}

static size_t at_most(size_t n, size_t most)
{
    return n < most ? n : most;
}

static void conv(const struct conv_job *c, void *scratch)
{
    float *v = scratch;
    struct place p;
    for (p.image = 0; p.image < c->images; p.image++)
        for (p.y = 0; p.y < c->h; p.y += 4)
            for (p.x = 0; p.x < c->w; p.x += 4) {
                p.h = at_most(c->h - p.y, 4);
                p.w = at_most(c->w - p.x, 4);
                input_tile(&c->in, p.image, p.y, p.x, c->shape.ci, v);
                for (p.channel = 0; p.channel < c->shape.co; p.channel += 16) {
                    p.count = at_most(c->shape.co - p.channel, 16);
                    output_tile(c, &p, v);
                }
            }
}

/* ---- Weight gradient ---- */

/* A tile of the gradient to d[co/16][36][16]; zeros where there are no pixels or channels. */
static void gradient_tile(const struct wino4_weight_gradient *g, size_t image, size_t y, size_t x, float *d)
{
    for (size_t c = 0; c < wino4_round(g->co, 16); c++) {
        float of[4][4], t[6][4];
        for (size_t i = 0; i < 4; i++)
            for (size_t j = 0; j < 4; j++) {
                bool inside = y + i < g->h && x + j < g->w && c < g->co;
                of[i][j] = inside ? g->gradient.data[wino4_offset(&g->gradient.strides, image, y + i, x + j) + c] : 0;
            }
        for (size_t j = 0; j < 4; j++)
            gradient_1d(&of[0][j], 4, &t[0][j], 4);
        for (size_t i = 0; i < 6; i++)
            gradient_1d(t[i], 1, d + (c / 16 * WINO4_FREQS + 6 * i) * 16 + c % 16, 16);
    }
}

static void weight_gradient(const struct wino4_weight_gradient *g, void *scratch)
{
    const size_t panels = (g->co + 15) / 16;
    float *v = scratch, *d = v + WINO4_FREQS * g->ci;
    if (!g->accumulate)
        memset(g->transformed, 0, wino4_weights_bytes(g->ci, g->co));
    for (size_t image = 0; image < g->images; image++)
        for (size_t y = 0; y < g->h; y += 4)
            for (size_t x = 0; x < g->w; x += 4) {
                input_tile(&g->in, image, y, x, g->ci, v);
                gradient_tile(g, image, y, x, d);
                float *u = g->transformed;
                for (size_t pf = 0; pf < panels * WINO4_FREQS; pf++)
                    for (size_t i = 0; i < g->ci; i++, u += 16)
                        for (size_t o = 0; o < 16; o++)
                            u[o] += v[pf % WINO4_FREQS * g->ci + i] * d[pf * 16 + o];
            }
}

void wino4_kernels_init_c(struct wino4_kernels *k)
{
    *k = (struct wino4_kernels){.weights = weights,
                                .weights_back = weights_back,
                                .conv = conv,
                                .weight_gradient = weight_gradient,
                                .weight_gradient_finish = weight_gradient_finish};
}
