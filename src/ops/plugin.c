/* plugin.c: operations from shared objects. They join the table of operations for the rest of the process, so that texts,
 * programs and the Python module use them like built-in ones. A plug-in is never unloaded. */
#include "ops/op_table.h"
#include "base/error.h"
#include <penstock/plugin.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define MOST_OPS    256
#define LEAST_CLASS offsetof(pst_op_class, flags) /* of the first version */
#define LEAST_PLUGIN (offsetof(pst_plugin, ops) + sizeof(((const pst_plugin *)NULL)->ops))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const pst_op_class *loaded[MOST_OPS]; /* written once, before `count` says so */
static _Atomic size_t loaded_count;

const pst_op_class *plugin_op_at(size_t i)
{
    return i < atomic_load_explicit(&loaded_count, memory_order_acquire) ? loaded[i] : NULL;
}

static pst_status check(const pst_plugin *p, const char *path, pst_error *reterr)
{
    if (p->abi != PST_PLUGIN_ABI)
        return pst_fail_at(reterr, PST_EUNSUPPORTED, path, PST_NOWHERE, PST_NOWHERE,
                           "the plug-in was built for version %u of the interface, this library has version %u; build it again "
                           "with the headers of this library (%s)",
                           (unsigned)p->abi, (unsigned)PST_PLUGIN_ABI, pst_version());
    if (p->size < LEAST_PLUGIN || !p->ops || !p->ops[0])
        return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE, "the plug-in declares no operations");
    for (size_t i = 0; p->ops[i]; i++) {
        const pst_op_class *op = p->ops[i];
        size_t length = op->size >= LEAST_CLASS && op->name ? strlen(op->name) : 0;
        if (length == 0 || strspn(op->name, "abcdefghijklmnopqrstuvwxyz0123456789_") != length || !op->plan || !op->doc)
            return pst_fail_at(
                reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE,
                "operation %zu of the plug-in needs a size, a name of lower-case letters, digits and _, a doc and "
                "a plan",
                i);
        bool taken = pst_op_find(op->name) != NULL;
        for (size_t k = 0; k < i; k++)
            taken |= strcmp(p->ops[k]->name, op->name) == 0;
        if (taken)
            return pst_fail_at(reterr, PST_EEXIST, path, PST_NOWHERE, PST_NOWHERE, "there is an operation %s already",
                               op->name);
    }
    return PST_OK;
}

/* Classes of an older version end earlier; the rest reads as zeros. */
static pst_status add(const pst_plugin *p, pst_error *reterr)
{
    static pst_op_class whole[MOST_OPS]; /* for the rest of the process */
    size_t count = atomic_load(&loaded_count);
    for (size_t i = 0; p->ops[i]; i++, count++) {
        if (count == MOST_OPS)
            return pst_fail(reterr, PST_ELIMIT, "more than %d operations in plug-ins", MOST_OPS);
        size_t size = p->ops[i]->size < sizeof(*whole) ? p->ops[i]->size : sizeof(*whole);
        memcpy(&whole[count], p->ops[i], size);
        whole[count].size = sizeof(*whole);
        loaded[count] = &whole[count];
    }
    atomic_store_explicit(&loaded_count, count, memory_order_release);
    return PST_OK;
}

pst_status pst_plugin_load(const char *path, const pst_plugin **ret, pst_error *reterr)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object)
        return pst_fail_at(reterr, PST_EIO, path, PST_NOWHERE, PST_NOWHERE, "cannot load the plug-in: %s", dlerror());
    const pst_plugin *p = dlsym(object, "pst_plugin_entry");
    if (!p) {
        dlclose(object);
        return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE,
                           "not a plug-in: it does not define pst_plugin_entry");
    }
    pthread_mutex_lock(&lock);
    bool known = false; /* the same file again: nothing to do */
    for (size_t i = 0; p->abi == PST_PLUGIN_ABI && p->ops && p->ops[0] && i < atomic_load(&loaded_count); i++)
        known |= loaded[i]->plan == p->ops[0]->plan && strcmp(loaded[i]->name, p->ops[0]->name) == 0;
    pst_status st = known ? PST_OK : check(p, path, reterr);
    if (st == PST_OK && !known)
        st = add(p, reterr);
    pthread_mutex_unlock(&lock);
    if (st < 0) {
        dlclose(object);
        return st;
    }
    if (ret)
        *ret = p;
    return PST_OK;
}
