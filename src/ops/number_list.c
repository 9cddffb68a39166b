/* number_list.c: see number_list.h. */
#include "ops/number_list.h"

#include "base/error.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

pst_status number_list_read(const char *name, const char *text, uint64_t *ret, size_t most, size_t *ret_count,
                            pst_error *reterr)
{
    size_t n = 0;
    *ret_count = 0;
    for (const char *at = text; *at;) {
        char *end;
        errno = 0;
        unsigned long long value = isdigit((unsigned char)*at) ? strtoull(at, &end, 10) : 0;
        if (!isdigit((unsigned char)*at) || errno || (*end && *end != ',') || (*end == ',' && !end[1]))
            return pst_fail(reterr, PST_EINVAL, "%s: \"%s\" is not a list of whole numbers such as 16,32,64", name, text);
        if (n == most)
            return pst_fail(reterr, PST_EINVAL, "%s: more than %zu numbers", name, most);
        ret[n++] = value;
        at = *end ? end + 1 : end;
    }
    *ret_count = n;
    return PST_OK;
}
