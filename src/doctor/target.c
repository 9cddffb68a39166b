/* target.c: the usual pipeline for a path: class folders, a flat folder of images, shards, a list, a table, text, arrays, an archive. */
#include "doctor/doctor.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/walk.h"

#include <ctype.h>
#include <penstock/image.h>
#include <penstock/record.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define USUAL_SIZE 224

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcasecmp(s + n - m, end) == 0;
}

static bool is_image(const char *path)
{
    static const char *const ends[] = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", NULL};
    for (size_t i = 0; ends[i]; i++)
        if (ends_with(path, ends[i]))
            return true;
    return false;
}

static bool is_shard(const char *path)
{
    const char *name = file_base(path), *dot = strstr(name, ".tfrecord");
    return (dot || ends_with(name, ".tfrec")) && !ends_with(name, ".pidx") && !ends_with(name, ".json") && !ends_with(name, ".idx");
}

/* The side that images are brought to: the usual one, or their own if they are smaller. */
static unsigned side_of(const uint8_t *data, size_t length)
{
    pst_image_info info;
    if (pst_image_probe(data, length, &info, NULL) < 0)
        return USUAL_SIZE;
    uint32_t side = info.width < info.height ? info.width : info.height;
    return side >= USUAL_SIZE ? USUAL_SIZE : side >= 8 ? side : 8;
}

static unsigned side_of_file(const char *path)
{
    uint8_t *data = NULL;
    size_t length = 0;
    unsigned side = USUAL_SIZE;
    if (path && file_read_all(&data, &length, path, (size_t)256 << 20, NULL) == PST_OK)
        side = side_of(data, length);
    mem_free(data);
    return side;
}

static char *image_steps(unsigned side)
{
    return mem_format("decode | random_resized_crop %u | flip | normalize imagenet | batch 64", side);
}

static char *image_pipeline(const char *source, unsigned side)
{
    char *steps = image_steps(side), *text = steps ? mem_format("%s | shuffle | %s", source, steps) : NULL;
    mem_free(steps);
    return text;
}

/* Folders below class folders count as classes; a folder with images only has none. */
static pst_status folder_text(char **ret, const char *path, pst_error *reterr)
{
    struct path_list folders = {0}, files = {0}, inner = {0};
    char *word = draft_quote(path);
    const char *shard = NULL, *image = NULL;
    pst_status st = word ? walk_folders(&folders, path, reterr) : fail_memory(reterr, "writing a pipeline");
    if (st == PST_OK)
        st = walk_files(&files, path, false, reterr);
    for (size_t i = 0; st == PST_OK && i < files.count && !shard; i++) {
        shard = is_shard(files.paths[i]) ? files.paths[i] : NULL;
        image = !image && is_image(files.paths[i]) ? files.paths[i] : image;
    }
    bool flat = image != NULL;
    for (size_t i = 0; st == PST_OK && !shard && !image && i < folders.count; i++) {
        st = walk_files(&inner, folders.paths[i], true, reterr);
        for (size_t k = 0; k < inner.count && !image; k++)
            image = is_image(inner.paths[k]) ? inner.paths[k] : NULL;
    }
    if (st == PST_OK && !shard && !image)
        st = pst_fail_at(reterr, PST_ENOTFOUND, path, PST_NOWHERE, PST_NOWHERE,
                         "the folder has neither images nor TFRecord shards; name a file in it, or write the pipeline: penstock doctor \"SOURCE | …\"");
    if (st == PST_OK) {
        char *source = shard ? mem_format("tfrecord %s", word) : mem_format("folder %s%s", word, flat ? " labels=none" : "");
        *ret = !source ? NULL : shard ? mem_strdup(source) : image_pipeline(source, side_of_file(image));
        mem_free(source);
        st = *ret ? PST_OK : fail_memory(reterr, "writing a pipeline");
    }
    path_list_finish(&folders);
    path_list_finish(&files);
    path_list_finish(&inner);
    mem_free(word);
    return st;
}

/* ---- Shards ---- */

