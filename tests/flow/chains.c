/* chains.c: see chains.h. */
#include "chains.h"

#include "config.h"
#include "harness.h"
#include "base/half.h"

#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TEXT 8192 /* bytes of a field's line */

/* ---- Reading ---- */

static void *must_have(void *p)
{
    if (!p)
        abort();
    return p;
}

static void add_line(struct chain_lines *c, const char *file, const char *line, size_t length)
{
#ifndef HAVE_HDF5
    static bool skipped; /* a chain that this build cannot run, with its fields */
    skipped = length && line[0] != ' ' ? strncmp(line, "hdf5 ", 5) == 0 : skipped;
    if (skipped)
        return;
#endif
    if (length == 0 || line[0] == '#')
        return;
    if (line[0] != ' ') {
        c->at = must_have(realloc(c->at, (c->count + 1) * sizeof(*c->at)));
        c->at[c->count++] = (struct chain_line){.text = must_have(strndup(line, length)), .file = file};
        return;
    }
    struct chain_line *last = c->count && c->at[c->count - 1].file == file ? &c->at[c->count - 1] : NULL;
    if (!last) {
        printf("# %s: a field without a chain before it\n", file);
        abort();
    }
    size_t had = last->fields ? strlen(last->fields) : 0;
    last->fields = must_have(realloc(last->fields, had + length + 2));
    memcpy(last->fields + had, line, length);
    memcpy(last->fields + had + length, "\n", 2);
}

static void read_file(struct chain_lines *c, const char *path)
{
    size_t length;
    char *data = (char *)test_read_file(path, &length), *file = must_have(strdup(path));
    c->files = must_have(realloc(c->files, (c->file_count + 1) * sizeof(*c->files)));
    c->files[c->file_count++] = file;
    for (size_t at = 0; at < length;) {
        const char *end = memchr(data + at, '\n', length - at);
        size_t n = end ? (size_t)(end - (data + at)) : length - at;
        add_line(c, file, data + at, n);
        at += n + 1;
    }
    free(data);
}

void chains_read(struct chain_lines *c, const char *folder)
{
    char pattern[4096];
    glob_t found;
    snprintf(pattern, sizeof(pattern), "%s/*.txt", folder);
    if (glob(pattern, 0, NULL, &found) != 0) {
        printf("# %s: no chains\n", pattern);
        abort();
    }
    for (size_t i = 0; i < found.gl_pathc; i++)
        read_file(c, found.gl_pathv[i]);
    globfree(&found);
}

void chains_finish(struct chain_lines *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->at[i].text);
        free(c->at[i].fields);
    }
    for (size_t i = 0; i < c->file_count; i++)
        free(c->files[i]);
    free(c->at);
    free(c->files);
    *c = (struct chain_lines){0};
}

/* ---- Comparing ---- */

static void print_value(FILE *to, const pst_tensor *t, size_t i)
{
    const pst_bytes *bytes = t->data;
    switch (t->dtype) {
    case PST_DTYPE_U8:
        fprintf(to, " %u", ((const uint8_t *)t->data)[i]);
        break;
    case PST_DTYPE_I32:
        fprintf(to, " %" PRId32, ((const int32_t *)t->data)[i]);
        break;
    case PST_DTYPE_I64:
        fprintf(to, " %" PRId64, ((const int64_t *)t->data)[i]);
        break;
    case PST_DTYPE_F16:
        fprintf(to, " %.9g", (double)float_from_half(((const uint16_t *)t->data)[i]));
        break;
    case PST_DTYPE_BF16:
        fprintf(to, " %.9g", (double)float_from_bfloat(((const uint16_t *)t->data)[i]));
        break;
    case PST_DTYPE_F32:
        fprintf(to, " %.9g", (double)((const float *)t->data)[i]);
        break;
    case PST_DTYPE_F64:
        fprintf(to, " %.9g", ((const double *)t->data)[i]);
        break;
    default:
        fprintf(to, " \"%.*s\"", (int)bytes[i].length, (const char *)bytes[i].data);
    }
}

/* "  x: int32 [2,3] 1 2 3 4 5 6" */
static void print_field(char *line, size_t size, const char *name, const pst_tensor *t)
{
    FILE *to = must_have(fmemopen(line, size, "w"));
    size_t values = 1;
    fprintf(to, "  %s: %s [", name, pst_dtype_name(t->dtype));
    for (uint32_t d = 0; d < t->rank; d++) {
        fprintf(to, "%s%" PRIu64, d ? "," : "", t->shape[d]);
        values *= (size_t)t->shape[d];
    }
    fprintf(to, "]");
    for (size_t i = 0; i < values; i++)
        print_value(to, t, i);
    fclose(to);
}

bool chain_line_check(const struct chain_line *line, const pst_batch *b)
{
    bool same = true;
    for (const char *want = line->fields; *want; want = strchr(want, '\n') + 1) {
        char name[PST_NAME_SIZE] = "", got[MOST_TEXT] = "";
        size_t length = strcspn(want, "\n");
        sscanf(want, " %63[^:\n]:", name);
        const pst_tensor *t = pst_batch_get(b, name);
        if (t && !t->row_splits)
            print_field(got, sizeof(got), name, t);
        same &= CHECK_MSG(strlen(got) == length && strncmp(got, want, length) == 0, "%s: %s\n# expected %.*s\n# found    %s",
                          line->file, line->text, (int)length, want, got[0] ? got : "no such field of a fixed shape");
    }
    return same;
}
