/* pack_options.h: the caller's options, checked and split: all decisions of pack depend on these. */
#ifndef PACK_PACK_OPTIONS_H
#define PACK_PACK_OPTIONS_H

#include "base/arena.h"
#include "base/text.h"
#include <inttypes.h>
#include <penstock/pack.h>

struct pack_share {
    const char *name;
    double share, upto; /* its share, and the sum of all up to and including it */
};

struct pack_rename {
    const char *from, *to; /* "" leaves the feature out */
};

struct pack_config {
    pst_pack_options options; /* as given; numbers have their defaults filled in, texts are copies */
    pst_policy bad;           /* what options.bad says */
    const char *out;          /* where this call writes: the folder of its part, or `whole` */
    const char *whole;        /* the folder of the dataset */
    const char *shard_folder; /* where this call writes its shards: `out`; in a store, which cannot move them, `whole` */
    const char *name;
    struct pack_share *shares; /* at least one */
    size_t share_count;
    struct pack_rename *renames;
    size_t rename_count;
    uint32_t short_side, width, height; /* of resize: either short_side or the other two; 0: none */
    struct arena arena;
};

#define PACK_SPLIT_LETTERS "letters, digits, _ and -"
#define PACK_PART_PRINT    "part-%05" PRIu32 "-of-%05" PRIu32
#define PACK_PART_SCAN     "part-%5" SCNu32 "-of-%5" SCNu32
#define PACK_NOTE_SUFFIX   ".pack" /* suffix of the hidden file that a compressed shard has instead of an index */

/* `count` sources were given. Copies everything. On failure nothing is held. */
pst_status pack_config_init(struct pack_config *c, const char *out, const pst_pack_options *options, pst_error *reterr);
void pack_config_finish(struct pack_config *c);

/* The folder that a part is packed into: OUT/part-00003-of-00064; mem_free'd by the caller. NULL: out of memory. */
char *pack_part_folder(const char *out, uint32_t part, uint32_t parts);
/* Returns true when some option changes the bytes of images. */
bool pack_config_touches_images(const struct pack_config *c);
/* Returns whether the shards' indexes store the points inside JPEGs where decoding may begin. */
bool pack_config_keeps_entropy(const struct pack_config *c);

/* Writes the options that affect the output, one line each: `    "name": "value",`. */
void pack_config_describe(const struct pack_config *c, struct text *t);

#endif
