/* hash.h: XXH3-64, the library's only hash function: stable across versions and machines, not for secrets. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash_bytes(const void *data, size_t length, uint64_t seed);
/* A seed that files cannot know, for tables of their names: chosen names then do not collide. Nothing that is stored or delivered may depend on it. */
uint64_t hash_seed(void);
uint64_t hash_combine(uint64_t a, uint64_t b);

#endif
