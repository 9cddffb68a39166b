/* plugin.h: operations in shared objects, for pipelines of every kind. */
#ifndef PENSTOCK_PLUGIN_H
#define PENSTOCK_PLUGIN_H

#include <penstock/op.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PST_PLUGIN_ABI 1 /* the version of the interface between plug-ins and the library */
#define PST_PLUGIN     __attribute__((visibility("default")))

/* A shared object with operations. It defines `PST_PLUGIN const pst_plugin pst_plugin_entry = {…};`. */
typedef struct pst_plugin {
    size_t size;                    /* sizeof(pst_plugin). */
    uint32_t abi;                   /* PST_PLUGIN_ABI. */
    const char *name;               /* The name of the plug-in. */
    const char *version;            /* Its version. */
    const pst_op_class *const *ops; /* The operations; ends with NULL. */
} pst_plugin;

/* Loads the shared object at `path`: its operations can be used in every pipeline of the process from now on. Loading it again
 * does nothing. `ret` may be NULL. PST_EUNSUPPORTED: it was built for another version of the interface. PST_EEXIST: an
 * operation of that name exists. */
PST_API pst_status pst_plugin_load(const char *path, const pst_plugin **ret, pst_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
