/* suggest.c: edit distance with neighbouring swaps (optimal string alignment) over short names. */
#include "cli/suggest.h"
#include <stdint.h>
#include <string.h>

#define LONGEST 40 /* names beyond this are not command-line words of ours */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t distance(const char *a, const char *b)
{
    size_t rows[3][LONGEST + 1]; /* the row before the previous one, the previous one, this one: used in turn */
    size_t a_length = strlen(a), b_length = strlen(b);

    if (a_length > LONGEST || b_length > LONGEST)
        return SIZE_MAX;
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];

        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            row[j] = least(least(row[j - 1], above[j]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], above2[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

const char *suggest(const char *word, const char *const *candidates, size_t count)
{
    const char *best = NULL;
    size_t length = strlen(word), best_distance = (length < 3 ? 1 : length / 3) + 1; /* a third of the word may be wrong */

    for (size_t i = 0; i < count; i++) {
        size_t d = distance(word, candidates[i]);

        if (length >= 3 && strncmp(candidates[i], word, length) == 0)
            d = 1; /* an abbreviation: not accepted, but a certain suggestion */
        if (d < best_distance) {
            best = candidates[i];
            best_distance = d;
        }
    }
    return best;
}
