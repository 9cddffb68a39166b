/* stream.h: compressed byte streams, one interface for gzip, zlib and zstd. Bounded memory; no files here. */
#ifndef CODEC_STREAM_H
#define CODEC_STREAM_H

#include <penstock/record.h>

/* Recognises the compression from the first bytes (up to 12 are read); NONE if unknown. */
pst_compression stream_sniff(const void *head, size_t length);

struct decompressor;
pst_status decompressor_create(struct decompressor **ret, pst_compression compression, pst_error *reterr);
/* Consumes from `in`, produces to `out`; both counts are set, also on failure. OK: call again with more room or more input.
 * END: there was no input, and none is needed: the stream is complete (concatenated members and frames are decoded too, so
 * this is known only at the end of the input). At the end of the input call without input until nothing is produced. Damage
 * is PST_ECORRUPT, returned after all data before it was produced, and again by every later call. */
pst_status decompressor_run(struct decompressor *d, const void *in, size_t in_length, size_t *ret_consumed, void *out,
                            size_t out_length, size_t *ret_produced, pst_error *reterr);
/* True when the input so far ends at a stream boundary: the end of the file is then a clean end. False for an empty input. */
bool decompressor_at_end(const struct decompressor *d);
struct decompressor *decompressor_destroy(struct decompressor *d);

struct compressor;
pst_status compressor_create(struct compressor **ret, pst_compression compression, int level, pst_error *reterr);
/* All output goes to `sink`. `finish` ends the stream. The output depends only on input and level. */
typedef pst_status (*stream_sink)(void *user, const void *data, size_t length, pst_error *reterr);
pst_status compressor_run(struct compressor *c, const void *in, size_t length, bool finish, stream_sink sink, void *user,
                          pst_error *reterr);
struct compressor *compressor_destroy(struct compressor *c);

#endif
