/* test_inspect_show.c: records in words and pictures: Examples, SequenceExamples, TensorBoard's events, contact sheets. */
#include "inspect_fixture.h"

/* ---- Events, made by hand ---- */

struct bytes {
    uint8_t data[512];
    size_t length;
};

static void put(struct bytes *b, const void *data, size_t length)
{
    memcpy(b->data + b->length, data, length);
    b->length += length;
}

static void put_byte(struct bytes *b, unsigned byte)
{
    put(b, (uint8_t[]){(uint8_t)byte}, 1);
}

static void put_field(struct bytes *b, unsigned number, const void *data, size_t length)
{
    put_byte(b, number << 3 | 2);
    put_byte(b, (unsigned)length); /* below 128 here */
    put(b, data, length);
}

static struct bytes make_event(double wall_time, unsigned step)
{
    struct bytes b = {.length = 0};
    put_byte(&b, 1 << 3 | 1);
    put(&b, &wall_time, 8);
    if (step) {
        put_byte(&b, 2 << 3);
        put_byte(&b, step);
    }
    return b;
}

/* One value of a summary, appended to an event. */
static void put_value(struct bytes *event, const char *tag, unsigned number, const void *data, size_t length, bool fixed32)
{
    struct bytes value = {.length = 0}, summary = {.length = 0};
    put_field(&value, 1, tag, strlen(tag));
    if (fixed32) {
        put_byte(&value, number << 3 | 5);
        put(&value, data, 4);
    } else {
        put_field(&value, number, data, length);
    }
    put_field(&summary, 1, value.data, value.length);
    put_field(event, 5, summary.data, summary.length);
}

static void write_events(const char *path)
{
    struct bytes events[5];
    pst_bytes records[5];
    float loss[] = {0.75f, 0.5f, 0.25f};
    events[0] = make_event(1700000000.25, 0);
    put_field(&events[0], 3, "brain.Event:2", 13);
    for (unsigned i = 1; i < 4; i++) {
        events[i] = make_event(1700000000.0 + i, i * 10);
        put_value(&events[i], "loss", 2, &loss[i - 1], 4, true);
    }
    struct bytes tensor = {.length = 0}; /* dtype 1, empty shape, one float */
    put_byte(&tensor, 1 << 3);
    put_byte(&tensor, 1);
    put_field(&tensor, 2, "", 0);
    put_field(&tensor, 5, &loss[2], 4);
    put_value(&events[3], "acc\x1b", 8, tensor.data, tensor.length, false);
    put_value(&events[3], "weights", 5, "", 0, false);
    events[4] = make_event(1700000009, 127);
    put_field(&events[4], 4, "graph", 5);
    for (size_t i = 0; i < 5; i++)
        records[i] = (pst_bytes){events[i].data, events[i].length};
    write_records(path, records, 5);
}

struct lines {
    char text[8192];
    size_t count;
};

static void collect(void *user, const char *line)
{
    struct lines *l = user;
    size_t used = strlen(l->text);
    l->count++;
    snprintf(l->text + used, sizeof(l->text) - used, "%s\n", line);
    CHECK_MSG(!strpbrk(line, "\x1b\n\r\t"), "a line is printable: %s", line);
}

static void test_events(void)
{
    const char *at = folder("events");
    char path[400];
    snprintf(path, sizeof(path), "%s/events.out.tfevents.1700000000.host", at);
    write_events(path);
    pst_inspection *n = inspect(at, (pst_inspect_options){0});
    REQUIRE(n != NULL);
    CHECK_INT(n->content, PST_CONTENT_EVENTS);
    CHECK_INT(n->records, 5);
    CHECK_INT(n->features, 2);
    CHECK_STR(n->feature[0].name, "acc\\x1b");
    CHECK_STR(n->feature[1].name, "loss");
    CHECK(n->feature[1].present == 3 && n->feature[1].min == 0.25 && n->feature[1].max == 0.75 && n->feature[1].mean == 0.5);
    CHECK(!n->shard[0].indexed); /* a log that grows gets no index */
    pst_error e = {0};
    CHECK_STATUS(pst_inspect_sheet(n, test_path("none.png"), 4, 64, &e), PST_EUNSUPPORTED, &e);
    CHECK(access(test_path("none.png"), F_OK) != 0);
    pst_inspection_destroy(n);

    struct lines lines = {.count = 0};
    REQUIRE_OK(pst_inspect_head(path, 10, collect, &lines, &e), &e);
    CHECK_STR(lines.text, "record 0 at byte 0: event, step 0, 2023-11-14 22:13:20 UTC, file version \"brain.Event:2\"\n"
                          "record 1 at byte 40: event, step 10, 2023-11-14 22:13:21 UTC, summary\n"
                          "  loss  scalar  0.75\n"
                          "record 2 at byte 82: event, step 20, 2023-11-14 22:13:22 UTC, summary\n"
                          "  loss  scalar  0.5\n"
                          "record 3 at byte 124: event, step 30, 2023-11-14 22:13:23 UTC, summary\n"
                          "  loss  scalar  0.25\n"
                          "  acc\\x1b  scalar  0.25\n"
                          "  weights  histogram\n"
                          "record 4 at byte 203: event, step 127, 2023-11-14 22:13:29 UTC, graph\n");
}

