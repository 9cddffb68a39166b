/* prune_options.c: the options of `penstock train` that choose which weights become zero. */
#include "cli/train_session.h"
#include <stdlib.h>
#include <string.h>

/* Reads "0.5", "2:4" or "keep". */
static pst_status read_amount(const char *text, pst_prune_options *o, pst_error *error)
{
    char *end;
    unsigned long keep = strtoul(text, &end, 10), group = *end == ':' ? strtoul(end + 1, &end, 10) : 0;

    if (strcmp(text, "keep") == 0) {
        o->schedule = PST_PRUNE_KEEP;
        return PST_OK;
    }
    if (group && !*end && group <= 64) {
        o->group_keep = (unsigned)keep;
        o->group = (unsigned)group;
        return PST_OK;
    }
    o->sparsity = strtod(text, &end);
    if (end == text || *end || !(o->sparsity > 0 && o->sparsity < 1))
        return pst_fail(error, PST_EINVAL, "--prune %.20s: expected a share between 0 and 1 such as 0.5, groups such as 2:4, or keep", text);
    return PST_OK;
}

/* Splits "conv_1=0.3" of --prune-layer. */
static pst_status read_layers(struct train_session *s, pst_prune_options *o, pst_error *error)
{
    const struct option_list *list = &s->config->prune_layers;

    s->prune_shares = calloc(list->count + 1, sizeof(*s->prune_shares));
    s->prune_names = calloc(list->count + 1, sizeof(*s->prune_names));
    if (!s->prune_shares || !s->prune_names)
        return pst_fail(error, PST_ENOMEM, "out of memory");
    for (size_t i = 0; i < list->count; i++) {
        const char *is = strrchr(list->items[i], '=');
        char *end = NULL;

        if (is)
            s->prune_shares[i] = strtod(is + 1, &end);
        if (!is || end == is + 1 || *end)
            return pst_fail(error, PST_EINVAL, "--prune-layer %.60s: expected a layer and its share, such as conv_1=0.3", list->items[i]);
        s->prune_names[i] = strndup(list->items[i], (size_t)(is - list->items[i]));
        if (!s->prune_names[i])
            return pst_fail(error, PST_ENOMEM, "out of memory");
    }
    o->layers = (const char *const *)s->prune_names;
    o->layer_sparsity = s->prune_shares;
    o->layer_count = list->count;
    return PST_OK;
}

pst_status prune_options_read(struct train_session *s, pst_prune_options *o, pst_error *error)
{
    const struct train_config *c = s->config;
    pst_status status;

    *o = (pst_prune_options){0};
    if (!c->prune)
        return PST_OK;
    *o = (pst_prune_options){.size = sizeof(*o),
                             .schedule = (pst_prune_schedule)c->prune_schedule,
                             .initial = c->prune_initial,
                             .begin = c->prune_begin,
                             .end = c->prune_end,
                             .every = c->prune_every,
                             .exclude = c->prune_exclude.items,
                             .exclude_count = c->prune_exclude.count};
    status = read_amount(c->prune, o, error);
    if (o->group)
        o->schedule = PST_PRUNE_CONSTANT;
    return status < 0 ? status : read_layers(s, o, error);
}

void prune_options_free(struct train_session *s)
{
    for (size_t i = 0; s->prune_names && s->prune_names[i]; i++)
        free(s->prune_names[i]);
    free(s->prune_names);
    free(s->prune_shares);
    s->prune_names = NULL;
    s->prune_shares = NULL;
}
