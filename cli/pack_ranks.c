/* pack_ranks.c: see pack_ranks.h. */
#include "cli/pack_ranks.h"
#include "cli/clock.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SIGN_SIZE 128

/* Seconds without a change after which a rank counts as lost. */
static double patience(void)
{
    const char *given = getenv("PENSTOCK_RANK_TIMEOUT");
    double seconds = given ? atof(given) : 0;

    return seconds > 0 ? seconds : 30;
}

/* A hidden file in OUT: where parts can be written, signs of life can. */
static void sign_path(char *path, size_t size, const char *out, uint32_t rank, uint32_t ranks)
{
    snprintf(path, size, "%s/.rank-%" PRIu32 "-of-%" PRIu32, out, rank, ranks);
}

/* Creates OUT and the folders that it lies in; a failure shows where it is written to. */
static void make_folders(const char *out)
{
    char path[4200];

    snprintf(path, sizeof(path), "%s", out);
    for (char *c = path + 1; *c; c++)
        if (*c == '/') {
            *c = 0;
            (void)mkdir(path, 0777);
            *c = '/';
        }
    (void)mkdir(path, 0777);
}

static void write_sign(const struct life_sign *l, const char *state, unsigned count)
{
    char host[64] = "";
    FILE *f = fopen(l->path, "w");

    if (!f)
        return;
    gethostname(host, sizeof(host) - 1);
    fprintf(f, "%s process %ld on %s %u\n", state, (long)getpid(), host, count);
    fclose(f);
}

static void *beat(void *user)
{
    struct life_sign *l = user;
    unsigned count = 0;

    pthread_mutex_lock(&l->lock);
    while (!l->stop) {
        struct timespec until;

        pthread_mutex_unlock(&l->lock);
        write_sign(l, "packing", count++);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        pthread_mutex_lock(&l->lock);
        if (!l->stop)
            pthread_cond_timedwait(&l->changed, &l->lock, &until);
    }
    pthread_mutex_unlock(&l->lock);
    if (l->failed)
        write_sign(l, "failed", count);
    else
        unlink(l->path);
    return NULL;
}

void life_sign_start(struct life_sign *l, const char *out, uint32_t rank, uint32_t ranks)
{
    memset(l, 0, sizeof(*l));
    sign_path(l->path, sizeof(l->path), out, rank, ranks);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    if (!strstr(out, "://"))
        make_folders(out);
    l->running = !strstr(out, "://") && pthread_create(&l->thread, NULL, beat, l) == 0;
}

void life_sign_stop(struct life_sign *l, bool failed)
{
    if (l->running) {
        pthread_mutex_lock(&l->lock);
        l->stop = true;
        l->failed = failed;
        pthread_cond_signal(&l->changed);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
}

static void read_sign(const char *path, char sign[SIGN_SIZE])
{
    FILE *f = fopen(path, "r");

    sign[0] = 0;
    if (!f)
        return;
    if (!fgets(sign, SIGN_SIZE, f))
        sign[0] = 0;
    fclose(f);
    sign[strcspn(sign, "\n")] = 0;
}

void clear_failures(const char *out, uint32_t ranks)
{
    for (uint32_t r = 0; r < ranks; r++) {
        char path[4200], sign[SIGN_SIZE];

        sign_path(path, sizeof(path), out, r, ranks);
        read_sign(path, sign);
        if (strncmp(sign, "failed", 6) == 0)
            unlink(path);
    }
}

/* "rank 3 (process 4711 on node-2)". */
static const char *name_rank(uint32_t rank, const char *sign, char *text, size_t size)
{
    char word[16], host[80];
    long pid;

    if (sscanf(sign, "%15s process %ld on %79s", word, &pid, host) == 3)
        snprintf(text, size, "rank %" PRIu32 " (process %ld on %s)", rank, pid, host);
    else
        snprintf(text, size, "rank %" PRIu32, rank);
    return text;
}

static pst_status wait_for_part(const char *out, uint32_t rank, uint32_t ranks, struct progress *progress, pst_error *error)
{
    char path[4200], part[4200], last[SIGN_SIZE] = "", name[160];
    double changed = now_seconds();
    struct stat info;

    sign_path(path, sizeof(path), out, rank, ranks);
    snprintf(part, sizeof(part), "%s/part-%05" PRIu32 "-of-%05" PRIu32 "/pack.json", out, rank + 1, ranks);
    while (stat(part, &info) < 0) {
        char sign[SIGN_SIZE];

        read_sign(path, sign);
        if (strncmp(sign, "failed", 6) == 0)
            return pst_fail(error, PST_EIO, "%s has failed; run the same command again when its cause is mended", name_rank(rank, sign, name, sizeof(name)));
        if (strcmp(sign, last) != 0) {
            memcpy(last, sign, sizeof(last));
            changed = now_seconds();
        }
        if (now_seconds() - changed > patience() * (last[0] ? 1 : 2))
            return pst_fail(error, PST_EIO, "%s gives no sign of life for %.0f s: it is stopped, was killed or has not begun; run the same command again, it "
                                            "resumes", name_rank(rank, last, name, sizeof(name)), now_seconds() - changed);
        if (progress_report(progress, &(pst_progress){.stage = "waiting for parts", .done = rank, .total = ranks}))
            return pst_fail(error, PST_ECANCELLED, "interrupted");
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    return PST_OK;
}

pst_status wait_for_parts(const char *out, uint32_t ranks, struct progress *progress, pst_error *error)
{
    pst_status status = PST_OK;

    for (uint32_t r = 0; r < ranks && status == PST_OK; r++)
        status = wait_for_part(out, r, ranks, progress, error);
    return status;
}
