/* preset.h: models with names: ordinary text, with the number of classes as a parameter. */
#ifndef MODEL_PRESET_H
#define MODEL_PRESET_H

#include <penstock/base.h>

/* The text of "NAME" (10 classes) or "NAME:CLASSES"; mem_free it. PST_ENOTFOUND: no preset has this name. */
pst_status preset_text(char **ret, const char *name, pst_error *reterr);
/* The text of the preset that `text` names, or a copy of `text` if it names none; mem_free it. */
pst_status preset_expand(char **ret, const char *text, pst_error *reterr);
/* Name and description of preset `i`. False after the last. */
bool preset_at(size_t i, const char **ret_name, const char **ret_doc);

#endif
