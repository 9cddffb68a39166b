/* gpus.c: see gpus.h. The library is loaded at run time; nothing of it is needed to build. */
#include "cli/gpus.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

struct nvml {
    int (*init)(void);
    int (*count)(unsigned *);
    int (*handle)(unsigned, void **);
    int (*name)(void *, char *, unsigned);
    int (*use)(void *, unsigned *); /* two numbers: per cent of GPU and of memory */
};

/* A function pointer from dlsym, without a cast that ISO C forbids. */
static int find(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);

    memcpy(function, &found, sizeof(found));
    return found != NULL;
}

static const struct nvml *load(void)
{
    static struct nvml nvml;
    static int state; /* 0: not tried, 1: there, -1: not there */

    if (state == 0) {
        void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

        state = library && find(library, "nvmlInit_v2", &nvml.init) && find(library, "nvmlDeviceGetCount_v2", &nvml.count) &&
                        find(library, "nvmlDeviceGetHandleByIndex_v2", &nvml.handle) &&
                        find(library, "nvmlDeviceGetName", &nvml.name) &&
                        find(library, "nvmlDeviceGetUtilizationRates", &nvml.use) && nvml.init() == 0
                    ? 1
                    : -1;
    }
    return state > 0 ? &nvml : NULL;
}

size_t gpus_look(struct gpu gpus[MOST_GPUS])
{
    const struct nvml *nvml = load();
    unsigned there = 0, use[2] = {0};
    size_t count = 0;
    void *handle;

    if (!nvml || nvml->count(&there) != 0)
        return 0;
    for (unsigned i = 0; i < there && count < MOST_GPUS; i++) {
        if (nvml->handle(i, &handle) != 0 || nvml->use(handle, use) != 0)
            continue;
        snprintf(gpus[count].name, sizeof(gpus[count].name), "GPU %u", i);
        nvml->name(handle, gpus[count].name, (unsigned)sizeof(gpus[count].name));
        gpus[count].name[sizeof(gpus[count].name) - 1] = '\0';
        gpus[count++].share = use[0] / 100.0;
    }
    return count;
}
