/* inspect_shards.c: the report's part about files: how even they are, where their indexes are, and each of them by name. */
#include "cli/inspect_report.h"
#include "cli/say.h"
#include "cli/terminal.h"
#include <string.h>

#define SPARK_COLUMNS 40

/* Prints the records per shard as a row of small bars; a bar stands for several shards if there are many. */
static void put_sparkline(const pst_inspection *n, uint64_t most)
{
    static const char *const bars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    size_t columns = n->shards < SPARK_COLUMNS ? n->shards : SPARK_COLUMNS;

    if (n->shards < 2 || !most || !terminal_is(stdout) || !terminal_utf8())
        return;
    fputs("  ", stdout);
    for (size_t i = 0; i < columns; i++) {
        size_t from = i * n->shards / columns, to = (i + 1) * n->shards / columns;
        double mean = 0;

        for (size_t k = from; k < to; k++)
            mean += (double)n->shard[k].records / (double)(to - from);
        fputs(bars[(size_t)(mean / (double)most * 7 + 0.5)], stdout);
    }
}

/* The part of a shard's path before ".tfrecord-00000-of-00016"; 0: it is not numbered. */
static size_t stem_length(const char *path)
{
    static const char ending[] = ".tfrecord";
    const char *of = strstr(path, "-of-"), *next;
    size_t length, n = sizeof(ending) - 1;

    while (of && (next = strstr(of + 1, "-of-")))
        of = next;
    while (of && of > path && of[-1] >= '0' && of[-1] <= '9')
        of--;
    if (!of || of == path || of[-1] != '-')
        return 0;
    length = (size_t)(of - 1 - path);
    return length > n && memcmp(path + length - n, ending, n) == 0 ? length - n : length;
}

static bool same_stem(const char *a, const char *b)
{
    return stem_length(a) == stem_length(b) && memcmp(a, b, stem_length(a)) == 0;
}

/* Prints one line per split, such as NAME-train and NAME-val, if there are several. */
static void put_splits(const pst_inspection *n)
{
    char records[AMOUNT_SIZE], shards[AMOUNT_SIZE], bytes[AMOUNT_SIZE];

    for (size_t i = 0; i < n->shards; i++) {
        if (!stem_length(n->shard[i].path) || same_stem(n->shard[0].path, n->shard[n->shards - 1].path))
            return;
    }
    for (size_t i = 0, next; i < n->shards; i = next) {
        const char *path = n->shard[i].path, *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
        uint64_t sum = 0, size = 0;

        for (next = i; next < n->shards && same_stem(path, n->shard[next].path); next++) {
            sum += n->shard[next].records;
            size += n->shard[next].bytes;
        }
        printf("%*s", INDENT, "");
        put_clean(stdout, base, stem_length(path) - (size_t)(base - path));
        printf(": %s %s in %s %s, %s\n", amount_count(records, sum), plural(sum, "record", "records"),
               amount_count(shards, next - i), plural(next - i, "shard", "shards"), amount_bytes(bytes, (double)size));
    }
}

static void put_balance(const pst_inspection *n)
{
    char a[AMOUNT_SIZE], b[AMOUNT_SIZE], c[AMOUNT_SIZE];
    uint64_t least = UINT64_MAX, most = 0, smallest = UINT64_MAX, largest = 0;

    for (size_t i = 0; i < n->shards; i++) {
        const pst_inspect_shard *s = &n->shard[i];

        least = s->records < least ? s->records : least;
        most = s->records > most ? s->records : most;
        smallest = s->bytes < smallest ? s->bytes : smallest;
        largest = s->bytes > largest ? s->bytes : largest;
    }
    put_heading("Shards");
    if (n->shards == 1) {
        put_clean_string(stdout, n->shard[0].path);
        putchar('\n');
        return;
    }
    if (least == most)
        printf("%s %s each", amount_count(a, least), plural(least, "record", "records"));
    else
        printf("%s to %s records, mean %s", amount_count(a, least), amount_count(b, most),
               amount_count(c, (uint64_t)((double)n->records / (double)n->shards + 0.5)));
    put_sparkline(n, most);
    amount_bytes(a, (double)smallest);
    amount_bytes(b, (double)largest);
    amount_bytes(c, (double)n->bytes / (double)n->shards);
    if (strcmp(a, b) == 0)
        printf("\n%*s%s each\n", INDENT, "", c);
    else
        printf("\n%*s%s to %s, mean %s\n", INDENT, "", a, b, c);
    put_splits(n);
}

static const char *place_words(pst_index_place place)
{
    static const char *const words[] = {"beside the shards", "in the cache folder", "as text beside the shards",
                                        "in memory only"};

    return words[place];
}

static void put_indexes(const pst_inspection *n)
{
    size_t places[PST_INDEX_MEMORY + 1] = {0}, none = 0, built = 0, entropy = 0;
    bool comma = false;

    for (size_t i = 0; i < n->shards; i++) {
        none += !n->shard[i].indexed;
        built += n->shard[i].index_built;
        entropy += n->shard[i].entropy;
        places[n->shard[i].index_place] += n->shard[i].indexed;
    }
    put_heading("Index");
    for (int p = 0; p <= PST_INDEX_MEMORY; p++) {
        if (places[p]) {
            printf("%s%zu %s", comma ? ", " : "", places[p], place_words((pst_index_place)p));
            comma = true;
        }
    }
    if (none)
        printf("%s%s", comma ? ", " : "", none == n->shards ? "none" : "none for the others");
    if (built)
        printf(" (%zu made just now)", built);
    if (entropy)
        printf("; entropy indexes of JPEGs in %zu", entropy);
    putchar('\n');
}

static void put_shard_list(const pst_inspection *n)
{
    char records[AMOUNT_SIZE], bytes[AMOUNT_SIZE];

    for (size_t i = 0; i < n->shards; i++) {
        const pst_inspect_shard *s = &n->shard[i];

        printf("  %12s records  %8s  %-4s  %016llx  ", amount_count(records, s->records), amount_bytes(bytes, (double)s->bytes),
               pst_compression_name(s->compression), (unsigned long long)s->fingerprint);
        put_clean_string(stdout, s->path);
        if (s->damaged)
            printf("  %s%s damaged%s", style_red(stdout), amount_count(records, s->damaged), style_none(stdout));
        putchar('\n');
    }
}

void put_shards(const pst_inspection *n, bool verbose)
{
    put_balance(n);
    put_indexes(n);
    if (verbose)
        put_shard_list(n);
}
