/* pack_sources.h: sources of every kind in one folder, packed and opened again. */
#ifndef TESTS_PACK_SOURCES_H
#define TESTS_PACK_SOURCES_H

#include "pack_fixture.h"

#include "codec/stream.h"

static char folder[320]; /* sources lie here; OUT is OUT-NAME beside them */

static inline const char *in_folder(const char *name)
{
    static char buffers[8][512];
    static unsigned next;
    char *b = buffers[next++ % 8];
    snprintf(b, sizeof(buffers[0]), "%s/%s", folder, name);
    return b;
}

/* Packs one source of the folder into OUT-`name`, and opens it. Fails the test and gives NULL when it cannot. */
static inline struct packed *pack_and_open(const char *source, const char *name, const pst_pack_options *o,
                                           pst_pack_report **ret)
{
    char out[512];
    pst_error e;
    snprintf(out, sizeof(out), "%s-%s", folder, name);
    remove_folder(out);
    const char *path = strcmp(source, "-") ? in_folder(source) : source;
    if (!CHECK_STATUS(pst_pack(&path, 1, out, o, ret, &e), PST_OK, &e))
        return NULL;
    return packed_open(out, "train");
}

static inline pst_status refuse(const char *source, const pst_pack_options *o, pst_error *e)
{
    char out[512];
    snprintf(out, sizeof(out), "%s-refused", folder);
    remove_folder(out);
    return pack_one(in_folder(source), out, o, NULL, e);
}

static inline pst_status collect(void *user, const void *data, size_t length, pst_error *reterr)
{
    (void)reterr;
    return fwrite(data, 1, length, user) == length ? PST_OK : PST_EIO;
}

static inline void write_compressed(const char *path, pst_compression compression, const void *data, size_t length)
{
    struct compressor *c;
    FILE *f = fopen(path, "wb");
    if (!f || compressor_create(&c, compression, 0, NULL) < 0 || compressor_run(c, data, length, true, collect, f, NULL) < 0)
        abort();
    compressor_destroy(c);
    fclose(f);
}

#endif
