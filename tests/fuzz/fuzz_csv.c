/* fuzz_csv.c: any text is rows, rows are fields or an error, fields lie in the row or in the scratch. */
#include "expect.h"

#include "io/csv.h"

#include <stdbool.h>
#include <string.h>

#define FIELDS 16

static void split(const char *row, size_t length, char delimiter, char *scratch)
{
    struct csv_field f[FIELDS];
    size_t count = 0;
    pst_error e;
    pst_status st = csv_split(row, length, delimiter, scratch, f, FIELDS, &count, &e);
    EXPECT(st == PST_OK || st == PST_ECORRUPT);
    EXPECT((st == PST_OK) == (count > 0));
    for (size_t i = 0; i < count; i++) {
        bool in_row = f[i].data >= row && f[i].data + f[i].length <= row + length;
        bool in_scratch = f[i].data >= scratch && f[i].data + f[i].length <= scratch + length;
        EXPECT(in_row || (f[i].quoted && in_scratch));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    char guess = csv_guess_delimiter(text, size), *scratch = malloc(size + 1);
    EXPECT(guess && strchr(",;\t|", guess));
    for (size_t begin = 0, end; begin < size; begin = end) {
        end = csv_row_end(text, size, begin);
        EXPECT(end > begin && end <= size);
        EXPECT(end == size || text[end - 1] == '\n');
        split(text + begin, end - begin, guess, scratch);
        split(text + begin, end - begin, ',', scratch);
    }
    free(scratch);
    return 0;
}
