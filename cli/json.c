/* json.c: see json.h. */
#include "cli/json.h"

static void put(void *to, const char *s, size_t n)
{
    fwrite(s, 1, n, to);
}

struct json json_to(FILE *out)
{
    return (struct json){.put = put, .to = out};
}

void json_error(struct json *j, const char *key, const pst_error *error)
{
    json_begin_object(j, key);
    json_string(j, "status", pst_status_name(error->status));
    json_string(j, "message", error->message);
    if (error->path[0])
        json_string(j, "path", error->path);
    if (error->record != PST_NOWHERE)
        json_uint(j, "record", error->record);
    if (error->offset != PST_NOWHERE)
        json_uint(j, "offset", error->offset);
    json_end_object(j);
}
