/* compression.c: the names of the compressions of a whole shard. The codecs themselves are in codec/stream.h. */
#include <penstock/record.h>

#include <strings.h>

static const char *const names[] = {
    [PST_COMPRESSION_AUTO] = "auto", [PST_COMPRESSION_NONE] = "none", [PST_COMPRESSION_GZIP] = "gzip",
    [PST_COMPRESSION_ZLIB] = "zlib", [PST_COMPRESSION_ZSTD] = "zstd",
};
#define NAMES (sizeof(names) / sizeof(names[0]))

pst_status pst_compression_parse(pst_compression *ret, const char *name, pst_error *reterr)
{
    for (size_t i = 0; i < NAMES; i++) {
        if (strcasecmp(name, names[i]) == 0) {
            *ret = (pst_compression)i;
            return PST_OK;
        }
    }
    return pst_fail(reterr, PST_EINVAL, "unknown compression \"%s\": use auto, none, gzip, zlib or zstd", name);
}

const char *pst_compression_name(pst_compression compression)
{
    return (size_t)compression < NAMES ? names[compression] : "unknown";
}
