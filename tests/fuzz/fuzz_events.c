/* fuzz_events.c: an event and its values lie inside the record, the walk ends, and whatever a record holds, the lines that
 * describe it are printable. */
#include "expect.h"

#include "inspect/events.h"
#include "inspect/findings.h"
#include "inspect/readable.h"

#include <string.h>

static bool inside(pst_bytes part, const uint8_t *data, size_t size)
{
    return part.length == 0 ||
           (part.data >= data && part.length <= size && part.data - data <= (ptrdiff_t)(size - part.length));
}

static void check_event(const uint8_t *data, size_t size)
{
    struct event e;
    struct event_value v;
    size_t values = 0;
    if (!event_parse(&e, data, size))
        return;
    EXPECT(e.what && inside(e.file_version, data, size));
    while (event_next_value(&e, &v)) {
        EXPECT(inside(v.tag, data, size) && inside(v.image, data, size));
        EXPECT(event_value_kind_name(v.kind) && ++values <= size);
    }
}

/* The record taken for each of the kinds in turn. */
static void check_findings(const uint8_t *data, size_t size)
{
    static const pst_content contents[] = {PST_CONTENT_EXAMPLES, PST_CONTENT_SEQUENCES, PST_CONTENT_EVENTS, PST_CONTENT_OTHER};
    struct walker *walker;
    pst_error error;
    pst_record record = {.data = data, .length = size};
    pst_content content;
    EXPECT(walker_create(&walker, &error) == PST_OK);
    EXPECT(walker_content(walker, data, size, &content, &error) == PST_OK);
    for (size_t i = 0; i < sizeof(contents) / sizeof(contents[0]); i++) {
        struct findings found = {0};
        struct choice choice = {
            .content = contents[i], .image_feature = "image", .label_feature = "label", .label_kind = PST_INT64};
        EXPECT(findings_take(&found, &choice, walker, "fuzz", &record, &error) == PST_OK);
        EXPECT(found.records == 1 && found.parsed <= 1);
        findings_finish(&found);
    }
    walker_destroy(walker);
}

static void check_readable(const uint8_t *data, size_t size)
{
    struct text t = {0};
    readable_add(&t, data, size, SIZE_MAX);
    for (size_t i = 0; i < t.length; i++)
        EXPECT((unsigned char)t.data[i] >= 0x20 && t.data[i] != 0x7f);
    EXPECT(text_is_utf8(t.data ? t.data : "", t.length));
    text_finish(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_event(data, size);
    check_findings(data, size);
    check_readable(data, size);
    return 0;
}
