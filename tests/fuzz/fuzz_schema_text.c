/* fuzz_schema_text.c: any text as a schema. What is accepted comes back from its own text unchanged, and a text that is
 * cut is no schema any more. */
#include "expect.h"

#include <penstock/example.h>

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pst_error error;
    pst_schema *schema, *again, *none = NULL;
    char *input = malloc(size + 1);
    size_t room = size * 8 + 64;
    char *text = malloc(room), *second = malloc(room);
    memcpy(input, data, size);
    input[size] = '\0';
    if (pst_schema_parse(&schema, input, &error) == PST_OK) {
        pst_schema_text(schema, text, room);
        EXPECT(pst_schema_parse(&again, text, &error) == PST_OK);
        EXPECT(pst_schema_count(schema) == pst_schema_count(again));
        EXPECT(strcmp(pst_schema_text(again, second, room), text) == 0);
        for (size_t i = 0; i < pst_schema_count(schema); i++)
            EXPECT(pst_schema_find(again, pst_schema_feature(schema, i)->name) == (int)i);
        size_t length = strlen(text);
        if (length > 8) {
            pst_schema_text(schema, second, length);
            EXPECT(strlen(second) < length && pst_schema_parse(&none, second, &error) == PST_EINVAL);
        }
        pst_schema_destroy(again);
        pst_schema_destroy(schema);
    }
    free(second);
    free(text);
    free(input);
    return 0;
}
