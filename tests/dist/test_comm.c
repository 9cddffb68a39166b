/* test_comm.c: communicators over forked processes: sums in the fixed order, gathers, broadcasts, ranks that stop or die. */
#include "base/memory.h"
#include "base/hash.h"
#include "dist/comm_inside.h"
#include "dist/forked.h"
#include "harness.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#define MOST_LEAVES 12
#define COUNT       300001 /* two pieces, and chunks of different lengths */

static float leaf_value(size_t leaf, size_t i)
{
    return (float)(hash_combine(leaf, i) % 2000001) / 1e6f - 1;
}

/* The sums of `n` leaves in the fixed order. */
static float *wanted_sums(size_t n)
{
    float *leaves[MOST_LEAVES];
    for (size_t l = 0; l < n; l++) {
        leaves[l] = mem_aligned(COUNT * sizeof(float));
        for (size_t i = 0; i < COUNT; i++)
            leaves[l][i] = leaf_value(l, i);
    }
    comm_sum_leaves(leaves, n, COUNT);
    for (size_t l = 1; l < n; l++)
        mem_free(leaves[l]);
    return leaves[0];
}

struct sums {
    size_t leaves; /* per rank */
    enum comm_number number;
};

static bool sum_leaves(pst_comm *c, void *user)
{
    const struct sums *s = user;
    float *leaves[MOST_LEAVES], *wanted = wanted_sums(s->leaves * pst_comm_size(c));
    pst_error error;
    for (size_t l = 0; l < s->leaves; l++) {
        leaves[l] = mem_aligned(COUNT * sizeof(float));
        for (size_t i = 0; i < COUNT; i++)
            leaves[l][i] = leaf_value(l * pst_comm_size(c) + pst_comm_rank(c), i);
    }
    for (size_t at = 0; at < COUNT; at += 70000) { /* several jobs under way */
        float *from[MOST_LEAVES];
        for (size_t l = 0; l < s->leaves; l++)
            from[l] = leaves[l] + at;
        comm_post_sum(c, from, s->leaves, leaves[0] + at, COUNT - at < 70000 ? COUNT - at : 70000, s->number);
    }
    if (comm_wait(c, &error) < 0) {
        printf("# rank %u: %s\n", pst_comm_rank(c), error.message);
        return false;
    }
    double worst = 0;
    for (size_t i = 0; i < COUNT; i++)
        worst = fmax(worst, fabs((double)leaves[0][i] - (double)wanted[i]));
    bool same = memcmp(leaves[0], wanted, COUNT * sizeof(float)) == 0;
    if (s->number == COMM_F32 ? !same : worst > 0.01 || same)
        printf("# rank %u of %u, %zu leaves: differs by %g\n", pst_comm_rank(c), pst_comm_size(c), s->leaves, worst);
    return s->number == COMM_F32 ? same : worst <= 0.01 && !same;
}

static void check_all(unsigned ranks, bool (*run)(pst_comm *c, void *user), void *user)
{
    int codes[MOST_RANKS];
    run_forked(ranks, 120, run, user, codes);
    for (unsigned r = 0; r < ranks; r++)
        CHECK_MSG(codes[r] == 0, "rank %u of %u ended with %d", r, ranks, codes[r]);
}

static void test_sums(void)
{
    for (unsigned ranks = 1; ranks <= 4; ranks++)
        for (size_t leaves = 1; leaves <= 3; leaves += 2)
            check_all(ranks, sum_leaves, &(struct sums){leaves, COMM_F32});
}

static void test_halves(void)
{
    check_all(2, sum_leaves, &(struct sums){1, COMM_F16});
    check_all(3, sum_leaves, &(struct sums){3, COMM_F16});
}

/* The order does not depend on where the leaves are: 12 leaves as 1, 2, 3 or 4 ranks have them. */
static void test_order(void)
{
    float *leaves[12], values[12];
    for (size_t l = 0; l < 12; l++) {
        values[l] = leaf_value(l, 5);
        leaves[l] = &values[l];
    }
    comm_sum_leaves(leaves, 12, 1);
    float v[12];
    for (size_t l = 0; l < 12; l++)
        v[l] = leaf_value(l, 5);
    float a = (v[0] + v[6]) + (v[3] + v[9]), b = (v[1] + v[7]) + (v[4] + v[10]), c = (v[2] + v[8]) + (v[5] + v[11]);
    CHECK(values[0] == (a + b) + c);
}

static bool go_never(void *user)
{
    (void)user;
    return false;
}

