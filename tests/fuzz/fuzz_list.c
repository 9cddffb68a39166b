/* fuzz_list.c: any text is a list: its rows have a path, and a label where the form says so, or are refused. */
#include "expect.h"

#include "io/list.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct list_reader r = {0};
    struct list_form form;
    bool images;
    pst_error e;
    EXPECT(list_recognise(&r, text, size, 0, &form, &images, &e) == PST_OK);
    EXPECT(form.delimiter && strchr(",;\t| ", form.delimiter));
    EXPECT(form.path < LIST_COLUMNS && (form.label == LIST_NO_COLUMN || form.label < LIST_COLUMNS) && form.label != form.path);
    EXPECT(images || !form.header);
    for (size_t begin = 0, end; begin < size; begin = end) {
        const struct csv_field *path = NULL, *label = NULL;
        end = csv_row_end(text, size, begin);
        pst_status st = list_read_row(&r, &form, text + begin, end - begin, "list", begin, &path, &label, &e);
        EXPECT(st == PST_OK || st == PST_EINVAL || st == PST_ECORRUPT);
        if (st < 0)
            continue;
        EXPECT(path->length > 0 && !memchr(path->data, 0, path->length));
        EXPECT((label != NULL) == (form.label != LIST_NO_COLUMN) && (!label || label->length > 0));
    }
    list_reader_finish(&r);
    return 0;
}
