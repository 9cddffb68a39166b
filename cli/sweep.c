/* sweep.c: see sweep.h. Every run is a command of its own, `penstock train … --NAME VALUE --out OUT/NAME=VALUE`, recorded as such: it
 * can be resumed alone, and a sweep continues by continuing each of its runs. */
#include "cli/sweep.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/say.h"
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_AXES = 4, MOST_VALUES = 32, MOST_RUNS = 256 };

struct axis {
    char name[32];
    char *text; /* the values, cut by NULs */
    const char *value[MOST_VALUES];
    size_t count;
};

struct plan {
    struct axis axis[MOST_AXES];
    size_t axes, runs;
};

struct outcome {
    char folder[PATH_MAX], label[256];
    pst_run_result result;
};

static void plan_finish(struct plan *p)
{
    for (size_t i = 0; i < p->axes; i++)
        free(p->axis[i].text);
}

/* "lr=0.1,0.01" */
static int read_axis(struct plan *p, const char *text)
{
    const char *equals = strchr(text, '=');
    struct axis *a = &p->axis[p->axes];

    if (p->axes == MOST_AXES)
        return say_usage(&command_train, "--sweep: more than %d options", MOST_AXES);
    if (!equals || equals == text || (size_t)(equals - text) >= sizeof(a->name) || !equals[1])
        return say_usage(&command_train, "--sweep %s: expected NAME=A,B with the name of an option, such as lr=0.1,0.01", text);
    memcpy(a->name, text, (size_t)(equals - text));
    if (strcmp(a->name, "out") == 0 || strcmp(a->name, "resume") == 0 || strcmp(a->name, "sweep") == 0)
        return say_usage(&command_train, "--sweep: --%s cannot vary", a->name);
    a->text = strdup(equals + 1);
    p->axes++;
    for (char *s = a->text; s;) {
        char *comma = strchr(s, ',');

        if (a->count == MOST_VALUES)
            return say_usage(&command_train, "--sweep %s: more than %d values", a->name, MOST_VALUES);
        if (comma)
            *comma = '\0';
        a->value[a->count++] = s;
        s = comma ? comma + 1 : NULL;
    }
    p->runs *= a->count;
    return p->runs <= MOST_RUNS ? EXIT_DONE : say_usage(&command_train, "--sweep: more than %d runs", MOST_RUNS);
}

static bool is_option(const char *word, const char *name)
{
    size_t n = strlen(name);

    return strncmp(word, name, n) == 0 && (word[n] == '\0' || word[n] == '=');
}

/* The command of run `number`: the user's without --sweep and --out. `room` has space for all words; returns their number. */
static size_t make_command(const struct plan *p, size_t number, const char **room, char values[MOST_AXES][PATH_MAX], struct outcome *o,
                           const char *out)
{
    size_t count = 0, used = 0;

    for (size_t i = 0; i < command_arguments.count; i++) {
        const char *word = command_arguments.items[i];

        if (is_option(word, "--sweep") || is_option(word, "--out") || strcmp(word, "-o") == 0)
            i += strchr(word, '=') == NULL;
        else if (strncmp(word, "-o", 2) != 0 || word[2] == '-')
            room[count++] = word;
    }
    o->label[0] = '\0';
    for (size_t k = 0; k < p->axes; k++) {
        const struct axis *a = &p->axis[k];
        const char *value = a->value[number % a->count];

        number /= a->count;
        snprintf(values[k], PATH_MAX, "--%s=%s", a->name, value);
        room[count++] = values[k];
        used += (size_t)snprintf(o->label + used, sizeof(o->label) - used, "%s%s=%s", k ? "," : "", a->name, value);
        used = used < sizeof(o->label) ? used : sizeof(o->label) - 1;
    }
    for (char *s = o->label; *s; s++) /* the label is a folder's name */
        *s = *s == '/' ? '_' : *s;
    snprintf(o->folder, sizeof(o->folder), "%s/%.255s", out, o->label);
    room[count++] = "--out";
    room[count++] = o->folder;
    return count;
}

/* Every value is checked before the first run begins. */
static int check_one(struct option_list command)
{
    struct parsed parsed = {0};
    int code = options_parse(&parsed, &command_train, (int)command.count, (char **)(uintptr_t)command.items);

    options_finish(&parsed, &command_train);
    return code;
}

