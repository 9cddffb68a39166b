/* fuzz_jpeg_points.c: whatever points are given for whatever image, decoding a part stays inside both, and ends.
 *
 * The input is a length in 2 bytes, a JPEG of that length, and bytes that change the points that the image has: none of them
 * leaves true ones. */
#include "expect.h"

#include "base/cpu.h"
#include "codec/jpeg/state.h"

#include <string.h>

#define MOST_PIXELS (1 << 16)
#define MOST_POINTS (MOST_PIXELS / 64 / JPEG_POINT_STEP + 1)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct jpeg_decoder *d;
    if (!d)
        EXPECT((d = jpeg_decoder_create()) != NULL);
    size_t length = size > 2 ? (size_t)(data[0] | data[1] << 8) : 0;
    if (length > size - 2 || !length)
        return 0;
    uint8_t *jpeg = malloc(length); /* exactly, so that a sanitizer sees its end */
    EXPECT(jpeg != NULL);
    memcpy(jpeg, data + 2, length);
    const uint8_t *changes = data + 2 + length;
    size_t n = size - 2 - length;
    struct jpeg_frame frame;
    if (jpeg_decoder_open(d, jpeg, length, &frame, NULL) == PST_OK && (uint64_t)frame.width * frame.height <= MOST_PIXELS) {
        size_t count = jpeg_points_count(d), bytes = count * sizeof(struct jpeg_point);
        struct jpeg_point *point = calloc(count, sizeof(*point));
        struct jpeg_points points = {.step = JPEG_POINT_STEP, .count = (uint32_t)count, .point = point};
        EXPECT(point != NULL);
        const bool sound = jpeg_points_find(d, point, NULL) == PST_OK;
        bool true_ones = sound;
        for (size_t i = 0; i < n && i < bytes; i++) {
            ((uint8_t *)point)[i] ^= changes[i];
            true_ones &= changes[i] == 0;
        }
        if (n > bytes && changes[bytes]) { /* another number of them, each of another number of MCUs */
            points.step = changes[bytes];
            points.count = n > bytes + 1 ? changes[bytes + 1] % (uint32_t)(count + 1) : points.count;
            true_ones = false;
        }
        struct region r = {
            .x = frame.width / 3, .y = frame.height / 3, .width = 1 + frame.width / 3, .height = 1 + frame.height / 3};
        struct jpeg_plane planes[3];
        pst_image image;
        pst_status st = jpeg_decode_planes(d, &r, 1, 8, &points, planes, NULL);
        EXPECT(st == PST_OK || st == PST_ESTALE || (st == PST_EUNSUPPORTED && !sound));
        EXPECT(!true_ones || st == PST_OK);
        st = jpeg_decode_pixels(d, &r, 3, &points, &image, NULL);
        EXPECT(st == PST_OK || st == PST_ESTALE || (st == PST_EUNSUPPORTED && !sound));
        free(point);
    }
    free(jpeg);
    return 0;
}
