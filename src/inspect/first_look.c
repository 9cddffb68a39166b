/* first_look.c: see read_shards.h. The same records whatever the number of workers: the choice decides what all of them look
 * for. */
#include "inspect/read_shards.h"

#include "base/error.h"
#include "base/memory.h"
#include "inspect/spread.h"

#define SHARDS  8u
#define RECORDS 32u /* of each */

struct view {
    struct walker *walker;
    pst_content content;
    uint64_t votes[PST_CONTENT_SEQUENCES + 1];
    struct feature_table features; /* in the second round */
};

/* First round: what kind of message is it? */
static pst_status vote(struct view *v, const pst_record *record, pst_error *reterr)
{
    pst_content content;
    pst_status st = walker_content(v->walker, record->data, record->length, &content, reterr);
    if (st == PST_OK)
        v->votes[content]++;
    return st;
}

/* Second round: which features has it? */
static pst_status look(struct view *v, const pst_record *record, pst_error *reterr)
{
    const pst_named_value *values;
    size_t count, context;
    pst_status st = walker_walk(v->walker, v->content, record->data, record->length, &values, &count, &context, reterr);
    if (st < 0)
        return st == PST_ENOMEM ? st : PST_OK;
    return feature_table_add(&v->features, values, count, context, reterr);
}

static pst_status look_at_shard(struct view *v, const char *path, uint64_t max_record_bytes,
                                pst_status (*see)(struct view *, const pst_record *, pst_error *), pst_error *reterr)
{
    static const pst_policy tolerant = {.skip = true};
    pst_damage_log *log;
    pst_status st = pst_damage_log_create(&log, &tolerant, reterr);
    if (st < 0)
        return st;
    pst_reader_options options = {.size = sizeof(options), .max_record_bytes = max_record_bytes, .damage = log};
    pst_reader *reader = NULL;
    st = pst_reader_open(&reader, path, &options, reterr);
    for (unsigned i = 0; i < RECORDS && st == PST_OK; i++) {
        pst_record record;
        st = pst_reader_next(reader, &record, reterr);
        if (st == PST_OK)
            st = see(v, &record, reterr);
    }
    pst_reader_close(reader);
    pst_damage_log_destroy(log);
    return st == PST_END ? PST_OK : st;
}

static pst_status look_around(struct view *v, const char *const *paths, size_t count, uint64_t max_record_bytes,
                              pst_status (*see)(struct view *, const pst_record *, pst_error *), pst_error *reterr)
{
    struct spread some = spread_make(count, SHARDS);
    pst_status st = PST_OK;
    for (uint64_t k = 0; k < some.count && st == PST_OK; k++)
        st = look_at_shard(v, paths[spread_at(&some, k)], max_record_bytes, see, reterr);
    return st;
}

static pst_content majority(const uint64_t *votes)
{
    /* without steps, a SequenceExample cannot be distinguished from an Example */
    uint64_t examples = votes[PST_CONTENT_EXAMPLES] + votes[PST_CONTENT_SEQUENCES];
    uint64_t events = votes[PST_CONTENT_EVENTS], other = votes[PST_CONTENT_OTHER];
    if (examples >= events && examples >= other)
        return votes[PST_CONTENT_SEQUENCES] ? PST_CONTENT_SEQUENCES : PST_CONTENT_EXAMPLES;
    return events >= other ? PST_CONTENT_EVENTS : PST_CONTENT_OTHER;
}

/* `*ret` is the name of feature `i`, or `wanted` where the caller has one. */
static pst_status name_feature(char **ret, const char *wanted, const struct feature_table *t, size_t i, pst_error *reterr)
{
    const char *name = wanted ? wanted : i != NAME_NONE ? feature_plain_name(t, i) : NULL;
    *ret = name ? mem_strdup(name) : NULL;
    return name && !*ret ? fail_memory(reterr, "allocating the name of a feature") : PST_OK;
}

/* The kind of the label: as it was first seen; whole numbers where the first look found none. */
static pst_kind kind_of(const struct feature_table *t, const char *name)
{
    for (size_t i = 0; name && i < t->keys.count; i++) {
        const char *candidate = feature_plain_name(t, i);
        if (candidate && strcmp(candidate, name) == 0 && feature_kind(t, i) != PST_FLOAT)
            return feature_kind(t, i);
    }
    return PST_INT64;
}

pst_status take_first_look(struct choice *ret, const char *const *paths, size_t count, const pst_inspect_options *options,
                 pst_error *reterr)
{
    struct view v = {0};
    pst_status st = walker_create(&v.walker, reterr);
    if (st == PST_OK)
        st = look_around(&v, paths, count, options->max_record_bytes, vote, reterr);
    ret->content = v.content = majority(v.votes);
    bool featured = v.content == PST_CONTENT_EXAMPLES || v.content == PST_CONTENT_SEQUENCES;
    if (st == PST_OK && featured)
        st = look_around(&v, paths, count, options->max_record_bytes, look, reterr);
    if (st == PST_OK && featured)
        st = name_feature(&ret->image_feature, options->image_feature, &v.features, images_choose(&v.features), reterr);
    if (st == PST_OK && featured)
        st = name_feature(&ret->label_feature, options->label_feature, &v.features, labels_choose(&v.features), reterr);
    ret->label_kind = kind_of(&v.features, ret->label_feature);
    ret->verify = options->verify;
    feature_table_finish(&v.features);
    walker_destroy(v.walker);
    return st;
}
