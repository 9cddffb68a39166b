/* digits.c: see digits.h. */
#include "base/digits.h"

#include <errno.h>
#include <locale.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

/* The C locale is a constant of the C library: nothing is allocated, and all threads get the same one. */
static locale_t c_locale(void)
{
    static _Atomic(locale_t) kept;
    locale_t c = atomic_load_explicit(&kept, memory_order_acquire);
    if (!c) {
        int code = errno;
        c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        errno = code;
        atomic_store_explicit(&kept, c, memory_order_release);
    }
    return c;
}

/* Only for the calling thread. Returns the locale to give to leave(). */
static locale_t enter(void)
{
    locale_t c = c_locale();
    return c ? uselocale(c) : (locale_t)0;
}

static void leave(locale_t before)
{
    if (before)
        uselocale(before);
}

int digits_vprint(char *buffer, size_t size, const char *format, va_list args)
{
    locale_t before = enter();
    int n = vsnprintf(buffer, size, format, args);
    leave(before);
    return n;
}

int digits_print(char *buffer, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = digits_vprint(buffer, size, format, args);
    va_end(args);
    return n;
}

double digits_double(const char *s, char **end)
{
    locale_t before = enter();
    double value = strtod(s, end);
    leave(before);
    return value;
}

float digits_float(const char *s, char **end)
{
    locale_t before = enter();
    float value = strtof(s, end);
    leave(before);
    return value;
}

char *digits_shortest(double value, int least, char buffer[DIGITS_SIZE])
{
    locale_t before = enter();
    for (int digits = least; digits <= 17; digits++) {
        snprintf(buffer, DIGITS_SIZE, "%.*g", digits, value);
        if (strtod(buffer, NULL) == value)
            break;
    }
    leave(before);
    return buffer;
}

char *digits_shortest_float(float value, int least, char buffer[DIGITS_SIZE])
{
    locale_t before = enter();
    for (int digits = least; digits <= 9; digits++) {
        snprintf(buffer, DIGITS_SIZE, "%.*g", digits, (double)value);
        if (strtof(buffer, NULL) == value)
            break;
    }
    leave(before);
    return buffer;
}
