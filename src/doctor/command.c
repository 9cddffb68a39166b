/* command.c: the command line that repeats an examination, as a shell reads it. Options that only change what is shown are left
 * out. */
#include "doctor/doctor.h"

#include "base/digits.h"
#include "base/memory.h"

#include <string.h>

static void add_word(struct text *t, const char *option, const char *value)
{
    if (value && value[0]) {
        text_addf(t, " %s ", option);
        text_add_shell(t, value);
    }
}

static void add_count(struct text *t, const char *option, uint64_t value, uint64_t usual)
{
    if (value != usual)
        text_addf(t, " %s %llu", option, (unsigned long long)value);
}

static void add_number(struct text *t, const char *option, double value)
{
    char digits[DIGITS_SIZE];
    if (value > 0)
        text_addf(t, " %s %s", option, digits_shortest(value, 6, digits));
}

/* As `penstock doctor` names them. */
static void add_pipeline(struct text *t, const pst_pipeline_options *o, const char *const *words)
{
    static const char *const uneven[] = {NULL, "drop", "allow"};
    add_count(t, "--workers", o->workers, 0);
    add_count(t, "--prefetch", o->prefetch, 0);
    add_count(t, "--ram", o->ram, 0);
    add_count(t, "--seed", o->seed, 0);
    if (o->world > 1) {
        text_addf(t, " --rank %u --world %u", o->rank, o->world);
        add_count(t, "--hosts", o->hosts ? o->hosts : 1, 1);
        add_word(t, "--uneven", (size_t)o->uneven < sizeof(uneven) / sizeof(uneven[0]) ? uneven[o->uneven] : NULL);
    }
    add_word(t, "--bad", o->bad && strcmp(o->bad, "error") != 0 ? o->bad : NULL);
    if (o->no_fuse)
        text_add(t, " --no-fuse");
    if (o->no_verify)
        text_add(t, " --no-verify");
    for (; words && *words; words++) {
        text_add(t, " ");
        text_add_shell(t, *words);
    }
}

static void add_examination(struct text *t, const pst_doctor_options *o)
{
    add_number(t, "--step-ms", o->step_ms);
    add_number(t, "--step-rate", o->step_rate);
    add_word(t, "--model", o->model);
    add_count(t, "--epochs", o->epochs, 0);
    add_count(t, "--samples", o->samples, 0);
    add_count(t, "--memory", o->memory, 0);
    if (o->seconds > 0)
        add_number(t, "--seconds", o->seconds);
    else if (o->quick)
        text_add(t, " --quick");
}

char *doctor_command(const struct pst_doctor *d, const char *rest)
{
    struct text t = {0};
    text_add(&t, "penstock doctor ");
    text_add_shell(&t, d->written ? d->subject : d->text);
    add_pipeline(&t, &d->now.options, d->options.command_words);
    add_examination(&t, &d->options);
    text_add(&t, rest);
    if (t.failed)
        text_finish(&t);
    return t.data;
}

char *doctor_train_command(const struct pst_doctor *d, const char *model, bool ranks, const char *rest)
{
    struct text t = {0};
    pst_pipeline_options options = d->now.options;
    if (ranks)
        options.world = 0; /* each process learns its own from what starts it */
    text_add(&t, "penstock train ");
    text_add_shell(&t, d->text);
    add_pipeline(&t, &options, d->options.command_words);
    add_word(&t, "--model", model);
    text_add(&t, rest);
    if (t.failed)
        text_finish(&t);
    return t.data;
}
