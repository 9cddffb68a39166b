/* sha256.c: FIPS 180-4 and RFC 2104, plain C: a few kilobytes are hashed per request. */
#include "io/remote/sha256.h"

#include <string.h>

static const uint32_t rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turn(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static uint32_t big32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_big32(uint8_t *p, uint32_t x)
{
    p[0] = (uint8_t)(x >> 24), p[1] = (uint8_t)(x >> 16), p[2] = (uint8_t)(x >> 8), p[3] = (uint8_t)x;
}

static void take_block(struct sha256 *s, const uint8_t *block)
{
    uint32_t w[64], v[8];
    for (unsigned i = 0; i < 16; i++)
        w[i] = big32(block + 4 * i);
    for (unsigned i = 16; i < 64; i++)
        w[i] = w[i - 16] + w[i - 7] + (turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ w[i - 15] >> 3) +
               (turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ w[i - 2] >> 10);
    memcpy(v, s->state, sizeof(v));
    for (unsigned i = 0; i < 64; i++) {
        uint32_t a = v[0], e = v[4];
        uint32_t t = v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & v[5]) ^ (~e & v[6])) + rounds[i] + w[i];
        uint32_t u = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof(v[0]));
        v[0] = t + u;
        v[4] += t;
    }
    for (unsigned i = 0; i < 8; i++)
        s->state[i] += v[i];
}

void sha256_init(struct sha256 *s)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(s->state, start, sizeof(start));
    s->length = 0;
}

void sha256_add(struct sha256 *s, const void *data, size_t length)
{
    const uint8_t *p = data;
    while (length) {
        size_t held = (size_t)(s->length % 64), n = 64 - held < length ? 64 - held : length;
        memcpy(s->block + held, p, n);
        s->length += n;
        p += n;
        length -= n;
        if (s->length % 64 == 0)
            take_block(s, s->block);
    }
}

void sha256_finish(struct sha256 *s, uint8_t ret[SHA256_BYTES])
{
    uint64_t bits = s->length * 8;
    uint8_t end[8];
    put_big32(end, (uint32_t)(bits >> 32));
    put_big32(end + 4, (uint32_t)bits);
    sha256_add(s, "\x80", 1);
    while (s->length % 64 != 56)
        sha256_add(s, "", 1);
    sha256_add(s, end, 8);
    for (unsigned i = 0; i < 8; i++)
        put_big32(ret + 4 * i, s->state[i]);
}

void sha256_to_hex(const uint8_t digest[SHA256_BYTES], char ret[SHA256_HEX])
{
    for (unsigned i = 0; i < SHA256_BYTES; i++) {
        ret[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        ret[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    ret[2 * SHA256_BYTES] = 0;
}

void sha256_hex(const void *data, size_t length, char ret[SHA256_HEX])
{
    struct sha256 s;
    uint8_t digest[SHA256_BYTES];
    sha256_init(&s);
    sha256_add(&s, data, length);
    sha256_finish(&s, digest);
    sha256_to_hex(digest, ret);
}

void hmac_sha256(const void *key, size_t key_length, const void *data, size_t length, uint8_t ret[SHA256_BYTES])
{
    struct sha256 s;
    uint8_t short_key[64] = {0}, pad[64];
    if (key_length > sizeof(short_key)) {
        sha256_init(&s);
        sha256_add(&s, key, key_length);
        sha256_finish(&s, short_key);
    } else {
        memcpy(short_key, key, key_length);
    }
    for (unsigned i = 0; i < 64; i++)
        pad[i] = short_key[i] ^ 0x36;
    sha256_init(&s);
    sha256_add(&s, pad, sizeof(pad));
    sha256_add(&s, data, length);
    sha256_finish(&s, ret);
    for (unsigned i = 0; i < 64; i++)
        pad[i] = short_key[i] ^ 0x5c;
    sha256_init(&s);
    sha256_add(&s, pad, sizeof(pad));
    sha256_add(&s, ret, SHA256_BYTES);
    sha256_finish(&s, ret);
}
