/* digits.h: numbers as text and back, with a decimal point in every locale. A program that uses the library may have set a
 * locale with a comma; files, messages and the language of pipelines do not change with it. */
#ifndef BASE_DIGITS_H
#define BASE_DIGITS_H

#include <stdarg.h>
#include <stddef.h>

/* snprintf, vsnprintf, strtod and strtof of the C locale. Cannot fail where those do not. */
int digits_print(char *buffer, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int digits_vprint(char *buffer, size_t size, const char *format, va_list args) __attribute__((format(printf, 3, 0)));
double digits_double(const char *s, char **end); /* `end` may be NULL */
float digits_float(const char *s, char **end);   /* `end` may be NULL */

/* Writes the fewest digits, at least `least`, that read back as the same value. Returns `buffer`. */
#define DIGITS_SIZE 32
char *digits_shortest(double value, int least, char buffer[DIGITS_SIZE]);
char *digits_shortest_float(float value, int least, char buffer[DIGITS_SIZE]);

#endif
