/* bench_report.c: the result of a run in words and as JSON: differences of the totals at its two ends. */
#include "cli/bench.h"
#include "base/secret.h"
#include "cli/json.h"
#include "cli/say.h"
#include "cli/utf8.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#define PLACES_SHOWN 10
#define IN_PLACE     1e12 /* bytes a second: no memory is that fast, so nothing was copied */

/* ---- Figures ---- */

static double part(double value, double of)
{
    return of > 0 ? value / of : 0;
}

static double measured_seconds(const struct bench_result *r)
{
    return r->finish.time - r->begin.time;
}

double bench_waited(const struct bench_result *r)
{
    uint64_t ns = r->finish.stats.consumer_wait_ns - r->begin.stats.consumer_wait_ns;

    return fmin(part(1e-9 * (double)ns, measured_seconds(r)), 1);
}

const char *bench_verdict(double waited)
{
    return waited < 0.05 ? "consumer-bound" : waited <= 0.2 ? "balanced" : "input-bound";
}

static double workers_busy(const struct bench_result *r)
{
    uint64_t ns = r->finish.stats.worker_busy_ns - r->begin.stats.worker_busy_ns;

    return fmin(part(1e-9 * (double)ns, measured_seconds(r) * r->finish.stats.workers), 1);
}

struct rates {
    uint64_t samples, batches;                    /* measured */
    double samples_s, batches_s, bytes_s, read_s; /* per second */
};

static struct rates rates_of(const struct bench_result *r)
{
    const pst_stats *a = &r->begin.stats, *b = &r->finish.stats;
    double seconds = measured_seconds(r);

    return (struct rates){.samples = b->samples - a->samples,
                          .batches = b->batches - a->batches,
                          .samples_s = part((double)(b->samples - a->samples), seconds),
                          .batches_s = part((double)(b->batches - a->batches), seconds),
                          .bytes_s = part((double)(b->bytes - a->bytes), seconds),
                          .read_s = part((double)(b->read_bytes - a->read_bytes), seconds)};
}

struct stage {
    const char *name;
    double share, us_sample, bytes_s; /* share of the workers' time; µs per sample; rate while the stage runs */
    double seconds;
    uint64_t calls, bytes;
};

static struct stage stage_of(const struct bench_result *r, size_t i)
{
    const pst_stats *a = &r->begin.stats, *b = &r->finish.stats;
    struct stage s = {.name = b->stage[i].name, .calls = b->stage[i].calls, .bytes = b->stage[i].bytes};
    double all = 0;

    for (size_t k = 0; k < b->stages; k++)
        all += (double)b->stage[k].ns - (k < a->stages ? (double)a->stage[k].ns : 0);
    s.seconds = 1e-9 * (double)b->stage[i].ns;
    if (i < a->stages) {
        s.seconds -= 1e-9 * (double)a->stage[i].ns;
        s.calls -= a->stage[i].calls;
        s.bytes -= a->stage[i].bytes;
    }
    s.share = part(s.seconds, 1e-9 * all);
    s.us_sample = part(1e6 * s.seconds, (double)s.calls);
    s.bytes_s = part((double)s.bytes, s.seconds);
    return s;
}

/* ---- In words ---- */

/* 1,234 and 12.3 */
static char *amount_rate(char buffer[AMOUNT_SIZE], double rate)
{
    if (rate < 99.95)
        snprintf(buffer, AMOUNT_SIZE, "%.1f", rate);
    else
        amount_count(buffer, (uint64_t)(rate + 0.5));
    return buffer;
}

static char *amount_short_time(char buffer[AMOUNT_SIZE], double seconds)
{
    if (seconds < 0.9995)
        snprintf(buffer, AMOUNT_SIZE, "%.*f ms", seconds < 0.00995 ? 1 : 0, 1e3 * seconds);
    else
        amount_time(buffer, seconds);
    return buffer;
}

static void put_rates(const struct bench_result *r)
{
    struct rates rates = rates_of(r);
    char a[AMOUNT_SIZE], b[AMOUNT_SIZE], c[AMOUNT_SIZE], d[AMOUNT_SIZE];

    put_heading("Rate");
    printf("%s samples/s, %s batches/s; %s/s delivered, %s/s read\n", amount_rate(a, rates.samples_s),
           amount_rate(b, rates.batches_s), amount_bytes(c, rates.bytes_s), amount_bytes(d, rates.read_s));
}

static void put_run(const struct bench_result *r)
{
    const pst_stats *s = &r->finish.stats;
    char a[AMOUNT_SIZE], b[AMOUNT_SIZE], c[AMOUNT_SIZE], d[AMOUNT_SIZE];

    put_heading("Run");
    printf("%s %s in %s %s, %s; ", amount_count(a, s->samples), plural(s->samples, "sample", "samples"),
           amount_count(b, s->batches), plural(s->batches, "batch", "batches"),
           amount_short_time(c, r->finish.time - r->start.time));
    if (r->end == BENCH_INTERRUPTED)
        fputs("interrupted; ", stdout);
    else if (r->epochs)
        printf("%s whole %s; ", amount_count(d, r->epochs), plural(r->epochs, "epoch", "epochs"));
    printf("first batch after %s\n", amount_short_time(a, r->first_batch));
}

