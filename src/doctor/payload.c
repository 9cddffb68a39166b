/* payload.c: the sampled images and records by themselves: how fast one core decodes these images, how much of that is entropy decoding, and what the
 * checksums of these records cost. In CPU time, so that other programs do not count. */
#include "doctor/doctor.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "base/memory.h"
#include "codec/jpeg/decoder.h"

#include <math.h>
#include <penstock/image.h>

#define PASSES       5
#define PASS_BYTES   ((uint64_t)4 << 20) /* of records, per pass */
#define MOST_POINTS  ((size_t)1 << 16)
#define LEAST_IMAGES 3 /* are decoded, however large */

/* ---- Decoding ---- */

struct decoding {
    struct jpeg_decoder *decoder;
    struct jpeg_point *point;
    double pixels, seconds; /* of the images that were decoded */
    double entropy, whole;  /* seconds of our decoder: the entropy-coded data alone, and all */
};

static double time_decode(const struct survey_image *i, double *ret_pixels)
{
    pst_image image = {0};
    double begin = limits_thread_seconds();
    *ret_pixels = pst_image_decode(&image, i->data, i->length, NULL, NULL) == PST_OK ? (double)image.width * image.height : 0;
    double took = limits_thread_seconds() - begin;
    pst_image_finish(&image);
    return took;
}

/* Both in seconds. False: our decoder does not read the image, or it is too large for points. */
static bool time_parts(struct decoding *m, const struct survey_image *i, double *ret_entropy, double *ret_whole)
{
    struct jpeg_frame frame;
    pst_image pixels;
    if (jpeg_decoder_open(m->decoder, i->data, i->length, &frame, NULL) < 0)
        return false;
    size_t count = jpeg_points_count(m->decoder);
    struct region all = {.width = frame.width, .height = frame.height};
    double begin = limits_thread_seconds();
    if (count == 0 || count > MOST_POINTS || jpeg_points_find(m->decoder, m->point, NULL) < 0)
        return false;
    double middle = limits_thread_seconds();
    if (jpeg_decode_pixels(m->decoder, &all, frame.components, NULL, &pixels, NULL) < 0)
        return false;
    *ret_entropy = middle - begin;
    *ret_whole = limits_thread_seconds() - middle;
    return true;
}

/* The shortest of a few passes, of large images of one: other programs only ever make it longer. */
static void measure_image(struct pst_doctor *d, struct decoding *m, const struct survey_image *i, double seconds)
{
    double whole = INFINITY, parts[2] = {INFINITY, INFINITY}, end = doctor_elapsed(d) + seconds, pixels = 0;
    for (int pass = 0; pass == 0 || (pass < PASSES && doctor_elapsed(d) < end); pass++) {
        double entropy, all;
        whole = fmin(whole, time_decode(i, &pixels));
        if (time_parts(m, i, &entropy, &all)) {
            parts[0] = fmin(parts[0], entropy);
            parts[1] = fmin(parts[1], all);
        }
    }
    if (pixels > 0) {
        m->pixels += pixels;
        m->seconds += whole;
    }
    if (isfinite(parts[1])) {
        m->entropy += parts[0];
        m->whole += parts[1];
    }
}

/* The entropy part does not shrink with the size that is used: all of an image's entropy-coded data must be read. */
static pst_status measure_decoding(struct pst_doctor *d, pst_error *reterr)
{
    struct decoding m = {.decoder = jpeg_decoder_create(), .point = mem_array(MOST_POINTS, sizeof(struct jpeg_point))};
    double seconds = doctor_span(d, 0.15, 0.5), end = doctor_elapsed(d) + seconds;
    pst_status st = m.decoder && m.point ? PST_OK : fail_memory(reterr, "measuring the decoder");
    for (size_t i = 0; st == PST_OK && i < d->survey.images && (i < LEAST_IMAGES || doctor_elapsed(d) < end); i++)
        measure_image(d, &m, &d->survey.image[i], seconds / (double)d->survey.images);
    d->limits.decode_mpixels = m.seconds > 0 ? m.pixels / m.seconds / 1e6 : 0;
    d->limits.entropy_share = m.whole > 0 ? fmin(m.entropy / m.whole, 1) : NAN;
    mem_free(m.point);
    jpeg_decoder_free(m.decoder);
    return st;
}

/* ---- Checksums ---- */

static volatile uint32_t kept_sum; /* or compilers leave the work out */

static void measure_checksums(struct pst_doctor *d)
{
    const struct survey *s = &d->survey;
    double pass[PASSES + 1]; /* the first one fills caches */
    for (int i = 0; i <= PASSES; i++) {
        uint64_t bytes = 0;
        size_t n = 0;
        double begin = limits_thread_seconds();
        for (; n < s->count && bytes < PASS_BYTES; n++) {
            kept_sum = crc32c_masked(s->item[n].data, (size_t)s->item[n].bytes);
            bytes += s->item[n].bytes;
        }
        pass[i] = 1e6 * (limits_thread_seconds() - begin) / (double)n;
    }
    trial_range(pass + 1, PASSES, &d->limits.checksum_us, &d->limits.checksum_low, &d->limits.checksum_high);
}

pst_status payload_measure(struct pst_doctor *d, pst_error *reterr)
{
    pst_status st = doctor_tick(d, "measuring images and checksums", reterr);
    d->limits.entropy_share = NAN;
    if (st == PST_OK && d->survey.kind == SURVEY_RECORDS && d->survey.count && !d->now.options.no_verify)
        measure_checksums(d);
    return st == PST_OK && d->survey.images ? measure_decoding(d, reterr) : st;
}
