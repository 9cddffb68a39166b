/* object_fixture.h: objects of no server for tests: what becomes of their requests and blocks. */
#ifndef OBJECT_FIXTURE_H
#define OBJECT_FIXTURE_H

#include "harness.h"

#include "io/remote/object_inside.h"

#include <stdio.h>

#define MOST ((uint64_t)1 << 20)

/* An object of 8 blocks with a copy in a folder that has room for 16; nothing of it is there. */
static struct object *open_object(const char *folder, uint64_t most)
{
    struct room room = {.folder = (char *)(uintptr_t)test_path(folder), .most = most};
    struct store_facts facts = {.known = true, .size = 8 * CACHE_BLOCK, .etag = "\"e\""};
    struct object *o = NULL;
    char path[64];
    pst_error e;
    snprintf(path, sizeof(path), "http://127.0.0.1:9/%s", folder);
    return CHECK_STATUS(object_open(&o, path, &facts, &room, &e), PST_OK, &e) ? o : NULL;
}

/* As if a thread had taken it from the queue. */
static struct part *begin_part(struct object *o, size_t first, size_t count, enum urgency urgency)
{
    struct part *p = part_make(o, first, count, urgency);
    pthread_mutex_lock(&o->lock);
    object_mark(o, first, count, COMING);
    o->refs++;
    p->next = o->active;
    o->active = p;
    pthread_mutex_unlock(&o->lock);
    return p;
}

#endif