static bool gather_all(pst_comm *c, void *user)
{
    unsigned n = pst_comm_size(c), me = pst_comm_rank(c), all[MOST_RANKS];
    uint64_t text[3] = {me, 7 * me, 0};
    pst_rank_info info = {.size = sizeof(info)};
    float value = 3, *leaf = &value;
    bool ok = true;
    (void)user;
    ok &= pst_comm_gather(c, &me, sizeof(me), all, NULL) == PST_OK;
    for (unsigned r = 0; r < n; r++)
        ok &= all[r] == r;
    for (unsigned root = 0; root < n; root++) {
        text[0] = me;
        ok &= pst_comm_broadcast(c, text, sizeof(text), root, NULL) == PST_OK && text[0] == root;
    }
    ok &= pst_comm_barrier(c, NULL) == PST_OK;
    comm_post_gather(c, &me, sizeof(me), all, go_never, NULL);
    comm_post_sum(c, &leaf, 1, &value, 1, COMM_F32);
    ok &= comm_wait(c, NULL) == PST_OK && value == 3; /* not wanted */
    ok &= pst_comm_sum(c, &value, 1, NULL) == PST_OK && value == 3 * (float)n;
    ok &= pst_comm_info(c, me, &info) && info.pid == (uint64_t)getpid() && info.local == me && info.locals == n && !pst_comm_info(c, n, &info);
    ok &= pst_comm_broadcast(c, text, 1, n, NULL) == PST_EINVAL;
    return ok;
}

/* Gathers and broadcasts in messages of up to 1000 bytes; a longer one than any transport takes is refused. */
static bool gather_pieces(pst_comm *c, void *user)
{
    enum { BYTES = 3001 };
    unsigned n = pst_comm_size(c), me = pst_comm_rank(c);
    unsigned char mine[BYTES], *all = mem_alloc((size_t)n * BYTES);
    bool ok = true;
    (void)user;
    c->piece = 1000;
    memset(mine, (int)me + 1, sizeof(mine));
    ok &= pst_comm_gather(c, mine, BYTES, all, NULL) == PST_OK;
    for (size_t i = 0; i < (size_t)n * BYTES; i++)
        ok &= all[i] == i / BYTES + 1;
    ok &= pst_comm_broadcast(c, mine, BYTES, n - 1, NULL) == PST_OK;
    for (size_t i = 0; i < BYTES; i++)
        ok &= mine[i] == n;
    mem_free(all);
    return ok;
}

static bool send_too_much(pst_comm *c, void *user)
{
    pst_error error = {0};
    (void)user;
    pst_comm_barrier(c, NULL);
    if (pst_comm_rank(c))
        return pst_comm_barrier(c, NULL) < 0; /* ends with rank 0: whichever ends first is what the other one notices */
    c->piece = SIZE_MAX;
    pst_status st = pst_comm_broadcast(c, c, TRANSPORT_MOST + 1, 0, &error); /* nothing is read of it */
    if (st != PST_ELIMIT)
        printf("# %s\n", error.message);
    return st == PST_ELIMIT && strstr(error.message, "the longest has");
}

static void test_pieces(void)
{
    for (unsigned ranks = 2; ranks <= 5; ranks++)
        check_all(ranks, gather_pieces, NULL);
    check_all(2, send_too_much, NULL);
}

/* A caller of an older or newer version has smaller or larger structs. */
static void test_sizes(void)
{
    struct {
        pst_comm_options o;
        char more[16];
    } larger = {.o = {.size = sizeof(larger)}};
    pst_comm_options smaller = {.size = offsetof(pst_comm_options, timeout), .timeout = -5};
    pst_rank_info info = {.size = offsetof(pst_rank_info, host), .host = "untouched"};
    pst_launch launch = {.size = offsetof(pst_launch, launcher), .launcher = "untouched"};
    pst_error error;
    pst_comm *c = NULL;
    CHECK_STATUS(pst_comm_open(&c, &larger.o, &error), PST_OK, &error);
    c = pst_comm_close(c);
    CHECK_STATUS(pst_comm_open(&c, &smaller, &error), PST_OK, &error);
    CHECK(pst_comm_info(c, 0, &info) && info.pid == (uint64_t)getpid());
    CHECK_STR(info.host, "untouched");
    info.size = 0;
    CHECK(!pst_comm_info(c, 0, &info));
    c = pst_comm_close(c);
    smaller.size = 0;
    CHECK_INT(pst_comm_open(&c, &smaller, &error), PST_EINVAL);
    setenv("PMI_RANK", "1", 1);
    setenv("PMI_SIZE", "3", 1);
    CHECK(pst_launch_find(&launch) && launch.rank == 1 && launch.ranks == 3);
    CHECK_STR(launch.launcher, "untouched");
    launch.size = 0;
    CHECK(!pst_launch_find(&launch));
    unsetenv("PMI_RANK");
    unsetenv("PMI_SIZE");
}

