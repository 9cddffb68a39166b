/* options.h: structs that grow, of options and of results: the caller's `size` is the size of its version of the struct; the
 * rest reads as zero. */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include <penstock/base.h>
#include <string.h>

/* Copies the caller's options (`from` may be NULL) to the zeroed `to` of `size` bytes. */
static inline pst_status options_take(void *to, size_t size, const void *from, pst_error *reterr)
{
    size_t given;
    if (!from)
        return PST_OK;
    memcpy(&given, from, sizeof(given));
    if (given < sizeof(given))
        return pst_fail(reterr, PST_EINVAL, "options.size is %zu; set it to the size of the options struct", given);
    memcpy(to, from, given < size ? given : size);
    return PST_OK;
}

/* Returns whether the caller's result struct says its size; otherwise fails. */
static inline pst_status result_check(const void *to, pst_error *reterr)
{
    size_t given;
    memcpy(&given, to, sizeof(given));
    return given < sizeof(given)
               ? pst_fail(reterr, PST_EINVAL, "size of the result is %zu; set it to the size of the struct", given)
               : PST_OK;
}

/* Copies `from`, which has `size` bytes, to the caller's struct as far as that goes; its own size stays. */
static inline void result_give(void *to, const void *from, size_t size)
{
    size_t given;
    memcpy(&given, to, sizeof(given));
    memcpy((char *)to + sizeof(given), (const char *)from + sizeof(given), (given < size ? given : size) - sizeof(given));
}

#endif
