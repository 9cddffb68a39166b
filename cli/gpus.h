/* gpus.h: utilisation of NVIDIA GPUs, where their management library is installed. */
#ifndef CLI_GPUS_H
#define CLI_GPUS_H

#include <stddef.h>

#define MOST_GPUS 16

struct gpu {
    char name[96];
    double share; /* of the time that it was busy */
};

/* Returns the number of GPUs found; 0 if the library is not installed. */
size_t gpus_look(struct gpu gpus[MOST_GPUS]);

#endif
