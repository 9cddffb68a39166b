/* driver.c: runs a fuzz target without a fuzzer: replays seeds, then mutates them, the same way every time.
 *
 *   fuzz_NAME [--mutate COUNT SEED] [FILE|FOLDER]…
 *
 * Every mutant is a function of the seeds, SEED and its number alone. When the target crashes, the input is written to
 * fuzz-NAME.crash in the current folder; given as an argument, it is replayed. Paths that do not exist are passed over,
 * so that a target without seeds can be run. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUTANT_MAX ((size_t)1 << 18)

struct seed {
    uint8_t *data;
    size_t size;
};

static struct seed *seeds;
static size_t seed_count;

/* What runs right now, for the handler. */
static const uint8_t *current;
static size_t current_size;
static char crash_path[256];

static void *checked(void *p)
{
    if (!p)
        abort();
    return p;
}

static void on_crash(int number)
{
    int fd = open(crash_path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    ssize_t n = fd >= 0 ? write(fd, current, current_size) : -1;
    static const char text[] = "crashed; the input is in ";
    if (n >= 0 && write(2, text, sizeof(text) - 1) > 0 && write(2, crash_path, strlen(crash_path)) > 0)
        n = write(2, "\n", 1);
    signal(number, SIG_DFL);
    raise(number);
}

/* The target gets a block of exactly this size, so that a sanitizer sees the first byte too far. */
static void run(const uint8_t *data, size_t size)
{
    uint8_t *copy = checked(malloc(size ? size : 1));
    if (size)
        memcpy(copy, data, size);
    current = copy;
    current_size = size;
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* ---- Seeds ---- */

static void add_file(const char *path, size_t size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = checked(malloc(size ? size : 1));
    if (!f || fread(data, 1, size, f) != size) {
        perror(path);
        exit(2);
    }
    fclose(f);
    seeds = checked(realloc(seeds, (seed_count + 1) * sizeof(*seeds)));
    seeds[seed_count++] = (struct seed){data, size};
}

static void add_path(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return;
    if (!S_ISDIR(st.st_mode)) {
        add_file(path, (size_t)st.st_size);
        return;
    }
    struct dirent **names;
    int count = scandir(path, &names, NULL, alphasort); /* sorted: the order of the seeds decides the mutants */
    for (int i = 0; i < count; i++) {
        char *inner = checked(malloc(strlen(path) + strlen(names[i]->d_name) + 2));
        sprintf(inner, "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            add_path(inner);
        free(inner);
        free(names[i]);
    }
    if (count >= 0)
        free(names);
}

/* ---- Mutants ---- */

static uint64_t state;

/* splitmix64 */
static uint64_t draw(uint64_t below)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return below ? (z ^ (z >> 31)) % below : 0;
}

/* Numbers on which lengths and loops turn, at any width and in either byte order. */
static void put_number(uint8_t *data, size_t size)
{
    static const uint64_t numbers[] = {0,         1,         2,       0x7f,       0x80,       0xff,       0x7fff,
                                       0x8000,    0xffff,    0x10000, 0x7fffffff, 0x80000000, 0xffffffff, UINT64_C(1) << 32,
                                       INT64_MAX, UINT64_MAX};
    size_t width = (size_t)1 << draw(4);
    uint64_t value = numbers[draw(sizeof(numbers) / sizeof(numbers[0]))] + draw(3) - 1;
    if (width > size)
        return;
    size_t at = draw(size - width + 1);
    bool big = draw(2);
    for (size_t i = 0; i < width; i++)
        data[at + i] = (uint8_t)(value >> 8 * (big ? width - 1 - i : i));
}

/* Makes room at a random place and fills it: with noise, with one byte, or with another part of the same input. */
static size_t insert(uint8_t *data, size_t size)
{
    size_t n = 1 + draw(draw(4) ? 16 : 600), at = draw(size + 1);
    if (size + n > MUTANT_MAX)
        return size;
    memmove(data + at + n, data + at, size - at);
    uint64_t way = draw(3), byte = draw(256);
    for (size_t i = 0; i < n; i++)
        data[at + i] = way == 0 ? (uint8_t)draw(256) : way == 1 ? (uint8_t)byte : data[(at + n + i) % (size + n)];
    return size + n;
}

/* The end of another seed behind the beginning of this. */
static size_t join_ends(uint8_t *data, size_t size)
{
    const struct seed *other = &seeds[draw(seed_count)];
    size_t keep = draw(size + 1), from = draw(other->size + 1), n = other->size - from;
    if (keep + n > MUTANT_MAX)
        return size;
    if (n)
        memcpy(data + keep, other->data + from, n);
    return keep + n;
}

static size_t mutate(uint8_t *data, size_t size)
{
    uint64_t way = draw(10);
    if (size == 0 || way == 0)
        return insert(data, size);
    switch (way) {
    case 1:
        return join_ends(data, size);
    case 2:
        return draw(size + 1); /* truncates */
    case 3: {
        size_t at = draw(size), n = 1 + draw(size - at < 32 ? size - at : 32); /* takes a piece out */
        memmove(data + at, data + at + n, size - at - n);
        return size - n;
    }
    case 4:
    case 5:
        put_number(data, size);
        return size;
    case 6:
    case 7:
        data[draw(size)] = (uint8_t)draw(256);
        return size;
    default:
        data[draw(size)] ^= (uint8_t)(1 << draw(8));
        return size;
    }
}

static void run_mutants(uint64_t count, uint64_t seed)
{
    uint8_t *data = checked(malloc(MUTANT_MAX));
    for (uint64_t i = 0; i < count; i++) {
        state = seed * 0x9e3779b97f4a7c15u ^ i * 0xd1b54a32d192ed03u;
        const struct seed *s = &seeds[draw(seed_count)];
        size_t size = s->size < MUTANT_MAX ? s->size : MUTANT_MAX;
        memcpy(data, s->data, size);
        for (uint64_t steps = 1 + draw(4); steps; steps--)
            size = mutate(data, size);
        run(data, size);
    }
    free(data);
}

int main(int argc, char **argv)
{
    uint64_t mutants = 0, seed = 0;
    const char *name = strrchr(argv[0], '/');
    snprintf(crash_path, sizeof(crash_path), "%s.crash", name ? name + 1 : argv[0]);
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct sigaction now;
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL) /* a sanitizer's own tells more */
            signal(numbers[i], on_crash);
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--mutate") == 0 && i + 2 < argc) {
            mutants = strtoull(argv[i + 1], NULL, 10);
            seed = strtoull(argv[i + 2], NULL, 10);
            i += 2;
        } else {
            add_path(argv[i]);
        }
    }
    size_t files = seed_count;
    for (size_t i = 0; i < seed_count; i++)
        run(seeds[i].data, seeds[i].size);
    if (!seed_count) { /* the empty input is a seed of every target */
        seeds = checked(calloc(1, sizeof(*seeds)));
        seeds[0].data = checked(malloc(1));
        seed_count = 1;
    }
    run(NULL, 0);
    run_mutants(mutants, seed);
    printf("%zu seeds, %" PRIu64 " mutants\n", files, mutants);
    for (size_t i = 0; i < seed_count; i++)
        free(seeds[i].data);
    free(seeds);
    return 0;
}
