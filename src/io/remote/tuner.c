/* tuner.c: see tuner.h. Half as many connections are added as there are; those that do not bring a tenth more bytes are taken back, and then the number stays. */
#include "io/remote/tuner.h"

#define WINDOW_NS UINT64_C(1000000000)
#define WORTH     1.1

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
