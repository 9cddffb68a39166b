/* figure.c: see figure.h. */
#include "base/figure.h"

#include "base/digits.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SIGNIFICANT 3

/* Puts commas between the thousands of a number without an exponent. */
static char *separate(char buffer[FIGURE_SIZE])
{
    char *first = buffer + (buffer[0] == '-');
    size_t length = strlen(buffer), whole = strcspn(first, ".");
    for (size_t left = whole; left > 3 && length + 1 < FIGURE_SIZE; length++) {
        left -= 3;
        memmove(first + left + 1, first + left, length - (size_t)(first - buffer) - left + 1);
        first[left] = ',';
    }
    return buffer;
}

char *figure_number(char buffer[FIGURE_SIZE], double value)
{
    char rounded[FIGURE_SIZE];
    if (!isfinite(value)) {
        snprintf(buffer, FIGURE_SIZE, "–");
        return buffer;
    }
    digits_print(rounded, sizeof(rounded), "%.*e", SIGNIFICANT - 1, value);
    double shown = digits_double(rounded, NULL), size = fabs(shown);
    if (size > 0 && (size < 1e-4 || size >= 1e15)) {
        digits_print(buffer, FIGURE_SIZE, "%.*g", SIGNIFICANT, shown);
        return buffer;
    }
    int digits = size > 0 ? SIGNIFICANT - 1 - (int)floor(log10(size) + 1e-9) : 0;
    digits_print(buffer, FIGURE_SIZE, "%.*f", digits > 0 ? digits : 0, shown);
    return separate(buffer);
}

char *figure_count(char buffer[FIGURE_SIZE], double value)
{
    if (!isfinite(value) || fabs(value) >= 1e15)
        return figure_number(buffer, value);
    digits_print(buffer, FIGURE_SIZE, "%.0f", value);
    return separate(buffer);
}

char *figure_seconds(char buffer[FIGURE_SIZE], double seconds, const char *space)
{
    static const struct {
        double from, unit;
        const char *name;
    } units[] = {{172800, 86400, "days"}, {7200, 3600, "h"},       {120, 60, "min"},
                 {0.9995, 1, "s"},        {0.9995e-3, 1e-3, "ms"}, {0, 1e-6, "µs"}};
    char number[FIGURE_SIZE];
    size_t i = 0;
    if (!isfinite(seconds) || seconds < 0)
        return figure_number(buffer, NAN);
    while (seconds < units[i].from)
        i++;
    snprintf(buffer, FIGURE_SIZE, "%.24s%.4s%s", figure_number(number, seconds / units[i].unit), space,
             seconds > 0 ? units[i].name : "s");
    return buffer;
}
