/* tuner.c: see tuner.h. Half as many connections are added as there are; those that do not bring a tenth more bytes are taken back, and then the number stays.
 *
 * The size of requests follows latency x bandwidth: a request of `latency * each` bytes waits as long as it transfers. The latency is the shortest of the last
 * requests: longer ones were queued at a server that is busy, which larger requests do not change. */
#include "io/remote/tuner.h"

#define WINDOW_NS UINT64_C(1000000000)
#define WORTH     1.1
#define SET       16u      /* requests */
#define WAITS     7.0      /* times its latency, a request transfers */
#define LEAST     (1 << 20) /* bytes of a request whose rate counts */

static void begin_window(struct tuner *t, uint64_t now, uint64_t bytes)
{
    t->began = now;
    t->bytes = bytes;
}

static void judge(struct tuner *t, double rate, unsigned most)
{
    if (t->now > TUNER_LEAST && rate < WORTH * t->rate) {
        t->now = t->before;
        t->settled = true;
        return;
    }
    t->rate = rate;
    t->before = t->now;
    t->now = t->now + t->now / 2 < most ? t->now + t->now / 2 : most;
    t->settled = t->now == t->before;
}

unsigned tuner_step(struct tuner *t, uint64_t now, uint64_t bytes, bool busy, unsigned most)
{
    t->now = t->now ? t->now : TUNER_LEAST;
    if (t->settled)
        return t->now;
    if (!busy) {
        t->began = 0;
    } else if (!t->began) {
        begin_window(t, now, bytes);
    } else if (now - t->began >= WINDOW_NS) {
        judge(t, (double)(bytes - t->bytes) * 1e9 / (double)(now - t->began), most);
        begin_window(t, now, bytes);
    }
    return t->now;
}

void tuner_note(struct tuner *t, double latency, double transfer, uint64_t bytes)
{
    if (t->seen >= SET) {
        t->last_least = t->least;
        t->seen = 0;
    }
    t->least = t->seen == 0 || latency < t->least ? latency : t->least;
    t->seen++;
    double each = transfer > 0 ? (double)bytes / transfer : 0;
    if (bytes >= LEAST && each > 0)
        t->each = t->each > 0 ? t->each + (each - t->each) / 8 : each;
}

uint64_t tuner_part(const struct tuner *t)
{
    double latency = t->last_least > 0 && t->last_least < t->least ? t->last_least : t->least;
    uint64_t part = TUNER_PART;
    while (part < TUNER_PART_MOST && (double)part < WAITS * latency * t->each)
        part *= 2;
    return part;
}

uint64_t tuner_part_within(uint64_t part, unsigned connections, uint64_t memory)
{
    while (part > TUNER_PART_LEAST && part * connections > memory / 2)
        part /= 2;
    return part;
}
