/* plugin.h: operations that plug-ins added; see plugin.c. */
#ifndef OPS_PLUGIN_H
#define OPS_PLUGIN_H

#include <penstock/op.h>

/* Returns operation `i` of the plug-ins that were loaded; NULL: there are fewer. */
const pst_op_class *plugin_op_at(size_t i);

#endif
