/* events_dump.c: event files of a short run, for TensorBoard's reader: events_dump FOLDER IMAGE.png WIDTH HEIGHT
 *
 * Steps 0 to 99 with scalars; a histogram of 0, 1, …, 999 and of equal values, an image, a text and settings. A second file
 * resumes at step 50 with other scalars. */
#include "io/file.h"
#include "record/event_writer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define START 1700000000.

static pst_status fail(const pst_error *error)
{
    char text[512];
    fprintf(stderr, "%s %s\n", pst_status_name(error->status), pst_error_text(error, text, sizeof(text)));
    return error->status;
}

static void add_values(struct event_writer *w, char **args)
{
    float rising[1000], equal[10];
    uint8_t *png;
    size_t length;
    pst_error error = {0};
    if (file_read_all(&png, &length, args[1], 1 << 20, &error) < 0)
        exit(1);
    for (int i = 0; i < 1000; i++)
        rising[i] = (float)i;
    for (int i = 0; i < 10; i++)
        equal[i] = 2;
    rising[3] = NAN;
    event_begin(w, 7, START + 7);
    event_histogram(w, "weights/conv_1", rising, 1000);
    event_histogram(w, "weights/equal", equal, 10);
    event_histogram(w, "weights/none", NULL, 0);
    event_image(w, "samples", (uint32_t)atoi(args[2]), (uint32_t)atoi(args[3]), 3, png, length);
    event_text(w, "model", "`conv 8 3 | flatten`");
    event_settings(w, (const struct event_setting[]){{"lr", NULL, 0.125}, {"optimizer", "adam", 0}}, 2, START);
    event_end(w);
    free(png);
}

int main(int argc, char **argv)
{
    struct event_writer w = {0};
    pst_error error = {0};
    if (argc != 5)
        return 2;
    if (event_writer_open(&w, argv[1], "host", START, 0, &error) < 0)
        return fail(&error), 1;
    for (int step = 0; step < 100; step++) {
        event_begin(&w, step, START + step);
        event_scalar(&w, "loss", 1. / (1 + step));
        event_scalar(&w, "accuracy", step / 100.);
        event_end(&w);
        if (step % 10 == 9 && event_flush(&w, &error) < 0)
            return fail(&error), 1;
    }
    add_values(&w, argv + 1);
    if (event_writer_commit(&w, &error) < 0)
        return fail(&error), 1;
    if (event_writer_open(&w, argv[1], "host", START + 200, 50, &error) < 0)
        return fail(&error), 1;
    for (int step = 50; step < 60; step++) {
        event_begin(&w, step, START + 200 + step);
        event_scalar(&w, "loss", -step);
        event_end(&w);
    }
    return event_writer_commit(&w, &error) < 0 ? (fail(&error), 1) : 0;
}
