/* sha256.h: SHA-256 and HMAC-SHA-256, as requests to object stores are signed with. */
#ifndef IO_REMOTE_SHA256_H
#define IO_REMOTE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32
#define SHA256_HEX   65 /* with the NUL */

struct sha256 {
    uint32_t state[8];
    uint64_t length;
    uint8_t block[64];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t length);
void sha256_finish(struct sha256 *s, uint8_t ret[SHA256_BYTES]);

void sha256_hex(const void *data, size_t length, char ret[SHA256_HEX]);
void sha256_to_hex(const uint8_t digest[SHA256_BYTES], char ret[SHA256_HEX]);
void hmac_sha256(const void *key, size_t key_length, const void *data, size_t length, uint8_t ret[SHA256_BYTES]);

#endif
