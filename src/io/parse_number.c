/* parse_number.c: see parse_number.h. No allocation; correctly rounded. */
#include "io/parse_number.h"

#include "base/digits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_TEXT 512 /* length of a float that needs the slow path; longer text is not a number */

static void trim(const char **s, size_t *n)
{
    while (*n && (**s == ' ' || **s == '\t'))
        (*s)++, (*n)--;
    while (*n && ((*s)[*n - 1] == ' ' || (*s)[*n - 1] == '\t'))
        (*n)--;
}

static bool is_word(const char *s, size_t n, const char *word)
{
    return n == strlen(word) && strncasecmp(s, word, n) == 0;
}

bool number_missing(const char *s, size_t n)
{
    trim(&s, &n);
    return n == 0 || is_word(s, n, "na") || is_word(s, n, "n/a") || is_word(s, n, "nan") || is_word(s, n, "null") ||
           is_word(s, n, "none");
}

bool number_int(const char *s, size_t n, int64_t *ret)
{
    trim(&s, &n);
    bool negative = n && *s == '-';
    if (n && (*s == '-' || *s == '+'))
        s++, n--;
    if (n == 0 || (n > 1 && *s == '0'))
        return false;
    uint64_t value = 0, limit = (uint64_t)INT64_MAX + negative;
    for (size_t i = 0; i < n; i++) {
        uint64_t digit = (uint64_t)(s[i] - '0');
        if (!is_digit(s[i]) || value > (limit - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

static bool special(const char *s, size_t n, bool negative, double *ret)
{
    if (is_word(s, n, "inf") || is_word(s, n, "infinity"))
        *ret = negative ? -HUGE_VAL : HUGE_VAL;
    else if (is_word(s, n, "nan"))
        *ret = NAN;
    else
        return false;
    return true;
}

/* The grammar, and the value as mantissa × 10^exponent where the mantissa holds all digits exactly. */
struct decimal {
    uint64_t mantissa;
    int exponent;
    bool exact;
};

static bool scan(const char *s, size_t n, struct decimal *ret)
{
    size_t i = 0, digits = 0;
    bool point = false;
    for (; i < n && (is_digit(s[i]) || (s[i] == '.' && !point)); i++) {
        if (s[i] == '.') {
            point = true;
            continue;
        }
        digits++;
        ret->exponent -= point;
        if (ret->mantissa < UINT64_C(1) << 49)
            ret->mantissa = ret->mantissa * 10 + (uint64_t)(s[i] - '0');
        else
            ret->exact = false;
    }
    if (digits == 0)
        return false;
    if (i == n)
        return true;
    if (s[i] != 'e' && s[i] != 'E')
        return false;
    i++;
    bool negative = i < n && s[i] == '-';
    i += i < n && (s[i] == '-' || s[i] == '+');
    int exponent = 0;
    size_t begin = i;
    for (; i < n && is_digit(s[i]); i++)
        exponent = exponent < 100000 ? exponent * 10 + (s[i] - '0') : exponent;
    ret->exponent += negative ? -exponent : exponent;
    return i == n && i > begin;
}

bool number_fits_float(double value)
{
    return !isfinite(value) || isfinite((float)value);
}

bool number_float(const char *s, size_t n, double *ret)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    trim(&s, &n);
    const char *whole = s;
    size_t length = n;
    bool negative = n && *s == '-';
    if (n && (*s == '-' || *s == '+'))
        s++, n--;
    struct decimal d = {.exact = true};
    if (n == 0 || n >= MAX_TEXT || (!is_digit(*s) && *s != '.'))
        return special(s, n, negative, ret);
    if (!scan(s, n, &d))
        return false;
    if (d.exact && d.exponent >= -22 && d.exponent <= 22) { /* two exact doubles, one rounding */
        double v = (double)d.mantissa;
        v = d.exponent < 0 ? v / powers[-d.exponent] : v * powers[d.exponent];
        *ret = negative ? -v : v;
        return true;
    }
    char text[MAX_TEXT + 2];
    memcpy(text, whole, length);
    text[length] = 0;
    *ret = digits_double(text, NULL);
    return true;
}
