/* data.h: small data sets of every kind that a source reads, made below the test's folder. */
#ifndef TESTS_FLOW_DATA_H
#define TESTS_FLOW_DATA_H

#include <penstock/op.h>

/* Makes, in the current folder:
 *   photos/CLASS/N.EXT   three classes of four pictures each, in every format that this build writes
 *   photos.csv           path,label of the same
 *   shards/              two shards of seven Examples each, with indexes
 *   zipped/              the same, compressed
 *   damaged/             the first of the shards with one payload spoilt and one picture cut short
 *   x.npy                float32 [11,3]
 *   images.npy           uint8 [9,12,10,3]
 *   table0.csv, table1.csv, table1.csv.gz   8 rows each: id, score, name (quoted, with line breaks), note (often missing)
 *   text.txt, text.txt.gz                   9 lines, two of them empty
 *   web-000.tar, web-001.tar, and .gz       7 samples each: txt, cls
 *   data.h5                                 11 rows: x, packed (in chunks), id, word; where libhdf5 is there
 *   tokens.bin                              61 tokens of uint16
 *   fixed.bin, fixed.bin.gz                 a header of 3 bytes, then 17 records of 6
 * An Example has image (JPEG or PNG bytes), label (int64), x (four floats), tags (any number of bytes) and boxes (rows of
 * four floats). Aborts where something cannot be made. */
void data_make(void);
void data_make_tables(void); /* the last of them; called by data_make */

/* Arrays in memory, filled by data_make: `id`, int64 [10]; `vector`, float32 [10,5]; `word`, bytes [10]. */
#define DATA_ARRAYS 3
extern const char *const data_array_names[DATA_ARRAYS];
extern const pst_tensor data_arrays[DATA_ARRAYS];

#endif
