/* sheet.c: contact sheets: of an inspection's samples, and of pictures that a caller has. Which records are shown is
 * samples.c's business, how a sheet looks is canvas.c's.
 *
 * Every tile starts as "not readable" and is painted over by its sample, so a damaged record costs its own tile. */
#include "base/error.h"
#include "base/text.h"
#include "inspect/canvas.h"
#include "inspect/images.h"
#include "inspect/readable.h"
#include "inspect/inspection.h"
#include "io/file.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_TILES 24u

/* ---- Of an inspection ---- */

static pst_status show_picture(struct canvas *c, uint64_t k, const struct sample *sample, pst_error *reterr)
{
    pst_image decoded = {0};
    pst_status st = image_decode(&decoded, sample->image, &sample->info, 4, false, reterr);
    if (st == PST_OK)
        st = canvas_picture(c, k, &decoded, reterr);
    pst_image_finish(&decoded);
    return st;
}

/* The class to the left, its number to the right; without a class, the record's number. */
static void show_caption(struct canvas *c, uint64_t k, const struct sample *sample)
{
    char number[32] = "", line[64] = "";
    if (sample->name[0] && sample->has_label)
        snprintf(number, sizeof(number), "%" PRId64, sample->label);
    else if (sample->name[0])
        snprintf(number, sizeof(number), "#%" PRIu64, sample->number);
    else if (sample->has_label)
        snprintf(line, sizeof(line), "class %" PRId64, sample->label);
    else
        snprintf(number, sizeof(number), "record %" PRIu64, sample->number);
    canvas_caption(c, k, sample->name[0] ? sample->name : line, number);
}

static pst_status show(void *user, uint64_t k, const struct sample *sample, pst_error *reterr)
{
    struct canvas *c = user;
    pst_status st = show_picture(c, k, sample, reterr);
    show_caption(c, k, sample);
    return st == PST_ENOMEM ? st : PST_OK; /* other errors of a picture are shown in its tile */
}

/* The name of the data set, and how much of it this is. */
static pst_status show_header(struct canvas *c, const pst_inspection *p, uint64_t tiles, pst_error *reterr)
{
    const char *path = p->shard[0].path, *base = file_base(path);
    size_t length = p->shards == 1 || base == path ? strlen(path) : (size_t)(base - path) - 1;
    size_t start = length;
    while (start > 0 && path[start - 1] != '/')
        start--;
    struct text title = {0}, line = {0};
    text_add_n(&title, path + start, length - start);
    readable_add_count(&line, tiles);
    text_add(&line, " of ");
    readable_add_count(&line, p->records);
    text_add(&line, " records");
    if (p->classes) {
        text_add(&line, ", ");
        readable_add_count(&line, p->classes);
        text_add(&line, " classes");
    }
    pst_status st = title.failed || line.failed ? fail_memory(reterr, "allocating the sheet's title") : PST_OK;
    if (st == PST_OK)
        canvas_header(c, title.data ? title.data : "/", line.data);
    text_finish(&title);
    text_finish(&line);
    return st;
}

static pst_status check(const pst_inspection *p, pst_error *reterr)
{
    if (p->content != PST_CONTENT_EXAMPLES && p->content != PST_CONTENT_SEQUENCES)
        return pst_fail(reterr, PST_EUNSUPPORTED, "a contact sheet shows images in tf.train.Examples; these records are %s",
                        p->content == PST_CONTENT_EVENTS  ? "TensorBoard events"
                        : p->content == PST_CONTENT_EMPTY ? "none at all"
                                                          : "something else");
    if (!p->image_feature)
        return pst_fail(reterr, PST_EUNSUPPORTED,
                        "a contact sheet needs images, and no feature holds any; --head shows the records");
    return PST_OK;
}

pst_status pst_inspect_sheet(const pst_inspection *inspection, const char *png_path, uint32_t tiles, uint32_t tile_size,
                             pst_error *reterr)
{
    struct canvas c = {0};
    pst_status st = check(inspection, reterr);
    if (st < 0)
        return st;
    struct spread spread = spread_make(inspection->records, tiles ? tiles : DEFAULT_TILES);
    st = canvas_create(&c, spread.count, tile_size, reterr);
    if (st == PST_OK)
        st = show_header(&c, inspection, spread.count, reterr);
    if (st == PST_OK)
        st = samples_visit(inspection_of(inspection), &spread, show, &c, reterr);
    if (st == PST_OK)
        st = canvas_publish(&c, png_path, reterr);
    canvas_finish(&c);
    return st;
}

/* ---- Of pictures ---- */

pst_status pst_sheet_write(const char *png_path, const pst_tile *tiles, size_t count, uint32_t tile_size, const char *title,
                           const char *line, pst_error *reterr)
{
    struct canvas c = {0};
    pst_status st = canvas_create(&c, count, tile_size, reterr);
    if (st == PST_OK)
        canvas_header(&c, title ? title : "", line ? line : "");
    for (size_t k = 0; k < count && st == PST_OK; k++) {
        if (tiles[k].image.pixels)
            st = canvas_picture(&c, k, &tiles[k].image, reterr);
        canvas_caption(&c, k, tiles[k].caption ? tiles[k].caption : "", tiles[k].note ? tiles[k].note : "");
    }
    if (st == PST_OK)
        st = canvas_publish(&c, png_path, reterr);
    canvas_finish(&c);
    return st;
}
