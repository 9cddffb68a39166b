/* setups.h: data with a known flaw, and operations of the program: heavy ones, ones that hold a lock, a source that is slow. */
#ifndef TESTS_DOCTOR_SETUPS_H
#define TESTS_DOCTOR_SETUPS_H

#include <penstock/doctor.h>

/* Class folders a and b with `count` images of this size each; `png` or jpeg. */
void setup_images(const char *folder, unsigned count, uint32_t size, bool png);
/* One shard of Examples: image (jpeg), label, and a field "extra" of `extra` random bytes if that is not 0. */
void setup_shard(const char *path, unsigned count, uint32_t size, size_t extra, pst_compression compression);
/* One shard of Examples: image (png) only; every eighth has the side `lump`, the others `size`. */
void setup_lumps(const char *path, unsigned count, uint32_t size, uint32_t lump);
/* One shard of Examples: image (jpeg) and label, which repeats after `distinct` of them. */
void setup_copies(const char *path, unsigned count, uint32_t size, unsigned distinct);
/* One shard of Examples with `floats` random floats and a label. */
void setup_floats(const char *path, unsigned count, size_t floats, pst_compression compression);

/* Operations of the program, by name in the text: "burn US" computes for that many microseconds of CPU time per element, "noise US" does so and draws a random number, "locked US" does so
 * under one lock, "nap US" sleeps, "python US" burns under one lock and counts as Python, "cv2 US" burns without it and counts as Python,
 * "source US" is a source that sleeps before each element. */
extern const pst_doctor_customs setup_customs;

#endif
