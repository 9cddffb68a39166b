/* test_pack_images.c: what pack does to images, and that it leaves alone what already is as asked. */
#include "pack_fixture.h"

static char source[320];

/* One JPEG of 60×40, one gray PNG of 20×50, one PNG of exactly 32×32. */
static void setup(void)
{
    snprintf(source, sizeof(source), "%s", test_path("images"));
    make_folder(source);
    char path[512];
    snprintf(path, sizeof(path), "%s/a.jpg", source);
    write_picture(path, 60, 40, 3, PST_IMAGE_JPEG, 1);
    snprintf(path, sizeof(path), "%s/b.png", source);
    write_picture(path, 20, 50, 1, PST_IMAGE_PNG, 2);
    snprintf(path, sizeof(path), "%s/c.png", source);
    write_picture(path, 32, 32, 3, PST_IMAGE_PNG, 3);
}

static struct packed *pack_images(const pst_pack_options *o)
{
    const char *out = test_path("images-out");
    pst_error e;
    remove_folder(out);
    return CHECK_STATUS(pack_one(source, out, o, NULL, &e), PST_OK, &e) ? packed_open(out, "train") : NULL;
}

static pst_image_info info_of(struct packed *p, size_t i)
{
    pst_image_info info = {0};
    pst_bytes b = packed_bytes(p, i, "image");
    pst_image_probe(b.data, b.length, &info, NULL);
    return info;
}

static bool is_untouched(struct packed *p, size_t i, const char *name)
{
    char path[512];
    size_t length;
    snprintf(path, sizeof(path), "%s/%s", source, name);
    uint8_t *data = test_read_file(path, &length);
    pst_bytes b = packed_bytes(p, i, "image");
    bool same = b.length == length && memcmp(b.data, data, length) == 0;
    free(data);
    return same;
}

static void short_side(void)
{
    pst_pack_options o = fast();
    o.resize = "32";
    struct packed *p = pack_images(&o);
    REQUIRE(p);
    pst_image_info a = info_of(p, 0), b = info_of(p, 1);
    CHECK(a.format == PST_IMAGE_JPEG && a.width == 48 && a.height == 32 && a.channels == 3);
    CHECK(b.format == PST_IMAGE_PNG && b.width == 32 && b.height == 80 && b.channels == 1);
    CHECK_MSG(is_untouched(p, 2, "c.png"), "an image of that size keeps its bytes");
    CHECK_INT(packed_int(p, 0, "width"), 48);
    CHECK_INT(packed_int(p, 1, "height"), 80);
    packed_close(p);
}

static void exact_size_and_format(void)
{
    pst_pack_options o = fast();
    o.resize = "24x16";
    o.format = PST_IMAGE_PNG;
    o.channels = 3;
    struct packed *p = pack_images(&o);
    REQUIRE(p);
    for (size_t i = 0; i < 3; i++) {
        pst_image_info info = info_of(p, i);
        CHECK(info.format == PST_IMAGE_PNG && info.width == 24 && info.height == 16 && info.channels == 3);
    }
    packed_close(p);
    o = fast();
    o.format = PST_IMAGE_PNG;
    p = pack_images(&o);
    REQUIRE(p);
    CHECK_INT(info_of(p, 0).format, PST_IMAGE_PNG);
    CHECK(is_untouched(p, 1, "b.png") && is_untouched(p, 2, "c.png"));
    packed_close(p);
}

static void gray_and_quality(void)
{
    pst_pack_options o = fast();
    o.channels = 1;
    struct packed *p = pack_images(&o);
    REQUIRE(p);
    CHECK_INT(info_of(p, 0).channels, 1);
    CHECK(is_untouched(p, 1, "b.png"));
    packed_close(p);
    o = fast();
    o.quality = 10;
    p = pack_images(&o);
    REQUIRE(p);
    size_t low = packed_bytes(p, 0, "image").length;
    CHECK(!is_untouched(p, 0, "a.jpg"));
    CHECK_MSG(is_untouched(p, 1, "b.png"), "PNG has no quality");
    packed_close(p);
    o.quality = 95;
    p = pack_images(&o);
    REQUIRE(p);
    CHECK(packed_bytes(p, 0, "image").length > low);
    packed_close(p);
}

static void raw_pixels(void)
{
    pst_pack_options o = fast();
    o.format = PST_IMAGE_RAW;
    struct packed *p = pack_images(&o);
    REQUIRE(p);
    CHECK_INT(packed_bytes(p, 0, "image").length, 60 * 40 * 3);
    CHECK_INT(packed_bytes(p, 1, "image").length, 20 * 50);
    CHECK_INT(packed_int(p, 0, "channels"), 3);
    CHECK_INT(packed_int(p, 1, "channels"), 1);
    CHECK_INT(packed_int(p, 1, "height"), 50);
    packed_close(p);
}

static void planes(void)
{
    pst_pack_options o = fast();
    o.format = PST_IMAGE_YUV420;
    o.resize = "30";
    struct packed *p = pack_images(&o);
    REQUIRE(p);
    CHECK(info_of(p, 0).format == PST_IMAGE_YUV420 && info_of(p, 0).width == 45 && info_of(p, 0).height == 30);
    CHECK_INT(packed_bytes(p, 0, "image").length, 16 + 45 * 30 + 2 * 23 * 15);
    CHECK_INT(packed_bytes(p, 1, "image").length, 16 + 30 * 75); /* gray */
    packed_close(p);
}

