/* object.h: an object that is open: which of its blocks are here, who waits for them, and the connections that fetch them.
 *
 * Blocks that somebody waits for come first, then those that are announced, then, for objects that will be read whole, all
 * others. A few threads, one per connection, do the fetching; neighbouring blocks are one request. */
#ifndef IO_REMOTE_OBJECT_H
#define IO_REMOTE_OBJECT_H

#include "io/remote/cache.h"

#include <sys/uio.h>

struct object;

/* Opens the object, or takes a reference to it if it is open. Facts that are not known are asked for and filled in. */
pst_status object_open(struct object **ret, const char *path, struct store_facts *facts, const struct room *room, pst_error *reterr);
void object_close(struct object *o); /* NULL ok */

int object_descriptor(const struct object *o); /* of the local copy; valid while the object is open */
uint64_t object_size(const struct object *o);
/* See file_version. Whatever is read of the object is of this version. */
bool object_version(const struct object *o, char ret[HTTP_ETAG]);
/* True when every block is here: the copy can be mapped from then on. */
bool object_is_whole(struct object *o);
/* The same without looking at blocks that an earlier process stored, or moving those that lie in memory. */
bool object_is_here(struct object *o);

/* Bytes that this process has fetched because no copy had them. */
uint64_t object_downloaded(void);

/* Waits until the bytes are here. Beyond the end there is nothing to wait for. */
pst_status object_need(struct object *o, uint64_t offset, uint64_t length, pst_error *reterr);
/* The same, of the first bytes, and they can be mapped from then on. */
pst_status object_need_mapped(struct object *o, uint64_t length, pst_error *reterr);
/* Reads what the pieces have room for, or up to the end; modifies them. `ret_in_file`: nothing was read, as all of it can be read by a descriptor of the
 * object, which is faster. */
pst_status object_read(struct object *o, struct iovec *pieces, int count, uint64_t offset, size_t *ret_got, bool *ret_in_file, pst_error *reterr);
/* Starts fetching the bytes; does not wait. */
void object_fetch(struct object *o, uint64_t offset, uint64_t length);
/* The object is read from front to back: some of what follows is fetched ahead. */
void object_expect_sequential(struct object *o);
/* Returns how many bytes after what is being read are worth expecting: twice what all connections fetch at once. */
uint64_t object_expect_bytes(void);
/* All of these bytes will be read: what no thread waits for is fetched when connections are idle. The first call counts. */
void object_expect(struct object *o, uint64_t offset, uint64_t length);

#endif
