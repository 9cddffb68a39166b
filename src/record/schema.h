/* schema.h: internals of a pst_schema, for the parsers. */
#ifndef RECORD_SCHEMA_H
#define RECORD_SCHEMA_H

#include "base/arena.h"
#include "record/name_table.h"
#include <penstock/example.h>

/* Immutable after creation. */
struct pst_schema {
    pst_feature *features; /* names point into `names`, defaults into `memory` */
    uint64_t *products;    /* per feature: number of values of its shape (fixed), or of an inner row */
    size_t count;
    struct name_table names; /* same numbers as the features */
    struct arena memory;
};

#define SCHEMA_SPEC_BYTES 200

/* Writes the type of a feature as in schema text, without name and default: "float[32]". Returns `buffer`. */
char *schema_spec(const pst_feature *feature, char buffer[static SCHEMA_SPEC_BYTES]);

#endif
