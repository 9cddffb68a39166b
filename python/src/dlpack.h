/* dlpack.h: the structs of the DLPack exchange, versions 1.0 and before, as the standard lays them out. */
#ifndef DLPACK_H
#define DLPACK_H

#include <stdint.h>

enum { DLPACK_CPU = 1 };
enum { DLPACK_INT = 0, DLPACK_UINT = 1, DLPACK_FLOAT = 2, DLPACK_BFLOAT = 4 };

struct dl_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};

struct dl_legacy { /* capsules named "dltensor" */
    struct dl_tensor tensor;
    void *context;
    void (*deleter)(struct dl_legacy *self);
};

struct dl_versioned { /* capsules named "dltensor_versioned" */
    struct {
        uint32_t major, minor;
    } version;
    void *context;
    void (*deleter)(struct dl_versioned *self);
    uint64_t flags;
    struct dl_tensor tensor;
};

#define DLPACK_COPIED (UINT64_C(1) << 1)

#endif
