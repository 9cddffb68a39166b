/* fuzz_entropy.c: a JPEG section that opens speaks of places inside itself alone, whatever it says; what it says of an image
 * that is there is believed as far as the checksums go, and the decoder survives the rest. Each input is tried as it is, with
 * its checksums made right, and with entries that claim to be of the image at hand. */
#include "expect.h"

#include "../unit/entropy_fixture.h"
#include "base/hash.h"
#include "base/le.h"
#include "source/jpeg_points.h"

#include <string.h>

#define HEADER  64u
#define ENTRY   sizeof(struct entropy_entry)
#define RECORDS 6u

static struct {
    struct entropy_section section;
    _Atomic uint32_t *states;
} home;

static bool find_home(const void *source, uint64_t index, struct entropy_home *ret)
{
    (void)source;
    *ret = (struct entropy_home){.section = &home.section, .record = index, .states = home.states};
    return true;
}

static const struct source_class class = {.entropy = find_home};

static void check_section(const struct entropy_section *s, size_t size)
{
    EXPECT(s->count <= size / ENTRY && s->point_count <= size / sizeof(struct jpeg_point));
    for (uint64_t record = 0; record < RECORDS; record++) {
        size_t count = 0;
        const struct entropy_entry *e = entropy_section_find(s, record, &count);
        EXPECT((e != NULL) == (count > 0));
        EXPECT(!e || (e >= s->entries && count <= s->count - (uint64_t)(e - s->entries)));
        for (size_t i = 0; i < count; i++) {
            struct jpeg_points points;
            uint32_t sum = 0;
            EXPECT(e[i].record == record);
            if (!entropy_section_view(s, &e[i], &points))
                continue;
            for (uint32_t k = 0; k < points.count; k++)
                sum |= jpeg_point_bit(&points.point[k]); /* readable */
            EXPECT(points.count == e[i].count && (points.count > 0 || sum == 0));
        }
    }
}

static void decode(pst_bytes photo)
{
    static struct jpeg_decoder *d;
    struct entropy *entropy = NULL;
    struct jpeg_frame frame;
    EXPECT(d || (d = jpeg_decoder_create()) != NULL);
    EXPECT((home.states = calloc(home.section.count + 1, sizeof(*home.states))) != NULL);
    EXPECT(entropy_create(&entropy, &class, NULL, RECORDS, 300, NULL) == PST_OK);
    EXPECT(jpeg_decoder_open(d, photo.data, photo.length, &frame, NULL) == PST_OK);
    for (uint64_t record = 0; record < RECORDS; record++) {
        struct entropy_use use;
        pst_image image;
        const struct region part = {.x = 9, .y = 31, .width = 20, .height = 24};
        if (!entropy_begin(entropy, record, d, photo.data, photo.length, &use))
            continue;
        const bool stored = !use.collected;
        EXPECT(use.points.count == jpeg_points_count(d) && use.points.sound == stored && !use.points.room == stored);
        pst_status st = jpeg_decode_pixels(d, &part, 3, &use.points, &image, NULL);
        EXPECT(stored || (st == PST_OK && use.points.known > 0));
        entropy_done(entropy, &use);
        EXPECT(st == PST_OK || st == PST_ESTALE);
        entropy_refuse(entropy, record, photo.data, photo.length);
    }
    entropy_destroy(entropy);
    free((void *)home.states);
}

static void check(const uint8_t *data, size_t size, pst_bytes photo)
{
    if (!entropy_section_open(&home.section, data, size))
        return;
    check_section(&home.section, size);
    decode(photo);
}

/* Checksums that are right; with `photo`, entries that are its. */
static void seal(uint8_t *data, size_t size, const pst_bytes *photo)
{
    put_le32(data, JPEG_POINT_STEP);
    put_le32(data + 4, ENTRY);
    uint64_t count = le64(data + 8), room = (size - HEADER) / ENTRY,
             points = size - HEADER - (count < room ? count : room) * ENTRY;
    const uint8_t *first = data + size - points;
    for (uint64_t i = 0; i < count && i < room; i++) {
        uint8_t *e = data + HEADER + i * ENTRY;
        if (photo) {
            put_le32(e + 12, (uint32_t)photo->length);
            put_le64(e + 16, hash_bytes(photo->data, photo->length, 0));
        }
        uint64_t at = le64(e + 24), n = le32(e + 32);
        if (at <= points / 10 && n <= points / 10 - at)
            put_le64(e + 40, hash_bytes(first + at * 10, n * 10, hash_bytes(e, 40, 0)));
    }
    put_le64(data + 56, hash_bytes(data, 56, 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static pst_bytes image;
    if (!image.data)
        image = photo_of(jpeg_kind_named("4:4:4"), 64, 64, 3);
    for (int way = 0; way < 3 && (way == 0 || size >= HEADER); way++) {
        uint8_t *copy = malloc(size + 1);
        memcpy(copy, data, size);
        if (way)
            seal(copy, size, way == 2 ? &image : NULL);
        check(copy, size, image);
        free(copy);
    }
    return 0;
}
