/* schema.h: the inside of a pst_schema, for the parsers. */
#ifndef RECORD_SCHEMA_H
#define RECORD_SCHEMA_H

#include "base/arena.h"
#include "record/name_table.h"
#include <penstock/example.h>

/* Immutable once made. */
struct pst_schema {
    pst_feature *features; /* names point into `names`, defaults into `memory` */
    uint64_t *products;    /* of each feature's shape: its values (fixed), or those of an inner row */
    size_t count;
    struct name_table names; /* numbered as the features are */
    struct arena memory;
};

#define SCHEMA_SPEC_BYTES 200

/* What the text says of a feature behind its name, without a default: "float[32]". Returns `buffer`. */
char *schema_spec(const pst_feature *feature, char buffer[static SCHEMA_SPEC_BYTES]);

#endif