static int run_one(const struct train_config *c, struct option_list command, struct outcome *o)
{
    struct parsed parsed = {0};
    char latest[PATH_MAX + 8];
    pst_run_record *earlier = NULL;
    int code = options_parse(&parsed, &command_train, (int)command.count, (char **)(uintptr_t)command.items);

    o->result.size = sizeof(o->result);
    if (code == EXIT_DONE) {
        struct train_config *one = parsed.config;

        snprintf(latest, sizeof(latest), "%s/latest", o->folder);
        if (!c->quiet && !c->json)
            printf("%s\n", o->label);
        if (access(latest, F_OK) == 0 || (strstr(o->folder, "://") && pst_run_record_read(&earlier, o->folder, "latest", NULL) == PST_OK))
            code = train_again(one, o->folder, NULL, 0, &o->result);
        else
            code = train_once(one, parsed.operands, parsed.count, command, &o->result);
    }
    pst_run_record_destroy(earlier);
    options_finish(&parsed, &command_train);
    return code;
}

static void put_outcomes(const struct train_config *c, const struct outcome *o, size_t count)
{
    size_t best = 0;
    struct json j = json_to(stdout);

    for (size_t i = 1; i < count; i++) {
        bool more = c->monitor == PST_MONITOR_ACCURACY || c->monitor == PST_MONITOR_VAL_ACCURACY || c->monitor == PST_MONITOR_VAL_AUC ||
                    c->monitor == PST_MONITOR_VAL_F1 || c->monitor == PST_MONITOR_VAL_R2;
        double x = o[i].result.best_loss, y = o[best].result.best_loss;

        if (more ? x > y : x < y)
            best = i;
    }
    if (c->json) {
        json_begin_object(&j, NULL);
        json_string(&j, "command", "sweep");
        json_begin_array(&j, "runs");
        for (size_t i = 0; i < count; i++) {
            json_begin_object(&j, NULL);
            json_string(&j, "values", o[i].label);
            json_string(&j, "out", o[i].folder);
            json_number(&j, "best_value", o[i].result.best_loss);
            json_uint(&j, "best_step", o[i].result.best_step);
            json_end_object(&j);
        }
        json_end_array(&j);
        json_string(&j, "best", o[best].label);
        json_end_object(&j);
        putchar('\n');
        return;
    }
    printf("\n%-40s %12s %10s\n", "run", "best value", "at step");
    for (size_t i = 0; i < count; i++)
        printf("%-40s %12.5g %10" PRIu64 "%s\n", o[i].label, o[i].result.best_loss, o[i].result.best_step, i == best ? "  best" : "");
}

static int run_all(const struct train_config *c, const struct plan *p)
{
    struct outcome *o = calloc(p->runs, sizeof(*o));
    const char **words = calloc(command_arguments.count + MOST_AXES + 4, sizeof(*words));
    char(*values)[PATH_MAX] = calloc(MOST_AXES, PATH_MAX);
    int code = o && words && values ? EXIT_DONE : EXIT_FAILED;

    if (code != EXIT_DONE)
        say_error("out of memory");
    for (size_t i = 0; code == EXIT_DONE && i < p->runs; i++) {
        struct option_list command = {.items = words, .count = make_command(p, i, words, values, &o[i], c->out)};

        code = check_one(command);
    }
    for (size_t i = 0; code == EXIT_DONE && i < p->runs; i++) {
        struct option_list command = {.items = words, .count = make_command(p, i, words, values, &o[i], c->out)};

        code = interrupt_requested() ? interrupt_exit_code() : run_one(c, command, &o[i]);
    }
    if (code == EXIT_DONE && (!c->quiet || c->json))
        put_outcomes(c, o, p->runs);
    else if (interrupt_requested())
        say_note("the same command continues the sweep");
    free(o);
    free(words);
    free(values);
    return code;
}

int sweep(const struct train_config *c, const char *const *operands, size_t count)
{
    struct plan p = {.runs = 1};
    int code = EXIT_DONE;

    (void)operands;
    if (!c->out)
        return say_usage(&command_train, "--sweep needs --out, the folder for its runs");
    if (c->resume || count == 0)
        return say_usage(&command_train, "--sweep takes a pipeline; the same command continues it");
    for (size_t i = 0; code == EXIT_DONE && i < c->sweep.count; i++)
        code = read_axis(&p, c->sweep.items[i]);
    if (code == EXIT_DONE && !strstr(c->out, "://") && mkdir(c->out, 0777) < 0 && access(c->out, W_OK) < 0) {
        say_error("%s: the folder cannot be made or written to", c->out);
        code = EXIT_FAILED;
    }
    if (code == EXIT_DONE)
        code = run_all(c, &p);
    plan_finish(&p);
    return code;
}
