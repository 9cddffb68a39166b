/* object.h: an open object: which of its blocks are here, and waiting for others.
 *
 * Blocks that a thread waits for are fetched first, then those that are announced, then, for objects that will be read whole, all
 * others. A few threads, one per connection, fetch them; neighbouring blocks are one request. */
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
/* See file_version. All bytes that are read of the object are of this version. */
bool object_version(const struct object *o, char ret[HTTP_ETAG]);
/* Returns whether every block is here: the copy can be mapped from then on. */
bool object_is_whole(struct object *o);
/* The same, but neither checks blocks that an earlier process stored nor moves those that lie in memory. */
bool object_is_here(struct object *o);

/* Returns how many bytes this process has fetched. */
uint64_t object_downloaded(void);

/* Waits until the bytes are here. Does not wait for bytes past the end. */
pst_status object_need(struct object *o, uint64_t offset, uint64_t length, pst_error *reterr);
/* The same for the first bytes, which can be mapped from then on. */
pst_status object_need_mapped(struct object *o, uint64_t length, pst_error *reterr);
/* Fills the pieces, up to the end of the object; modifies them. `ret_in_file`: nothing was read, because a descriptor of the object has all of it and is
 * faster. */
pst_status object_read(struct object *o, struct iovec *pieces, int count, uint64_t offset, size_t *ret_got, bool *ret_in_file, pst_error *reterr);
/* Starts fetching the bytes; does not wait. */
void object_fetch(struct object *o, uint64_t offset, uint64_t length);
/* Announces that the object is read from front to back: the blocks after a read are fetched ahead. */
void object_expect_sequential(struct object *o);
/* Returns how many bytes of the objects after this one are worth expecting: twice as many as all connections fetch at once, in requests of the size for this
 * object, and at least OBJECT_EXPECT_LEAST. NULL: a file that is not remote. */
#define OBJECT_EXPECT_LEAST ((uint64_t)128 << 20)
uint64_t object_expect_bytes(struct object *o);
/* Announces that all of these bytes will be read: they are fetched when connections are idle. The first call counts. */
void object_expect(struct object *o, uint64_t offset, uint64_t length);

#endif
