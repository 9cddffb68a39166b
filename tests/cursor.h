/* cursor.h: cursors as numbers, for tests that look at them or change them. */
#ifndef TESTS_CURSOR_H
#define TESTS_CURSOR_H

#include <penstock/pipeline.h>

static inline pst_position position_of(const pst_cursor *c)
{
    pst_position at = {0};
    (void)pst_cursor_get(c, &at, NULL); /* otherwise nothing but zeros, which tests notice */
    return at;
}

static inline pst_cursor cursor_at(pst_position at)
{
    pst_cursor c;
    pst_cursor_set(&c, &at);
    return c;
}

#endif