/* Returns the side of the first image in field `image` of the pipeline `text`; 0: the field holds no image. */
static unsigned side_in(const char *text)
{
    pst_pipeline *p = NULL;
    pst_batch *batch = NULL;
    unsigned side = 0;
    if (pst_pipeline_parse(&p, text, NULL, NULL) == PST_OK && pst_pipeline_next(p, &batch, NULL) == PST_OK) {
        const pst_tensor *t = pst_batch_get(batch, "image");
        pst_image_info info;
        if (t && t->dtype == PST_DTYPE_BYTES && t->rank >= 1 && t->shape[0] >= 1) {
            const pst_bytes *b = t->data;
            side = pst_image_probe(b->data, b->length, &info, NULL) == PST_OK ? side_of(b->data, b->length) : 0;
        }
    }
    pst_batch_unref(batch);
    pst_pipeline_destroy(p);
    return side;
}

/* Returns the name of the field that holds encoded images, or "" if there is none. */
static void image_field(const char *source, char *buffer, size_t size)
{
    char *text = mem_format("%s | take 8 | example | batch 1", source);
    pst_pipeline *p = NULL;
    pst_batch *batch = NULL;
    buffer[0] = '\0';
    if (text && pst_pipeline_parse(&p, text, NULL, NULL) == PST_OK && pst_pipeline_next(p, &batch, NULL) == PST_OK) {
        for (size_t i = 0; i < pst_batch_fields(batch) && !buffer[0]; i++) {
            const pst_tensor *t = pst_batch_at(batch, i);
            const pst_bytes *b = t->dtype == PST_DTYPE_BYTES && t->rank == 1 && t->shape[0] >= 1 ? t->data : NULL;
            pst_image_info info;
            if (b && pst_image_probe(b->data, b->length, &info, NULL) == PST_OK)
                snprintf(buffer, size, "%s", pst_batch_name(batch, i));
        }
    }
    pst_batch_unref(batch);
    pst_pipeline_destroy(p);
    mem_free(text);
}

/* `*text` is a source of shards, and becomes the whole pipeline. */
static pst_status shards_text(char **text, pst_error *reterr)
{
    char field[PST_NAME_SIZE], *whole = NULL;
    image_field(*text, field, sizeof(field));
    if (!field[0]) {
        whole = mem_format("%s | shuffle | example | batch 256", *text);
    } else {
        bool plain = strcmp(field, "image") == 0;
        char *name = draft_quote(field), *rename = name ? mem_format(plain ? "%s" : "rename %s image | ", plain ? "" : name) : NULL;
        char *probe = rename ? mem_format("%s | take 1 | example | %sbatch 1", *text, rename) : NULL;
        unsigned side = probe ? side_in(probe) : 0;
        char *steps = image_steps(side ? side : USUAL_SIZE);
        whole = steps && rename ? mem_format("%s | shuffle | example | %s%s", *text, rename, steps) : NULL;
        mem_free(name);
        mem_free(rename);
        mem_free(probe);
        mem_free(steps);
    }
    mem_free(*text);
    *text = whole;
    return whole ? PST_OK : fail_memory(reterr, "writing a pipeline");
}

/* Refuses a file that neither is called a shard nor begins with a record. */
static pst_status check_records(const char *path, pst_error *reterr)
{
    pst_reader *reader = NULL;
    pst_record record;
    pst_error error;
    if (is_shard(path))
        return PST_OK; /* damage is reported with its place */
    pst_status st = pst_reader_open(&reader, path, NULL, &error);
    if (st == PST_OK)
        st = pst_reader_next(reader, &record, &error);
    pst_reader_close(reader);
    if (st == PST_ECORRUPT)
        return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE,
                           "not a TFRecord file, and of no other kind that the doctor knows; give a folder of images, TFRecord shards, a list of images or a "
                           "table (.csv, .tsv), text (.txt, .lst), arrays (.npy, .h5), an archive (.tar), the text of a pipeline, or @FILE if the file contains "
                           "such a text");
    if (st < 0 && reterr)
        *reterr = error;
    return st < 0 ? st : PST_OK;
}

/* ---- Other files ---- */

static bool ends_with_any(const char *path, const char *const *ends)
{
    for (; *ends; ends++)
        if (ends_with(path, *ends))
            return true;
    return false;
}

/* Whether a text begins with rows that name images: it is a list of them, not a table. */
static bool lists_images(const char *path)
{
    char head[16384];
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(head, 1, sizeof(head) - 1, f) : 0;
    bool found = false;
    if (f)
        fclose(f);
    head[n] = '\0';
    for (char *rest = head, *cell; !found && (cell = strtok_r(rest, " |,;\t\r\n\"", &rest));)
        found = is_image(cell);
    return found;
}

