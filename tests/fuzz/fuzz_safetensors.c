/* fuzz_safetensors.c: any bytes as safetensors. What is accepted lies inside of the file, array after array without gaps, and
 * reads back the same after it was written again. */
#include "expect.h"

#include "export/safetensors.h"

#include <string.h>

static void write_again(struct safetensors *s)
{
    struct text file = {0};
    struct safetensors again = {0};
    pst_error error;
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->tensors[i].dtype, "F32") != 0 || !text_is_utf8(s->tensors[i].name, strlen(s->tensors[i].name)))
            return;
    safetensors_write(&file, s->tensors, s->count);
    EXPECT(!file.failed);
    EXPECT(safetensors_parse(&again, NULL, file.data, file.length, &error) == PST_OK);
    EXPECT(again.count == s->count);
    for (size_t i = 0; i < s->count; i++) {
        const struct safetensor *a = &s->tensors[i], *b = safetensors_find(&again, a->name);
        EXPECT(b && a->rank == b->rank && a->count == b->count);
        EXPECT(memcmp(a->shape, b->shape, a->rank * sizeof(a->shape[0])) == 0);
        EXPECT(a->count == 0 || memcmp(a->data, b->data, a->count * sizeof(float)) == 0);
    }
    safetensors_finish(&again);
    text_finish(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct safetensors s = {0};
    pst_error e = {0};
    pst_status st = safetensors_parse(&s, NULL, data, size, &e);
    if (st != PST_OK) {
        EXPECT(st == PST_ECORRUPT || st == PST_EUNSUPPORTED || st == PST_ELIMIT);
        EXPECT(e.status == st && e.message[0] && s.tensors == NULL);
        return 0;
    }
    const uint8_t *at = s.count ? s.tensors[0].data : data + size;
    for (size_t i = 0; i < s.count; i++) {
        const struct safetensor *t = &s.tensors[i];
        size_t width = safetensors_width(t->dtype);
        EXPECT(width > 0 && t->rank <= SAFETENSORS_RANK && t->name);
        EXPECT((const uint8_t *)t->data == at && t->count <= (size_t)(data + size - at) / width);
        EXPECT(safetensors_find(&s, t->name) == t);
        at += t->count * width;
    }
    EXPECT(at == data + size);
    write_again(&s);
    safetensors_finish(&s);
    return 0;
}
