/* le.h: little-endian numbers at any alignment. */
#ifndef BASE_LE_H
#define BASE_LE_H

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "penstock is written for little-endian machines"
#endif

static inline uint16_t le16(const void *p) { uint16_t v; memcpy(&v, p, sizeof(v)); return v; }
static inline uint32_t le32(const void *p) { uint32_t v; memcpy(&v, p, sizeof(v)); return v; }
static inline uint64_t le64(const void *p) { uint64_t v; memcpy(&v, p, sizeof(v)); return v; }
static inline void put_le32(void *p, uint32_t v) { memcpy(p, &v, sizeof(v)); }
static inline void put_le64(void *p, uint64_t v) { memcpy(p, &v, sizeof(v)); }

#endif