static void copies(void)
{
    pst_pack_options o = fast();
    o.augment = 3;
    struct packed *p = pack_images(&o), *q;
    REQUIRE(p);
    CHECK_INT(p->count, 12);
    CHECK_MSG(is_untouched(p, 0, "a.jpg") && is_untouched(p, 4, "b.png"), "originals keep their bytes");
    CHECK(packed_is(p, 0, "key", "a.jpg") && packed_is(p, 1, "key", "a.jpg#1") && packed_is(p, 7, "key", "b.png#3"));
    uint64_t hashes[4];
    for (size_t i = 0; i < 4; i++) {
        pst_bytes b = packed_bytes(p, i, "image");
        hashes[i] = hash_bytes(b.data, b.length, 0);
        CHECK(info_of(p, i).width == 60 && info_of(p, i).height == 40);
        for (size_t k = 0; k < i; k++)
            CHECK_MSG(hashes[i] != hashes[k], "copies %zu and %zu are the same", i, k);
    }
    CHECK_INT(info_of(p, 5).channels, 1);
    /* The same copies in any order and with any number of workers; others with another seed. */
    o.shuffle = true;
    o.seed = 0;
    o.workers = 5;
    q = pack_images(&o);
    REQUIRE(q);
    size_t at = packed_find(q, "a.jpg#2");
    pst_bytes b = packed_bytes(q, at, "image");
    CHECK(hash_bytes(b.data, b.length, 0) == hashes[2]);
    packed_close(q);
    o.seed = 1;
    q = pack_images(&o);
    REQUIRE(q);
    at = packed_find(q, "a.jpg#2");
    b = packed_bytes(q, at, "image");
    CHECK(hash_bytes(b.data, b.length, 0) != hashes[2]);
    packed_close(q);
    packed_close(p);
}

static void copies_stay_in_their_split(void)
{
    const char *in = test_path("split-source"), *out = test_path("split-out");
    pst_error e;
    pst_pack_options o = fast();
    make_classes(in, 2, 15);
    o.augment = 1;
    o.split = "train=0.5,val=0.5";
    o.shuffle = true;
    REQUIRE_OK(pack_one(in, out, &o, NULL, &e), &e);
    struct packed *p = packed_open(out, "train");
    CHECK(p->count > 0 && p->count < 60);
    for (size_t i = 0; i < p->count; i++) {
        char key[64];
        pst_bytes k = packed_bytes(p, i, "key");
        snprintf(key, sizeof(key), "%.*s", (int)k.length, (const char *)k.data);
        char *mark = strchr(key, '#');
        if (mark)
            *mark = 0;
        else
            strcat(key, "#1");
        CHECK_MSG(packed_find(p, key) < p->count, "%s is not with its original", key);
    }
    packed_close(p);
}

/* 3 images of 4×5 pixels in an array. */
static void arrays_as_images(void)
{
    static const char header[] = "\x93NUMPY\x01\x00\x76\x00{'descr': '|u1', 'fortran_order': False, 'shape': (3, 4, 5, 3), }";
    uint8_t file[128 + 180];
    memset(file, ' ', 128);
    memcpy(file, header, sizeof(header) - 1);
    file[127] = '\n';
    for (size_t i = 0; i < 180; i++)
        file[128 + i] = (uint8_t)(i * 7);
    char path[320];
    snprintf(path, sizeof(path), "%s", test_path("x.npy"));
    test_write_file(path, file, sizeof(file));
    pst_error e;
    pst_pack_options o = fast();
    REQUIRE_OK(pack_one(path, test_path("pixels"), &o, NULL, &e), &e);
    struct packed *p = packed_open(test_path("pixels"), "train");
    CHECK_INT(packed_bytes(p, 1, "x").length, 60);
    CHECK(!packed_value(p, 0, "width").present);
    packed_close(p);
    o.format = PST_IMAGE_PNG;
    REQUIRE_OK(pack_one(path, test_path("pngs"), &o, NULL, &e), &e);
    p = packed_open(test_path("pngs"), "train");
    pst_bytes b = packed_bytes(p, 2, "x");
    pst_image image;
    REQUIRE_OK(pst_image_decode(&image, b.data, b.length, NULL, &e), &e);
    CHECK(image.width == 5 && image.height == 4 && image.channels == 3);
    for (uint32_t y = 0; y < 4; y++)
        CHECK(memcmp(image.pixels + y * image.stride, file + 128 + 120 + y * 15, 15) == 0);
    CHECK_INT(packed_int(p, 0, "width"), 5);
    pst_image_finish(&image);
    packed_close(p);
}

int main(int argc, char **argv)
{
    setup();
    return test_main(argc, argv,
                     (const struct test[]){
                         {"short side", short_side},
                         {"exact size and format", exact_size_and_format},
                         {"gray and quality", gray_and_quality},
                         {"raw pixels", raw_pixels},
                         {"planes", planes},
                         {"copies", copies},
                         {"copies stay in their split", copies_stay_in_their_split},
                         {"arrays as images", arrays_as_images},
                         {NULL, NULL},
                     });
}
