/* options.h: option structs that grow: the caller's `size` says how much of one it knows, the rest reads as zero. */
#ifndef RECORD_OPTIONS_H
#define RECORD_OPTIONS_H

#include <penstock/base.h>
#include <string.h>

/* Copies what the caller gave (`from` may be NULL) over the zeroed `to` of `size` bytes. */
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

#endif
