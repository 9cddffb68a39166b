/* weight_file.c: see weight_file.h. */
#include "export/weight_file.h"

#include "base/cast.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"

#include <string.h>

#define MAX_WEIGHTS ((size_t)1 << 40)

static bool is_hdf5(const char *path)
{
    static const uint8_t magic[8] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
    uint8_t head[sizeof(magic)];
    size_t got = 0;
    int fd = -1;
    if (file_open_read(&fd, path, NULL) < 0)
        return false;
    pst_status st = file_read_at(fd, path, head, sizeof(head), 0, &got, NULL);
    file_close(fd);
    return st == PST_OK && got == sizeof(magic) && memcmp(head, magic, sizeof(magic)) == 0;
}

pst_status weight_file_open(struct weight_file *ret, const char *path, pst_error *reterr)
{
    size_t length;
    *ret = (struct weight_file){0};
    if (is_hdf5(path))
        return weight_file_hdf5(ret, path, reterr);
    pst_status st = file_read_all(&ret->bytes, &length, path, MAX_WEIGHTS, reterr);
    if (st == PST_OK)
        st = safetensors_parse(&ret->arrays, path, ret->bytes, length, reterr);
    if (st < 0)
        weight_file_finish(ret);
    return st;
}

void weight_file_finish(struct weight_file *f)
{
    safetensors_finish(&f->arrays);
    for (size_t i = 0; i < f->block_count; i++)
        mem_free(f->blocks[i]);
    mem_free(f->blocks);
    mem_free(f->bytes);
    *f = (struct weight_file){0};
}

static float bfloat(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &wide, sizeof(f));
    return f;
}

bool weights_convert(float *to, const void *from, const char *dtype, size_t count)
{
    static const struct {
        const char *name;
        pst_dtype type;
    } rows[] = {{"F16", PST_DTYPE_F16}, {"F64", PST_DTYPE_F64}, {"I64", PST_DTYPE_I64}, {"I32", PST_DTYPE_I32}, {"U8", PST_DTYPE_U8}};
    if (strcmp(dtype, "F32") == 0) {
        memcpy(to, from, count * sizeof(float));
        return true;
    }
    if (strcmp(dtype, "BF16") == 0) {
        for (size_t i = 0; i < count; i++) {
            uint16_t bits;
            memcpy(&bits, (const char *)from + 2 * i, sizeof(bits));
            to[i] = bfloat(bits);
        }
        return true;
    }
    for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
        if (strcmp(rows[k].name, dtype) != 0)
            continue;
        size_t width = safetensors_width(dtype);
        for (size_t i = 0; i < count; i++) { /* one by one: the file's data may be unaligned */
            uint64_t aligned = 0;
            memcpy(&aligned, (const char *)from + i * width, width);
            cast_values(to + i, PST_DTYPE_F32, &aligned, rows[k].type, 1);
        }
        return true;
    }
    return false;
}
