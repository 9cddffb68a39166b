/* image_dump.c: images as the library sees them, for tests in other languages: image_dump COMMAND… < FILE
 *
 *   probe                                       format width height channels
 *   decode CHANNELS                             width height channels, a line break, the pixels
 *   resize WIDTH HEIGHT triangle|nearest        the same, decoded as stored and resized
 *   adjust BRIGHTNESS CONTRAST SATURATION       the same, colours adjusted
 *   encode jpeg|png|webp|lossless|bmp QUALITY   the encoded bytes
 *
 * An error goes to standard error as STATUS and its text; the exit status is then 1. */
#include "image/pixels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t *read_input(size_t *ret_length)
{
    size_t length = 0, capacity = 1 << 16, got;
    uint8_t *data = malloc(capacity);
    while (data && (got = fread(data + length, 1, capacity - length, stdin)) > 0) {
        length += got;
        if (length == capacity)
            data = realloc(data, capacity *= 2);
    }
    if (!data)
        abort();
    *ret_length = length;
    return data;
}

static pst_status put_image(const pst_image *image)
{
    printf("%u %u %u\n", image->width, image->height, image->channels);
    for (uint32_t y = 0; y < image->height; y++)
        fwrite(image->pixels + y * image->stride, 1, (size_t)image->width * image->channels, stdout);
    return PST_OK;
}

static pst_status resize(const pst_image *image, char **args, pst_error *error)
{
    pst_image out;
    pst_filter filter = strcmp(args[2], "nearest") == 0 ? PST_FILTER_NEAREST : PST_FILTER_TRIANGLE;
    pst_status st = pst_image_resize(&out, image, (uint32_t)atoi(args[0]), (uint32_t)atoi(args[1]), filter, error);
    if (st < 0)
        return st;
    put_image(&out);
    pst_image_finish(&out);
    return PST_OK;
}

static pst_status encode(const pst_image *image, char **args, pst_error *error)
{
    pst_encode_options options = {
        .size = sizeof(options), .quality = atoi(args[1]), .lossless = strcmp(args[0], "lossless") == 0};
    pst_image_format format = PST_IMAGE_WEBP;
    uint8_t *bytes;
    size_t length;
    pst_status st = options.lossless ? PST_OK : pst_image_format_parse(&format, args[0], error);
    if (st < 0)
        return st;
    st = pst_image_encode(&bytes, &length, image, format, &options, error);
    if (st < 0)
        return st;
    fwrite(bytes, 1, length, stdout);
    pst_free(bytes);
    return PST_OK;
}

static pst_status run(char **args, const uint8_t *data, size_t length, pst_error *error)
{
    pst_image_info info;
    pst_image image;
    if (strcmp(args[0], "probe") == 0) {
        pst_status st = pst_image_probe(data, length, &info, error);
        if (st == PST_OK)
            printf("%s %u %u %u\n", pst_image_format_name(info.format), info.width, info.height, info.channels);
        return st;
    }
    pst_decode_options options = {.size = sizeof(options), .strict = true};
    options.channels = strcmp(args[0], "decode") == 0 ? (uint32_t)atoi(args[1]) : 0;
    pst_status st = pst_image_decode(&image, data, length, &options, error);
    if (st < 0)
        return st;
    if (strcmp(args[0], "resize") == 0) {
        st = resize(&image, args + 1, error);
    } else if (strcmp(args[0], "encode") == 0) {
        st = encode(&image, args + 1, error);
    } else {
        if (strcmp(args[0], "adjust") == 0)
            pixels_adjust(&image, strtof(args[1], NULL), strtof(args[2], NULL), strtof(args[3], NULL));
        put_image(&image);
    }
    pst_image_finish(&image);
    return st;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int arguments;
    } commands[] = {{"probe", 0}, {"decode", 1}, {"resize", 3}, {"adjust", 3}, {"encode", 2}};
    size_t length;
    pst_error error;
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (argc < 2 || strcmp(argv[1], commands[i].name) != 0 || argc != commands[i].arguments + 2)
            continue;
        uint8_t *data = read_input(&length);
        pst_status st = run(argv + 1, data, length, &error);
        free(data);
        char text[512];
        if (st < 0)
            fprintf(stderr, "%s %s\n", pst_status_name(st), pst_error_text(&error, text, sizeof(text)));
        return st < 0;
    }
    fprintf(stderr, "image_dump: see the top of image_dump.c\n");
    return 2;
}
