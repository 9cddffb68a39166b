/* inspect_report.h: what `penstock inspect` found, as text for people and as one JSON object. */
#ifndef CLI_INSPECT_REPORT_H
#define CLI_INSPECT_REPORT_H

#include "cli/json.h"
#include <penstock/inspect.h>

struct report_style {
    bool verified; /* everything was read */
    bool verbose;  /* every shard, class and place of damage */
};

void put_report(const pst_inspection *inspection, struct report_style style);

void put_shards(const pst_inspection *inspection, bool verbose);

/* The members of the object; the caller opens and closes it. */
void put_report_json(struct json *j, const pst_inspection *inspection, bool verified);

#endif