static void put_stages(const struct bench_result *r)
{
    size_t names = 5;
    char a[AMOUNT_SIZE];

    for (size_t i = 0; i < r->finish.stats.stages; i++) {
        size_t columns = strlen(r->finish.stats.stage[i].name);

        names = columns > names ? columns : names;
    }
    put_heading("Stages");
    printf("%-*s  share    µs/sample       MB/s\n", (int)names, "");
    for (size_t i = 0; i < r->finish.stats.stages; i++) {
        struct stage s = stage_of(r, i);

        printf("%*s%-*s  %4.0f%%  %11.2f  %9s\n", INDENT, "", (int)names, s.name, 100 * s.share, s.us_sample,
               s.bytes && s.bytes_s < IN_PLACE ? amount_rate(a, 1e-6 * s.bytes_s) : "-");
    }
}

static void put_occupancy(const struct bench_result *r, bool verbose)
{
    const pst_stats *s = &r->finish.stats;

    put_heading("Workers");
    printf("%u, busy %.0f%% of the time\n", s->workers, 100 * workers_busy(r));
    if (verbose)
        printf("%*s%s\n", INDENT, "", s->workers_reason);
    put_heading("Prefetch");
    printf("%u; %.1f batches ready on average\n", s->prefetch, s->ready_mean);
    if (verbose)
        printf("%*s%s\n", INDENT, "", s->prefetch_reason);
    put_heading("Consumer");
    if (r->step > 0)
        printf("busy for %.4g ms per batch, waited %.1f%% of the time: %s\n", 1e3 * r->step, 100 * bench_waited(r),
               bench_verdict(bench_waited(r)));
    else
        printf("takes batches as fast as possible, waited %.0f%% of the time; --simulate-step simulates a slower one\n",
               100 * bench_waited(r));
}

static void put_memory(const struct bench_result *r)
{
    char a[AMOUNT_SIZE], b[AMOUNT_SIZE], c[AMOUNT_SIZE];

    put_heading("Memory");
    printf("%s planned, %s used; the process at most %s, mapped files included\n",
           amount_bytes(a, (double)r->finish.stats.ram_planned), amount_bytes(b, (double)r->finish.stats.ram_used),
           amount_bytes(c, (double)r->peak_rss));
}

static void put_places(const pst_damage_log *log)
{
    size_t count = pst_damage_log_places(log);

    for (size_t i = 0; i < count && i < PLACES_SHOWN; i++) {
        pst_damage d = pst_damage_log_place(log, i);

        printf("%*s", INDENT, "");
        put_clean_string(stdout, d.path);
        if (d.record != PST_NOWHERE)
            printf(", record %llu", (unsigned long long)d.record);
        printf(": %s\n", pst_cause_name(d.cause));
    }
    if (count > PLACES_SHOWN)
        printf("%*s… and %zu more\n", INDENT, "", count - PLACES_SHOWN);
}

static void put_damage(const struct bench_result *r, bool verbose)
{
    uint64_t damaged = pst_damage_log_total(r->damage), records = pst_damage_log_records(r->damage);
    uint64_t skipped = r->finish.stats.skipped;
    char count[AMOUNT_SIZE], of[AMOUNT_SIZE];
    const char *comma = ": ";

    if (!damaged)
        return;
    put_heading("Skipped");
    printf("%s of %s %s", amount_count(count, damaged), amount_count(of, records), plural(records, "record", "records"));
    for (int cause = 0; cause < PST_CAUSES; cause++) {
        uint64_t n = pst_damage_log_count(r->damage, (pst_cause)cause);

        if (n)
            printf("%s%s %s", comma, amount_count(count, n), pst_cause_name((pst_cause)cause));
        comma = n ? ", " : comma;
    }
    if (skipped > damaged) /* the next epoch reads them again */
        printf("; %s samples were left out in total", amount_count(count, skipped));
    putchar('\n');
    if (verbose)
        put_places(r->damage);
}

/* Reports JPEGs decoded with an entropy index; prints nothing if there are none. */
static void put_entropy(const pst_stats *s)
{
    char count[AMOUNT_SIZE];
    const char *between = "";

    if (!s->entropy_stored && !s->entropy_made && !s->entropy_stale)
        return;
    put_heading("Entropy");
    if (s->entropy_stored) {
        printf("indexes of %s images were read from the sidecars", amount_count(count, s->entropy_stored));
        between = ", ";
    }
    if (s->entropy_made) {
        printf("%sindexes of %s images were collected in memory", between, amount_count(count, s->entropy_made));
        between = ", ";
    }
    if (s->entropy_stale)
        printf("%s%s %s damaged or of other data, and not used", between, amount_count(count, s->entropy_stale),
               plural(s->entropy_stale, "was", "were"));
    putchar('\n');
}

