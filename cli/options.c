/* options.c: reads an argument vector by a command's option table.
 *
 * Accepted: --name value, --name=value, -x value, -xvalue, flags in a bunch (-qf), "--" before operands that start with a
 * dash. Options and operands may be mixed. Names are never abbreviated: a script must not change its meaning when an option
 * is added. The last of several wins. */
#include "base/nearest.h"
#include "cli/options.h"
#include "cli/say.h"
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading one value ---- */

static bool is_bounded(const struct option *o)
{
    return o->min != 0 || o->max != 0;
}

/* Writes the accepted values: "jpeg, png", "1 to 100"; "" if there is no limit. */
static char *range_text(const struct option *o, char *buffer, size_t size)
{
    size_t used = 0;

    buffer[0] = '\0';
    if (o->kind == OPTION_CHOICE) {
        for (size_t i = 0; o->choices[i] && used < size; i++)
            used += (size_t)snprintf(buffer + used, size - used, "%s%s", i ? ", " : "", o->choices[i]);
    } else if (is_bounded(o) && o->max > o->min) {
        used = (size_t)snprintf(buffer, size, "%.15g to %.15g", o->min, o->max);
    } else if (is_bounded(o)) {
        used = (size_t)snprintf(buffer, size, "at least %.15g", o->min);
    }
    if (o->zero && used < size)
        snprintf(buffer + used, size - used, "%s%s", used ? ", or " : "", o->zero);
    return buffer;
}

char *option_text(const struct option *o, char *buffer, size_t size)
{
    char range[256];
    const char *initial = o->initial ? o->initial : o->absent;

    range_text(o, range, sizeof(range));
    snprintf(buffer, size, "%s%s%s%s%s%s%s%s", o->doc, range[0] || initial ? " (" : "", range, range[0] && initial ? "; " : "",
             initial ? "default: " : "", initial ? initial : "", range[0] || initial ? ")" : "",
             o->kind == OPTION_REPEATED ? "; may be given several times" : "");
    return buffer;
}

static bool in_bounds(const struct option *o, double value)
{
    return !is_bounded(o) || (value >= o->min && (o->max <= o->min || value <= o->max));
}

static bool read_int(const struct option *o, const char *text, int64_t *ret)
{
    char *end;

    errno = 0;
    *ret = strtoll(text, &end, 10);
    return end != text && !*end && errno == 0 && in_bounds(o, (double)*ret);
}

static bool read_uint(const struct option *o, const char *text, uint64_t *ret)
{
    char *end;

    if (o->zero && strcmp(text, o->zero) == 0) {
        *ret = 0;
        return true;
    }
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && !*end && errno == 0 && in_bounds(o, (double)*ret);
}

static bool read_float(const struct option *o, const char *text, double *ret)
{
    char *end;

    *ret = strtod(text, &end);
    return end != text && !*end && isfinite(*ret) && in_bounds(o, *ret);
}

static bool read_bytes(const struct option *o, const char *text, uint64_t *ret)
{
    static const char units[] = "kmgt";
    char *end;
    double value = strtod(text, &end);
    const char *unit;

    if (end == text || !isfinite(value) || value < 0)
        return false;
    unit = *end ? strchr(units, *end | 0x20) : NULL;
    if (unit) {
        value = ldexp(value, 10 * (int)(unit - units + 1));
        end += end[1] == 'i' ? 2 : 1;
    }
    if (*end == 'b' || *end == 'B')
        end++;
    if (*end || value >= 0x1p63 || !in_bounds(o, value))
        return false;
    *ret = (uint64_t)value;
    return true;
}

