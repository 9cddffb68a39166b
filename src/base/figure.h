/* figure.h: numbers for people: three significant digits, thousands separated by commas, times in a unit that suits them. Files
 * and JSON have exact numbers instead. */
#ifndef BASE_FIGURE_H
#define BASE_FIGURE_H

#define FIGURE_SIZE 40

/* All return `buffer`. A value that is not finite is "–". */

/* Three significant digits, without an exponent from 0.0001 to 10^15: "12,800,000", "1,810", "0.00108". */
char *figure_number(char buffer[FIGURE_SIZE], double value);
/* All digits of a whole number: "1,281,167". */
char *figure_count(char buffer[FIGURE_SIZE], double value);
/* "236 h", "3.20 min", "45.0 ms": number and unit, with `space` between them. */
char *figure_seconds(char buffer[FIGURE_SIZE], double seconds, const char *space);

/* The same in a buffer that lives until the end of the block. */
#define FIGURE(value)        figure_number((char[FIGURE_SIZE]){0}, value)
#define FIGURE_COUNT(value)  figure_count((char[FIGURE_SIZE]){0}, value)
#define FIGURE_TIME(seconds) figure_seconds((char[FIGURE_SIZE]){0}, seconds, " ")

#endif
