/* memory.h: all heap memory of the library. Sizes are overflow-checked; failures are NULL; frees take NULL. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t size);
void *mem_zalloc(size_t size);
void *mem_array(size_t count, size_t size);  /* zeroed; NULL on overflow */
void *mem_realloc(void *p, size_t size);     /* the old block stays valid on failure */
void *mem_aligned(size_t size);              /* 64-byte aligned, size rounded up to 64; release with mem_free */
void *mem_large(size_t size);                /* the same for large blocks: in huge pages where the system has them */
char *mem_strdup(const char *s);
char *mem_strndup(const char *s, size_t n);
char *mem_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
void mem_free(void *p);

/* Grows `*p` (elements of `size` bytes, room for `*capacity`) so that it holds `needed`; doubles. Returns 0 or -1. */
int mem_grow(void **p, size_t *capacity, size_t needed, size_t size);

/* Returns the number of blocks not yet freed; tests compare it before and after. */
uint64_t mem_live(void);

#endif
