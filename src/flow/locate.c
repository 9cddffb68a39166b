/* locate.c: operations know what is wrong with an element, the source knows where it lies.
 *
 * A byte that an operation names is one of its field. Where the field is a file, it is the file's; otherwise it goes into the
 * message, and the error's own is where the record begins. */
#include "flow/locate.h"

#include "flow/stream.h"

#include <inttypes.h>
#include <string.h>

static void place_error(const struct source_place *at, pst_error *error)
{
    char message[sizeof(error->message)];
    memcpy(message, error->message, sizeof(message));
    if (at->offset == PST_NOWHERE)
        pst_fail_at(error, error->status, at->path, at->record, error->offset, "%s", message);
    else if (error->offset == PST_NOWHERE)
        pst_fail_at(error, error->status, at->path, at->record, at->offset, "%s", message);
    else
        pst_fail_at(error, error->status, at->path, at->record, at->offset, "%s (byte %" PRIu64 " of the field)", message,
                    error->offset);
}

void locate_error(const struct program *p, uint64_t fields, uint64_t index, const struct item *item, pst_error *error)
{
    struct source_place at = {0};
    pst_error inner = *error;
    if (error->path[0] || error->record != PST_NOWHERE)
        return;
    if (item)
        at = item->place;
    else if (p->source_class->locate && !p->streamed)
        p->source_class->locate(p->source, index, fields, &at);
    if (at.path)
        place_error(&at, error);
    else
        pst_fail_at(error, inner.status, NULL, PST_NOWHERE, inner.offset, "sample %" PRIu64 ": %s", index, inner.message);
    memcpy(error->op, inner.op, sizeof(error->op));
    error->sys_errno = inner.sys_errno;
}
