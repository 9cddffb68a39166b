/* parse_number.h: numbers in tables and labels, independent of the locale. The whole field must be the number. */
#ifndef IO_PARSE_NUMBER_H
#define IO_PARSE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* [+-]digits within int64. "007" is not an integer: its zeros are significant. Spaces around are allowed. */
bool number_int(const char *s, size_t n, int64_t *ret);
/* Decimal with optional point and exponent, or inf, infinity, nan in any case. Spaces around are allowed. */
bool number_float(const char *s, size_t n, double *ret);
/* Returns false for a number that float32 would make infinite. */
bool number_fits_float(double value);
/* Returns true for the words that tables use instead of a number: nothing, NA, N/A, NaN, null, None (the words in any case). */
bool number_missing(const char *s, size_t n);

static inline bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

#endif