static void test_sequences(void)
{
    const char *at = folder("sequences");
    char path[400];
    snprintf(path, sizeof(path), "%s/a.tfrecord", at);
    /* context { feature { key "id" value { int64_list { value: 5 } } } } feature_lists { feature_list { key "w" value {
     * feature { int64_list { value: 1 value: 2 } } feature { int64_list { value: 9 } } } } } */
    static const uint8_t record[] = {0x0a, 0x0d, 0x0a, 0x0b, 0x0a, 2,    'i',  'd', 0x12, 5,    0x1a, 3,    0x0a, 1,
                                     5,    0x12, 0x18, 0x0a, 0x16, 0x0a, 1,    'w', 0x12, 0x11, 0x0a, 6,    0x1a, 4,
                                     0x0a, 2,    1,    2,    0x0a, 7,    0x1a, 5,   0x08, 9,    0x08, 0x8a, 0x01};
    pst_bytes records[] = {{record, sizeof(record)}, {record, sizeof(record)}};
    write_records(path, records, 2);
    pst_inspection *n = inspect(at, (pst_inspect_options){0});
    REQUIRE(n != NULL);
    CHECK_INT(n->content, PST_CONTENT_SEQUENCES);
    REQUIRE(n->features == 2);
    CHECK_STR(n->feature[0].name, "id");
    CHECK_INT(n->feature[0].layout, PST_FIXED);
    CHECK_STR(n->feature[1].name, "w");
    CHECK(n->feature[1].layout == PST_RAGGED && n->feature[1].max == 138 && n->feature[1].min == 1 &&
          n->feature[1].max_count == 4);
    pst_inspection_destroy(n);
    struct lines lines = {.count = 0};
    pst_error e = {0};
    REQUIRE_OK(pst_inspect_head(path, 1, collect, &lines, &e), &e);
    CHECK_STR(lines.text,
              "record 0 at byte 0, 41 bytes\n  id  int64[1]                 5\n  w   int64[4] over all steps  1, 2, 9, 138\n");
}

static void test_head(void)
{
    const char *at = make_pictures("head", PST_COMPRESSION_NONE);
    char path[400];
    struct lines lines = {.count = 0};
    pst_error e = {0};
    snprintf(path, sizeof(path), "%s/set-train.tfrecord-00000-of-00002", at);
    REQUIRE_OK(pst_inspect_head(path, 2, collect, &lines, &e), &e);
    CHECK_INT(lines.count, 2 + 6 + 5);
    CHECK_MSG(strstr(lines.text, "  image  bytes[1]  <jpeg 16×12, ") != NULL, "%s", lines.text);
    CHECK_MSG(strstr(lines.text, "  score  float[3]  0.142857, -1.5, 0.01\n") != NULL, "%s", lines.text);
    CHECK_MSG(strstr(lines.text, "  key    bytes[1]  \"item-0001\"\n") != NULL, "%s", lines.text);
    CHECK_MSG(strstr(lines.text, "  tags   bytes[0]\n") != NULL, "%s", lines.text);

    size_t length;
    uint8_t *bytes = test_read_file(path, &length);
    bytes[60] ^= 1; /* in the first record's data */
    test_write_file(path, bytes, length);
    free(bytes);
    lines = (struct lines){.count = 0};
    REQUIRE_OK(pst_inspect_head(path, 1, collect, &lines, &e), &e);
    CHECK_MSG(strncmp(lines.text, "record 0 at byte 0: damaged (data crc), ", 40) == 0, "%s", lines.text);
    CHECK_MSG(strstr(lines.text, "record 1 at byte ") != NULL, "%s", lines.text);

    static const char long_text[] =
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890";
    pst_bytes records[] = {
        {(const uint8_t *)long_text, sizeof(long_text) - 1}, {(const uint8_t *)"\x01\x02\xff", 3}, {NULL, 0}};
    records[2].data = (const uint8_t *)"";
    write_records(path, records, 3);
    lines = (struct lines){.count = 0};
    REQUIRE_OK(pst_inspect_head(path, 9, collect, &lines, &e), &e);
    CHECK_STR(
        lines.text,
        "record 0 at byte 0, 91 bytes: \"01234567890123456789012345678901234567890123456789012345678901234567890123456789…\"\n"
        "record 1 at byte 107, 3 bytes: <3 bytes: 01 02 ff>\n"
        "record 2 at byte 126, 0 bytes\n");
    CHECK_STATUS(pst_inspect_head(test_path("missing"), 1, collect, &lines, &e), PST_ENOTFOUND, &e);
}

/* ---- Pictures ---- */

