/* range.c: see range.h. */
#include "quant/range.h"

#include <math.h>
#include <string.h>

#define LEVELS     256
#define CANDIDATES 96 /* ranges tried per side */

/* ---- Counting ---- */

static void widen(struct quant_histogram *h)
{
    uint64_t *above = h->bins + RANGE_BINS, *below = h->bins + RANGE_BINS - 1;
    for (size_t i = 0; i < RANGE_BINS / 2; i++) {
        above[i] = above[2 * i] + above[2 * i + 1];
        *(below - i) = *(below - 2 * i) + *(below - 2 * i - 1);
    }
    memset(above + RANGE_BINS / 2, 0, RANGE_BINS / 2 * sizeof(*above));
    memset(h->bins, 0, RANGE_BINS / 2 * sizeof(*above));
    h->width *= 2;
}

void quant_histogram_add(struct quant_histogram *h, const float *x, size_t count)
{
    float low = h->low, high = h->high;
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(x[i])) {
            h->nonfinite = true;
            continue;
        }
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    h->low = low;
    h->high = high;
    double most = -low > high ? -low : high;
    if (h->width == 0 && most > 0)
        h->width = ldexp(1, (int)floor(log2(most)) - 10);
    while (h->width > 0 && most >= h->width * RANGE_BINS)
        widen(h);
    double inverse = h->width > 0 ? 1 / h->width : 0;
    for (size_t i = 0; i < count; i++) {
        if (x[i] == 0 || !isfinite(x[i]))
            continue;
        h->bins[(size_t)((ptrdiff_t)floor(x[i] * inverse) + RANGE_BINS)]++;
        h->count++;
    }
}

/* ---- Choosing ---- */

static double centre(const struct quant_histogram *h, size_t bin)
{
    return ((double)bin - RANGE_BINS + .5) * h->width;
}

static struct quant_range percentile(const struct quant_histogram *h, double share)
{
    struct quant_range r = {.low = 0, .high = 0};
    double cut = (1 - share) * (double)h->count, sum = 0;
    for (size_t i = 0; i < RANGE_BINS; i++) {
        sum += (double)h->bins[i];
        if (sum > cut) {
            r.low = (float)((double)((ptrdiff_t)i - RANGE_BINS) * h->width);
            break;
        }
    }
    sum = 0;
    for (size_t i = 2 * RANGE_BINS - 1; i >= RANGE_BINS; i--) {
        sum += (double)h->bins[i];
        if (sum > cut) {
            r.high = (float)((double)(i - RANGE_BINS + 1) * h->width);
            break;
        }
    }
    r.low = r.low < h->low ? h->low : r.low;
    r.high = r.high > h->high ? h->high : r.high;
    return r;
}

/* The squared error of all values in 256 levels of the range. */
static double squared_error(const struct quant_histogram *h, struct quant_range r)
{
    struct quant_value v = quant_value_of(r);
    double sum = 0;
    for (size_t i = 0; i < 2 * RANGE_BINS; i++)
        if (h->bins[i]) {
            double x = centre(h, i), error = x - (double)quant_real(&v, quant_round(&v, (float)x));
            sum += (double)h->bins[i] * error * error;
        }
    return sum;
}

/* How much of the distribution the levels lose: Σ p · log(p / q), where q spreads each level's values evenly over its bins. */
static double divergence(const struct quant_histogram *h, struct quant_range r)
{
    struct quant_value v = quant_value_of(r);
    double level[LEVELS] = {0}, bins[LEVELS] = {0}, clipped[LEVELS] = {0}, sum = 0, total = (double)h->count;
    for (size_t i = 0; i < 2 * RANGE_BINS; i++)
        if (h->bins[i]) {
            double x = centre(h, i);
            uint8_t q = quant_round(&v, (float)x);
            bool outside = x < (double)r.low || x > (double)r.high;
            (outside ? clipped : level)[q] += (double)h->bins[i];
            bins[q] += !outside;
        }
    for (size_t i = 0; i < 2 * RANGE_BINS; i++)
        if (h->bins[i]) {
            double x = centre(h, i), p = (double)h->bins[i];
            uint8_t q = quant_round(&v, (float)x);
            if (x < (double)r.low || x > (double)r.high)
                continue;
            /* Clipped values fall on the level at the edge: p has them there, q does not. */
            p += bins[q] > 0 ? clipped[q] / bins[q] : 0;
            sum += p / total * log(p / (level[q] / bins[q]));
        }
    for (size_t q = 0; q < LEVELS; q++)
        if (bins[q] == 0 && clipped[q] > 0)
            return INFINITY;
    return sum;
}

static struct quant_range search(const struct quant_histogram *h, double (*cost)(const struct quant_histogram *, struct quant_range))
{
    struct quant_range best = {h->low, h->high};
    double least = cost(h, best);
    for (int side = 0; side < 2; side++) {
        struct quant_range start = best;
        for (int i = CANDIDATES - 1; i > CANDIDATES / 16; i--) {
            struct quant_range r = start;
            *(side ? &r.low : &r.high) = (side ? h->low : h->high) * (float)i / CANDIDATES;
            double c = (side ? h->low : h->high) != 0 ? cost(h, r) : INFINITY;
            if (c < least) {
                least = c;
                best = r;
            }
        }
    }
    return best;
}

struct quant_range quant_histogram_range(const struct quant_histogram *h, enum quant_method method, double share)
{
    if (h->count == 0)
        return (struct quant_range){0, 0};
    if (method == QUANT_PERCENTILE)
        return percentile(h, share);
    if (method == QUANT_ENTROPY)
        return search(h, divergence);
    return method == QUANT_MSE ? search(h, squared_error) : (struct quant_range){h->low, h->high};
}