static void test_gathers(void)
{
    for (unsigned ranks = 1; ranks <= 5; ranks++)
        check_all(ranks, gather_all, NULL);
}

/* Rank 1 stops; the others must get an error that names it. */
static bool stop_one(pst_comm *c, void *user)
{
    pst_error error = {0};
    char name[64];
    (void)user;
    pst_comm_barrier(c, NULL);
    if (pst_comm_rank(c) == 1)
        raise(SIGSTOP);
    uint64_t steps = 0;
    while (pst_comm_barrier(c, &error) == PST_OK && steps++ < 1000000)
        ;
    if (pst_comm_rank(c) != 2)
        return true; /* ended by the end of rank 2, or by itself */
    pst_rank_info info = {.size = sizeof(info)};
    pst_comm_info(c, 1, &info);
    snprintf(name, sizeof(name), "rank 1 (process %llu on ", (unsigned long long)info.pid);
    if (!strstr(error.message, name))
        printf("# %s\n", error.message);
    return strstr(error.message, name) && strstr(error.message, "has not answered");
}

static void test_stopped(void)
{
    int codes[MOST_RANKS];
    run_forked(3, 5, stop_one, NULL, codes);
    CHECK_INT(codes[2], 0);
    CHECK_INT(codes[0], 0);
    CHECK_INT(codes[1], 99);
}

static bool kill_one(pst_comm *c, void *user)
{
    pst_error error = {0};
    (void)user;
    pst_comm_barrier(c, NULL);
    if (pst_comm_rank(c) == 1)
        raise(SIGKILL);
    while (pst_comm_barrier(c, &error) == PST_OK)
        ;
    return error.status == PST_EIO;
}

static void test_killed(void)
{
    int codes[MOST_RANKS];
    run_forked(3, 30, kill_one, NULL, codes);
    CHECK_INT(codes[0], 0);
    CHECK_INT(codes[1], 99);
    CHECK_INT(codes[2], 0);
}

static void test_launch(void)
{
    static const char *const all[] = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE", "PMIX_RANK", "SLURM_PROCID",
                                      "SLURM_STEP_NUM_TASKS"};
    pst_launch l = {.size = sizeof(l)};
    pst_error error;
    pst_comm *c = NULL;
    for (size_t i = 0; i < 7; i++)
        unsetenv(all[i]);
    CHECK(!pst_launch_find(&l));
    REQUIRE_OK(pst_comm_open(&c, NULL, &error), &error);
    CHECK_INT(pst_comm_size(c), 1);
    CHECK(pst_comm_close(c) == NULL);
    setenv("SLURM_PROCID", "1", 1);
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    CHECK(pst_launch_find(&l) && l.rank == 1 && l.ranks == 4 && !*l.mpi);
    CHECK_STATUS(pst_comm_open(&c, NULL, &error), PST_EUNSUPPORTED, &error);
    CHECK(strstr(error.message, "--mpi=pmix") != NULL);
    setenv("PMIX_RANK", "2", 1);
    CHECK(pst_launch_find(&l) && l.rank == 2 && strcmp(l.mpi, "openmpi") == 0);
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    CHECK(pst_launch_find(&l) && l.rank == 0 && l.ranks == 2);
    pst_comm_options o = {.size = sizeof(o), .plugin = test_folder()};
    CHECK_STATUS(pst_comm_open(&c, &o, &error), PST_EUNSUPPORTED, &error);
    CHECK(strstr(error.message, "penstock-mpi-openmpi.so") && strstr(error.message, "libopenmpi-dev"));
    for (size_t i = 0; i < 7; i++)
        unsetenv(all[i]);
    setenv("PMI_RANK", "3", 1);
    setenv("PMI_SIZE", "3", 1);
    CHECK(!pst_launch_find(&l)); /* there is no such rank */
    setenv("PMI_SIZE", "4", 1);
    CHECK(pst_launch_find(&l) && strcmp(l.mpi, "mpich") == 0);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"order of sums", test_order}, {"sums", test_sums},     {"float16", test_halves}, {"gathers and broadcasts", test_gathers},
                                        {"messages in pieces", test_pieces},
                                        {"sizes of structs", test_sizes},
        {"stopped rank", test_stopped}, {"killed rank", test_killed}, {"launchers", test_launch}, {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
