/* json.h: JSON on a stream of the tool, on one line. The writer is base/json.c, which the tool compiles too. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include "base/json.h"
#include <penstock/base.h>
#include <stdio.h>

struct json json_to(FILE *out);
void json_error(struct json *j, const char *key, const pst_error *error); /* {status, message, path, record, offset} */

#endif
