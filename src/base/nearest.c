/* nearest.c: see nearest.h. */
#include "base/nearest.h"

#include <stdbool.h>
#include <string.h>

#define LONGEST_WORD   64
#define SHORTEST_START 3 /* letters that count as an abbreviation */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* Insertions, deletions, replacements and swaps of neighbours; case costs nothing. */
static unsigned edit_distance(const char *a, size_t n, const char *b, size_t m)
{
    unsigned rows[3][LONGEST_WORD + 1];
    unsigned *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++)
        row[j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned *oldest = before;
        before = above, above = row, row = oldest;
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            char x = lower(a[i - 1]), y = lower(b[j - 1]);
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == lower(b[j - 2]) && lower(a[i - 2]) == y)
                row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return row[m];
}

/* Edits up to which a name is plausible: one slip in a short word, more only in long ones. "filter" is not "folder". */
static unsigned plausible_edits(size_t length)
{
    if (length < 7)
        return length > 1;
    return (unsigned)(length + 1) / 4;
}

static bool begins_with(const char *s, const char *start, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (lower(s[i]) != lower(start[i]))
            return false;
    return true;
}

const char *text_nearest(const char *word, const char *const *candidates)
{
    size_t n = strlen(word);
    const char *nearest = NULL;
    unsigned best = plausible_edits(n);
    if (n == 0 || n > LONGEST_WORD)
        return NULL;
    for (; *candidates; candidates++) {
        size_t m = strlen(*candidates);
        if (m == 0 || m > LONGEST_WORD)
            continue;
        unsigned distance = edit_distance(word, n, *candidates, m);
        if (distance > 1 && n >= SHORTEST_START && m > n && begins_with(*candidates, word, n))
            distance = 1; /* an abbreviation */
        if (distance < best || (distance == best && !nearest)) {
            best = distance;
            nearest = *candidates;
        }
    }
    return nearest;
}