static void test_sheet(void)
{
    static const pst_compression kinds[] = {PST_COMPRESSION_NONE, PST_COMPRESSION_GZIP};
    uint64_t sums[2] = {0};
    pst_error e = {0};
    for (size_t k = 0; k < 2; k++) {
        const char *at = make_pictures("sheet", kinds[k]);
        char path[400];
        snprintf(path, sizeof(path), "%s/labels.txt", at);
        test_write_file(path, "cat\ndog\nna\xc3\xafve\nlong name that does not fit into its tile\n", 57);
        pst_inspection *n = inspect(at, (pst_inspect_options){0});
        REQUIRE(n != NULL);
        snprintf(path, sizeof(path), "%s/sheet.png", at);
        REQUIRE_OK(pst_inspect_sheet(n, path, 6, 64, &e), &e);
        size_t length;
        uint8_t *png = test_read_file(path, &length);
        pst_image image = {0};
        REQUIRE_OK(pst_image_decode(&image, png, length, NULL, &e), &e);
        CHECK(image.width > 3 * 64 && image.width < 5 * 64 && image.height > 2 * 64);
        for (uint32_t y = 0; y < image.height; y++)
            for (uint32_t x = 0; x < image.width * 3; x++)
                sums[k] = sums[k] * 31 + image.pixels[y * image.stride + x];
        pst_image_finish(&image);
        free(png);
        CHECK_STATUS(pst_inspect_sheet(n, path, 6, 5000, &e), PST_EINVAL, &e);
        CHECK_STATUS(pst_inspect_sheet(n, test_path("no/such/folder.png"), 0, 0, &e), PST_ENOTFOUND, &e);
        pst_inspection_destroy(n);
    }
    CHECK(sums[0] == sums[1]); /* the same samples, however they are reached */

    const char *at = folder("sheetless");
    char path[400];
    snprintf(path, sizeof(path), "%s/a.tfrecord", at);
    write_items(path, 0, 3, false, PST_COMPRESSION_NONE, true);
    pst_inspection *n = inspect(at, (pst_inspect_options){0});
    REQUIRE(n != NULL);
    CHECK_STATUS(pst_inspect_sheet(n, test_path("x.png"), 6, 64, &e), PST_EUNSUPPORTED, &e);
    pst_inspection_destroy(n);
}

/* The pixel in the middle of tile `k` of three in a row; the picture is read once and belongs to the caller. */
static const uint8_t *tile_middle(const pst_image *sheet, uint32_t k, uint32_t tile)
{
    uint32_t margin = 16 + tile / 16, gap = 8 + tile / 16, caption = 16;
    uint32_t x = margin + k * (tile + gap) + tile / 2, y = sheet->height - margin - caption - tile / 2;
    return sheet->pixels + y * sheet->stride + x * 3;
}

static void test_sheet_of_pictures(void)
{
    uint8_t gray[4] = {40, 40, 40, 40}, rgb[12], rgba[4] = {200, 0, 0, 0};
    for (int i = 0; i < 12; i++)
        rgb[i] = (uint8_t[]){250, 10, 90}[i % 3];
    pst_tile tiles[] = {
        {.image = {.pixels = gray, .width = 2, .height = 2, .channels = 1, .stride = 2}, .caption = "gray"},
        {.image = {.pixels = rgb, .width = 2, .height = 2, .channels = 3, .stride = 6}, .caption = "rgb", .note = "#1"},
        {.image = {.pixels = rgba, .width = 1, .height = 1, .channels = 4, .stride = 4}, .note = "transparent"},
    };
    const char *path = test_path("pictures.png");
    pst_error e = {0};
    REQUIRE_OK(pst_sheet_write(path, tiles, 3, 64, "title", NULL, &e), &e);
    size_t length;
    uint8_t *png = test_read_file(path, &length);
    pst_image sheet = {0};
    REQUIRE_OK(pst_image_decode(&sheet, png, length, NULL, &e), &e);
    CHECK(memcmp(tile_middle(&sheet, 0, 64), (uint8_t[]){40, 40, 40}, 3) == 0);
    CHECK(memcmp(tile_middle(&sheet, 1, 64), rgb, 3) == 0);
    CHECK(memcmp(tile_middle(&sheet, 2, 64), (uint8_t[]){237, 238, 240}, 3) == 0); /* what is behind it */
    pst_image_finish(&sheet);
    free(png);

    tiles[1].image.pixels = NULL; /* could not be read */
    CHECK_STATUS(pst_sheet_write(path, tiles, 3, 0, NULL, "line", &e), PST_OK, &e);
    tiles[0].image.channels = 2;
    CHECK_STATUS(pst_sheet_write(path, tiles, 3, 64, "", "", &e), PST_EINVAL, &e);
    CHECK_STATUS(pst_sheet_write(path, tiles, 0, 64, "", "", &e), PST_EINVAL, &e);
    CHECK_STATUS(pst_sheet_write(path, tiles, 1, 5, "", "", &e), PST_EINVAL, &e);
}

static const struct test tests[] = {
    {"events", test_events},
    {"sequences", test_sequences},
    {"records in words", test_head},
    {"contact sheet", test_sheet},
    {"sheet of pictures", test_sheet_of_pictures},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