static bool read_choice(const struct option *o, const char *text, int *ret)
{
    for (int i = 0; o->choices[i]; i++) {
        if (strcmp(o->choices[i], text) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

/* `slots` is how many values a repeated option can have at most. */
static bool store(const struct option *o, void *config, const char *text, size_t slots)
{
    static const size_t widths[] = {[OPTION_FLAG] = sizeof(bool),     [OPTION_INT] = sizeof(int64_t),
                                    [OPTION_UINT] = sizeof(uint64_t), [OPTION_BYTES] = sizeof(uint64_t),
                                    [OPTION_FLOAT] = sizeof(double),  [OPTION_STRING] = sizeof(const char *),
                                    [OPTION_CHOICE] = sizeof(int),    [OPTION_REPEATED] = sizeof(struct option_list)};
    void *into = (char *)config + o->offset;
    struct option_list *list = into;

    assert(o->width == widths[o->kind]);
    switch (o->kind) {
    case OPTION_FLAG:
        *(bool *)into = text != NULL;
        return true;
    case OPTION_INT:
        return read_int(o, text, into);
    case OPTION_UINT:
        return read_uint(o, text, into);
    case OPTION_BYTES:
        return read_bytes(o, text, into);
    case OPTION_FLOAT:
        return read_float(o, text, into);
    case OPTION_STRING:
        *(const char **)into = text;
        return true;
    case OPTION_CHOICE:
        return read_choice(o, text, into);
    case OPTION_REPEATED:
        if (!list->items)
            list->items = calloc(slots, sizeof(*list->items));
        if (list->items)
            list->items[list->count++] = text;
        return list->items != NULL;
    }
    return false;
}

/* `name` is the option's, or "" for an operand. */
static int bad_value(const struct command *command, const struct option *o, const char *name, const char *text)
{
    static const char *const wanted[] = {[OPTION_INT] = "a whole number",
                                         [OPTION_UINT] = "a whole number, not negative",
                                         [OPTION_BYTES] = "a size such as 64M or 1.5GiB",
                                         [OPTION_FLOAT] = "a number"};
    char range[256], what[320];
    const char *nearest = NULL, *space = name[0] ? " " : "";

    range_text(o, range, sizeof(range));
    if (o->kind == OPTION_CHOICE) {
        nearest = text_nearest(text, o->choices);
        snprintf(what, sizeof(what), "one of %s", range);
    } else if (range[0] && o->kind != OPTION_BYTES) {
        snprintf(what, sizeof(what), "a %snumber, %s", o->kind == OPTION_FLOAT ? "" : "whole ", range);
    } else {
        snprintf(what, sizeof(what), "%s", wanted[o->kind]);
    }
    if (nearest)
        return say_usage(command, "%s%s%s: expected %s; did you mean %s?", name, space, text, what, nearest);
    return say_usage(command, "%s%s%s: expected %s", name, space, text, what);
}

/* ---- Finding an option ---- */

const struct option *option_at(const struct command *command, size_t i)
{
    const struct option *tables[] = {command->options, command->shared};

    for (size_t t = 0; t < 2; t++) {
        for (const struct option *o = tables[t]; o && o->name; o++) {
            if (i-- == 0)
                return o;
        }
    }
    return NULL;
}

/* The option called `name` (`n` bytes, with its dashes); `*ret_negated` when it is a flag's opposite. */
static const struct option *find_long(const struct command *command, const char *name, size_t n, bool *ret_negated)
{
    const struct option *o;

    for (size_t i = 0; (o = option_at(command, i)) != NULL; i++) {
        *ret_negated = false;
        if (strlen(o->name) == n && memcmp(o->name, name, n) == 0)
            return o;
        if (o->kind != OPTION_FLAG)
            continue;
        *ret_negated = true;
        if (strncmp(o->name, "--no-", 5) == 0 && strlen(o->name) == n + 3 && memcmp(o->name + 5, name + 2, n - 2) == 0)
            return o;
        if (n > 5 && memcmp(name, "--no-", 5) == 0 && strlen(o->name) == n - 3 && memcmp(o->name + 2, name + 5, n - 5) == 0)
            return o;
    }
    return NULL;
}

static const struct option *find_letter(const struct command *command, char letter)
{
    const struct option *o;

    for (size_t i = 0; (o = option_at(command, i)) != NULL; i++) {
        if (o->letter == letter)
            return o;
    }
    return NULL;
}

static int unknown_option(const struct command *command, const char *name, size_t n)
{
    const char *candidates[65], *nearest;
    const struct option *o;
    char word[64];
    size_t count = 0;

    while (count < 63 && (o = option_at(command, count)) != NULL)
        candidates[count++] = o->name;
    candidates[count++] = "--help";
    candidates[count] = NULL;
    snprintf(word, sizeof(word), "%.*s", (int)(n < sizeof(word) ? n : sizeof(word) - 1), name);
    nearest = text_nearest(word, candidates);
    if (nearest)
        return say_usage(command, "unknown option %s; did you mean %s?", word, nearest);
    return say_usage(command, "unknown option %s", word);
}

/* ---- The walk over argv ---- */

struct walk {
    const struct command *command;
    struct parsed *parsed;
    char **argv;
    int argc, at;
};

static int set(struct walk *w, const struct option *o, const char *text)
{
    if (!store(o, w->parsed->config, text, (size_t)w->argc))
        return bad_value(w->command, o, o->name, text);
    if (o->given)
        *(bool *)((char *)w->parsed->config + o->given) = true;
    for (size_t i = 0; option_at(w->command, i); i++)
        w->parsed->given[i] |= option_at(w->command, i) == o;
    return EXIT_DONE;
}

/* The value of an option that has none attached: the next argument. */
static int set_next(struct walk *w, const struct option *o)
{
    const char *next = w->at < w->argc ? w->argv[w->at] : NULL;
    bool number = o->kind != OPTION_STRING && o->kind != OPTION_CHOICE && o->kind != OPTION_REPEATED;

    if (!next)
        return say_usage(w->command, "%s needs a value: %s %s", o->name, o->name, o->metavar);
    if (next[0] == '-' && next[1] && !number && !(next[1] >= '0' && next[1] <= '9')) /* no option is a digit: -0.5% is a value */
        return say_usage(w->command, "%s needs a value; write a value that starts with a dash as %s=%s", o->name, o->name,
                         next);
    w->at++;
    return set(w, o, next);
}

static int parse_long(struct walk *w, const char *arg)
{
    size_t n = strcspn(arg, "=");
    bool negated, attached = arg[n] == '=';
    const struct option *o = find_long(w->command, arg, n, &negated);

    if (!o && strcmp(arg, "--help") == 0) {
        w->parsed->help = true;
        return EXIT_DONE;
    }
    if (!o)
        return unknown_option(w->command, arg, n);
    if (o->kind == OPTION_FLAG && attached)
        return say_usage(w->command, "%s takes no value", o->name);
    if (o->kind == OPTION_FLAG)
        return set(w, o, negated ? NULL : "");
    return attached ? set(w, o, arg + n + 1) : set_next(w, o);
}

static int parse_letters(struct walk *w, const char *arg)
{
    for (const char *letter = arg + 1; *letter && !w->parsed->help; letter++) {
        const struct option *o = find_letter(w->command, *letter);
        int code;

        if (!o && *letter == 'h') {
            w->parsed->help = true;
            return EXIT_DONE;
        }
        if (!o)
            return say_usage(w->command, "unknown option -%c; put \"--\" before an operand that starts with a dash", *letter);
        if (o->kind != OPTION_FLAG)
            return letter[1] ? set(w, o, letter + 1) : set_next(w, o);
        code = set(w, o, "");
        if (code)
            return code;
    }
    return EXIT_DONE;
}

static int check_operands(const struct command *command, const struct parsed *parsed)
{
    if (parsed->count < command->min_operands)
        return say_usage(command, "%s: penstock %s %s", parsed->count ? "an operand is missing" : "no operands", command->name,
                         command->usage);
    if (parsed->count > command->max_operands)
        return say_usage(command, "one operand too many: %s", parsed->operands[command->max_operands]);
    if (!command->operand_choices)
        return EXIT_DONE;
    for (size_t i = 0; i < parsed->count; i++) {
        const struct option as_option = {.kind = OPTION_CHOICE, .choices = command->operand_choices};
        int ignored;

        if (!read_choice(&as_option, parsed->operands[i], &ignored))
            return bad_value(command, &as_option, "", parsed->operands[i]);
    }
    return EXIT_DONE;
}

int options_parse(struct parsed *ret, const struct command *command, int argc, char **argv)
{
    struct walk w = {.command = command, .parsed = ret, .argv = argv, .argc = argc};
    const struct option *o;
    bool only_operands = false;
    int code = EXIT_DONE;
    size_t count = 0;

    memset(ret, 0, sizeof(*ret));
    ret->config = calloc(1, command->config_size ? command->config_size : 1);
    ret->operands = calloc((size_t)argc + 1, sizeof(*ret->operands));
    while (option_at(command, count))
        count++;
    ret->given = calloc(count + 1, sizeof(*ret->given));
    if (!ret->config || !ret->operands || !ret->given) {
        say_error("out of memory");
        return EXIT_FAILED;
    }
    for (size_t i = 0; (o = option_at(command, i)) != NULL; i++) {
        if (o->initial) {
            bool fits = store(o, ret->config, o->initial, 1);

            assert(fits); /* a default that its own option refuses is a mistake in the table */
            (void)fits;
        }
    }
    while (code == EXIT_DONE && !ret->help && w.at < argc) {
        const char *arg = argv[w.at++];

        if (only_operands || arg[0] != '-' || !arg[1])
            ret->operands[ret->count++] = arg;
        else if (strcmp(arg, "--") == 0)
            only_operands = true;
        else
            code = arg[1] == '-' ? parse_long(&w, arg) : parse_letters(&w, arg);
    }
    if (code == EXIT_DONE && !ret->help)
        code = check_operands(command, ret);
    return code;
}

void options_finish(struct parsed *parsed, const struct command *command)
{
    const struct option *o;

    for (size_t i = 0; parsed->config && (o = option_at(command, i)) != NULL; i++) {
        if (o->kind == OPTION_REPEATED)
            free(((struct option_list *)((char *)parsed->config + o->offset))->items);
    }
    free(parsed->config);
    free(parsed->given);
    free(parsed->operands);
}