void put_bench(const struct bench_result *r, bool verbose)
{
    if (r->first_batch < 0) {
        printf("no batch was delivered%s\n",
               r->end == BENCH_INTERRUPTED ? " before the interruption" : ": the pipeline is empty");
        put_damage(r, verbose);
        return;
    }
    put_rates(r);
    put_run(r);
    put_stages(r);
    put_occupancy(r, verbose);
    put_memory(r);
    put_entropy(&r->finish.stats);
    if (r->finish.stats.cache_hits) {
        char hits[AMOUNT_SIZE];

        put_heading("Cache");
        printf("%s elements were read from it\n", amount_count(hits, r->finish.stats.cache_hits));
    }
    put_damage(r, verbose);
    if (r->end == BENCH_EPOCHS && measured_seconds(r) < 1)
        puts("this run is too short for a reliable result; --seconds 10 repeats the data for 10 seconds");
}

/* ---- As JSON ---- */

static void json_stages(struct json *j, const struct bench_result *r)
{
    json_begin_array(j, "stages");
    for (size_t i = 0; i < r->finish.stats.stages; i++) {
        struct stage s = stage_of(r, i);

        json_begin_object(j, NULL);
        json_string(j, "name", s.name);
        json_number(j, "share", s.share);
        json_number(j, "us_per_sample", s.us_sample);
        json_number(j, "bytes_per_second", s.bytes_s);
        json_number(j, "seconds", s.seconds);
        json_uint(j, "calls", s.calls);
        json_uint(j, "bytes", s.bytes);
        json_end_object(j);
    }
    json_end_array(j);
}

static void json_consumer(struct json *j, const struct bench_result *r)
{
    json_begin_object(j, "consumer");
    json_number(j, "step_ms", 1e3 * r->step);
    json_number(j, "waited", bench_waited(r));
    json_number(j, "ready_mean", r->finish.stats.ready_mean);
    json_string(j, "verdict", r->step > 0 ? bench_verdict(bench_waited(r)) : NULL);
    json_end_object(j);
}

static void json_choice(struct json *j, const char *key, unsigned count, const char *reason)
{
    json_begin_object(j, key);
    json_uint(j, "count", count);
    json_string(j, "reason", reason);
    json_end_object(j);
}

static void json_damage(struct json *j, const struct bench_result *r)
{
    json_uint(j, "skipped", r->finish.stats.skipped);
    json_uint(j, "records", pst_damage_log_records(r->damage));
    json_begin_object(j, "damage");
    for (int cause = 0; cause < PST_CAUSES; cause++) {
        uint64_t n = pst_damage_log_count(r->damage, (pst_cause)cause);

        if (n)
            json_uint(j, pst_cause_name((pst_cause)cause), n);
    }
    json_end_object(j);
}

void put_bench_json(const struct bench_result *r)
{
    static const char *const ends[] = {"epochs", "seconds", "interrupted"};
    const pst_stats *s = &r->finish.stats;
    struct rates rates = rates_of(r);
    struct json j = json_to(stdout);

    json_begin_object(&j, NULL);
    json_string(&j, "command", "bench");
    json_shown(&j, "pipeline", r->pipeline);
    json_uint(&j, "samples", s->samples);
    json_uint(&j, "batches", s->batches);
    json_uint(&j, "bytes", s->bytes);
    json_uint(&j, "read_bytes", s->read_bytes);
    json_uint(&j, "cache_hits", s->cache_hits);
    json_uint(&j, "entropy_stored", s->entropy_stored);
    json_uint(&j, "entropy_made", s->entropy_made);
    json_uint(&j, "entropy_stale", s->entropy_stale);
    json_uint(&j, "epochs", r->epochs);
    json_number(&j, "seconds", r->finish.time - r->start.time);
    json_string(&j, "ended_by", ends[r->end]);
    json_number(&j, "first_batch_seconds", r->first_batch < 0 ? NAN : r->first_batch);
    json_begin_object(&j, "measured");
    json_uint(&j, "warmup_batches", r->warmup);
    json_uint(&j, "samples", rates.samples);
    json_uint(&j, "batches", rates.batches);
    json_number(&j, "seconds", measured_seconds(r));
    json_number(&j, "samples_per_second", rates.samples_s);
    json_number(&j, "batches_per_second", rates.batches_s);
    json_number(&j, "bytes_per_second", rates.bytes_s);
    json_number(&j, "read_bytes_per_second", rates.read_s);
    json_end_object(&j);
    json_stages(&j, r);
    json_choice(&j, "workers", s->workers, s->workers_reason);
    json_number(&j, "workers_busy", workers_busy(r));
    json_choice(&j, "prefetch", s->prefetch, s->prefetch_reason);
    json_consumer(&j, r);
    json_begin_object(&j, "memory");
    json_uint(&j, "planned", s->ram_planned);
    json_uint(&j, "used", s->ram_used);
    json_uint(&j, "peak_rss", r->peak_rss);
    json_end_object(&j);
    json_damage(&j, r);
    json_end_object(&j);
    putchar('\n');
}