static char *list_text(const char *word)
{
    char *source = mem_format("files %s", word), *probe = source ? mem_format("%s | take 1 | batch 1", source) : NULL;
    unsigned side = probe ? side_in(probe) : 0;
    char *text = source ? image_pipeline(source, side ? side : USUAL_SIZE) : NULL;
    mem_free(source);
    mem_free(probe);
    return text;
}

static char *archive_text(const char *word)
{
    char *source = mem_format("tar %s", word), *probe = source ? mem_format("%s | take 1 | batch 1", source) : NULL;
    unsigned side = probe ? side_in(probe) : 0;
    char *text = !source ? NULL : side ? image_pipeline(source, side) : mem_format("%s | shuffle | batch 64", source);
    mem_free(source);
    mem_free(probe);
    return text;
}

/* The name without the ending of a compressed file; mem_free it. */
static char *plain_name(const char *path)
{
    static const char *const packed[] = {".gz", ".zst", ".zz", ".zlib", NULL};
    char *name = mem_strdup(path);
    if (name && ends_with_any(name, packed))
        *strrchr(name, '.') = '\0';
    return name;
}

static pst_status file_text(char **ret, const char *path, pst_error *reterr)
{
    static const char *const tables[] = {".csv", ".tsv", NULL}, *const texts[] = {".txt", ".lst", NULL}, *const archives[] = {".tar", ".tgz", NULL},
                             *const arrays[] = {".h5", ".hdf5", NULL};
    char *word = draft_quote(path), *name = plain_name(path);
    pst_status st = word && name ? PST_OK : fail_memory(reterr, "writing a pipeline");
    bool plain = name && strcmp(name, path) == 0, list = st == PST_OK && plain && (ends_with_any(name, tables) || ends_with_any(name, texts)) && lists_images(path);
    *ret = NULL;
    if (st == PST_OK && list)
        *ret = list_text(word);
    else if (st == PST_OK && plain && ends_with(name, ".npy"))
        *ret = mem_format("npy %s | shuffle | batch 64", word);
    else if (st == PST_OK && plain && ends_with_any(name, arrays))
        *ret = mem_format("hdf5 %s | shuffle | batch 64", word);
    else if (st == PST_OK && (ends_with_any(name, tables) || ends_with_any(name, texts)))
        *ret = mem_format("%s %s | shuffle | batch 256", ends_with_any(name, tables) ? "csv" : "lines", word);
    else if (st == PST_OK && ends_with_any(name, archives))
        *ret = archive_text(word);
    else if (st == PST_OK && (st = check_records(path, reterr)) == PST_OK) {
        *ret = mem_format("tfrecord %s", word);
        if (*ret)
            st = shards_text(ret, reterr);
    }
    mem_free(word);
    mem_free(name);
    return st < 0 ? st : *ret ? PST_OK : fail_memory(reterr, "writing a pipeline");
}

static bool is_one_word(const char *target)
{
    return target[0] && target[0] != '@' && !strpbrk(target, " \t\r\n|'\"(");
}

pst_status target_text(char **ret, bool *ret_written, const char *target, bool customs, pst_error *reterr)
{
    struct stat s;
    char *text = NULL;
    const char *bar = strchr(target, '|');
    *ret_written = !bar && target[0] != '@' && stat(target, &s) == 0;
    if (!*ret_written && !customs && is_one_word(target) && !strstr(target, "://") && !pst_op_find(target))
        return pst_fail_at(reterr, PST_ENOTFOUND, target, PST_NOWHERE, PST_NOWHERE,
                           "no such file or folder, and no operation of this name; check the spelling, and whether a relative path starts in the folder "
                           "that you are in");
    if (!*ret_written) {
        *ret = mem_strdup(target);
        return *ret ? PST_OK : fail_memory(reterr, "reading the pipeline");
    }
    pst_status st = S_ISDIR(s.st_mode) ? folder_text(&text, target, reterr) : file_text(&text, target, reterr);
    if (st == PST_OK && S_ISDIR(s.st_mode) && strncmp(text, "tfrecord ", 9) == 0)
        st = shards_text(&text, reterr);
    if (st < 0) {
        mem_free(text);
        return st;
    }
    *ret = text;
    return PST_OK;
}
