/* cmd_ops.c: `penstock ops`: the operations that pipelines are made of, from the library's table: a list, one in full, or all
 * of them as Markdown, which is docs/ops.md. */
#include "base/nearest.h"
#include "cli/command.h"
#include "cli/json.h"
#include "cli/say.h"
#include "cli/terminal.h"
#include "cli/usage.h"
#include <math.h>
#include <penstock/op.h>
#include <string.h>

enum { NAME_COLUMN = 24, MOST_OPS = 256 };

struct config {
    bool markdown, json;
};

static const struct {
    const char *word, *heading, *about;
} kinds[] = {
    [PST_OP_SOURCE] = {"source", "Sources", "A pipeline begins with one of these."},
    [PST_OP_ORDER] = {"order", "Order",
                      "These choose the elements and their order. If the source has an index, they move indices, not data."},
    [PST_OP_SAMPLE] = {"sample", "Elements", "These change each element by itself, on a worker."},
    [PST_OP_BATCHING] = {"batching", "Batches and memory", "These combine elements into batches and keep them in memory."},
};

/* ---- Parameters in words ---- */

static const char *kind_text(const pst_param *p)
{
    static const char *const names[] = {
        [PST_PARAM_BOOL] = "true or false",
        [PST_PARAM_INT] = "integer",
        [PST_PARAM_UINT] = "integer",
        [PST_PARAM_FLOAT] = "number",
        [PST_PARAM_STRING] = "text",
        [PST_PARAM_CHOICE] = "",
        [PST_PARAM_BYTES] = "bytes (64M, 1.5GiB)",
        [PST_PARAM_SIZE2D] = "size (224, 320x240)",
        [PST_PARAM_FLOATS] = "numbers (0.5,0.5,0.5)",
        [PST_PARAM_STRINGS] = "one or more words",
        [PST_PARAM_AMOUNT] = "elements (1000) or bytes (64M)",
    };
    return names[p->kind];
}

/* "integer from 1 to 8", "u8, f16 or f32". */
static char *accepted_text(const pst_param *p, char *buffer, size_t size)
{
    size_t n = (size_t)snprintf(buffer, size, "%s", kind_text(p));

    for (size_t i = 0; p->kind == PST_PARAM_CHOICE && p->choices[i] && n < size; i++)
        n += (size_t)snprintf(buffer + n, size - n, "%s%s", i == 0 ? "" : p->choices[i + 1] ? ", " : " or ", p->choices[i]);
    if ((p->min == 0 && p->max == 0) || n >= size)
        return buffer;
    if (p->max < INFINITY && p->min > -INFINITY)
        snprintf(buffer + n, size - n, " from %.15g to %.15g", p->min, p->max);
    else if (p->min > -INFINITY)
        snprintf(buffer + n, size - n, " of at least %.15g", p->min);
    else if (p->max < INFINITY)
        snprintf(buffer + n, size - n, " of at most %.15g", p->max);
    return buffer;
}

/* The default as a user would write it. */
static const char *default_text(const pst_param *p)
{
    return !p->fallback ? "required" : p->fallback[0] ? p->fallback : "\"\"";
}

/* "batch size [drop_remainder=false]" */
static void put_signature(FILE *out, const pst_op_class *op)
{
    fputs(op->name, out);
    for (const pst_param *p = op->params; p && p->name; p++) {
        const char *more = p->kind == PST_PARAM_STRINGS ? "..." : "";

        if (p->fallback)
            fprintf(out, " [%s=%s%s]", p->name, default_text(p), more);
        else
            fprintf(out, " %s%s", p->name, more);
    }
    fputc('\n', out);
}

/* ---- On a terminal ---- */

static void put_list(void)
{
    const pst_op_class *op;
    int kind = -1;

    for (size_t i = 0; (op = pst_op_at(i)) != NULL; i++) {
        const char *end = strstr(op->doc, ". ");

        if ((int)pst_op_kind_of(op) != kind) {
            printf("%s%s%s:%s\n", i ? "\n" : "", style_bold(stdout), kinds[pst_op_kind_of(op)].heading, style_none(stdout));
            kind = (int)pst_op_kind_of(op);
        }
        printf("  %-*s", NAME_COLUMN - 2, op->name);
        usage_wrap(stdout, op->doc, end ? (size_t)(end - op->doc) + 1 : strlen(op->doc), NAME_COLUMN, NAME_COLUMN);
    }
    puts("\nMore about an operation: penstock ops NAME");
}

static void put_param(const pst_param *p)
{
    char accepted[256], text[1024];

    snprintf(text, sizeof(text), "%s (%s; %s%s)", p->doc, accepted_text(p, accepted, sizeof(accepted)),
             p->fallback ? "default: " : "", default_text(p));
    printf("  %-*s", NAME_COLUMN - 2, p->name);
    usage_wrap(stdout, text, strlen(text), NAME_COLUMN, NAME_COLUMN);
}

static void put_op(const pst_op_class *op)
{
    put_signature(stdout, op);
    putchar('\n');
    usage_wrap(stdout, op->doc, strlen(op->doc), 0, 0);
    if (op->params && op->params->name)
        printf("\n%sParameters:%s\n", style_bold(stdout), style_none(stdout));
    for (const pst_param *p = op->params; p && p->name; p++)
        put_param(p);
    printf("\n%sExample:%s\n  %s\n", style_bold(stdout), style_none(stdout), op->example);
}

/* ---- Markdown ---- */

/* Prints a cell of a table, with | escaped. */
static void put_cell(const char *s)
{
    for (; *s; s++) {
        if (*s == '|')
            putchar('\\');
        putchar(*s);
    }
}

static void put_markdown_op(const pst_op_class *op)
{
    char accepted[256];

    printf("### %s\n\n```\n", op->name);
    put_signature(stdout, op);
    printf("```\n\n%s\n\n", op->doc);
    if (op->params && op->params->name)
        puts("| parameter | accepts | default | |\n|---|---|---|---|");
    for (const pst_param *p = op->params; p && p->name; p++) {
        printf("| `%s` | ", p->name);
        put_cell(accepted_text(p, accepted, sizeof(accepted)));
        printf(p->fallback ? " | `%s` | " : " | %s | ", default_text(p));
        put_cell(p->doc);
        puts(" |");
    }
    printf("%s```\n%s\n```\n\n", op->params && op->params->name ? "\n" : "", op->example);
}

static void put_markdown(void)
{
    const pst_op_class *op;
    int kind = -1;

    puts("# Operations\n\n"
         "<!-- Written by `penstock ops --markdown`; change the declarations in src/ops, not this page. -->\n\n"
         "A pipeline is a source followed by operations, separated by `|`:\n\n"
         "```\ntfrecord shards/ | shuffle seed=7 | example | batch 64   # a comment\n```\n\n"
         "- Arguments are values in the order of the parameters, then `name=value`.\n"
         "- Blanks and line breaks separate words. `\"…\"` quotes them and accepts the escapes\n"
         "  `\\\" \\\\ \\n \\r \\t \\xHH`; `'…'` quotes without escapes. `#` at the beginning of a word starts a comment.\n"
         "- `@train.pst` in place of an operation inserts the text of that file. A relative path is relative to\n"
         "  the including file.\n"
         "- Quote a value that looks like `name=value`: `'year=2020/'`.\n"
         "- `true` and `false` can be written as yes and no, on and off, 1 and 0. K, M, G and T are powers of 1024.\n");
    for (size_t i = 0; (op = pst_op_at(i)) != NULL; i++) {
        if ((int)pst_op_kind_of(op) != kind) {
            kind = (int)pst_op_kind_of(op);
            printf("## %s\n\n%s\n\n", kinds[kind].heading, kinds[kind].about);
        }
        put_markdown_op(op);
    }
}

/* ---- JSON ---- */

static void put_json_param(struct json *j, const pst_param *p)
{
    char accepted[400];

    json_begin_object(j, NULL);
    json_string(j, "name", p->name);
    json_string(j, "accepts", accepted_text(p, accepted, sizeof(accepted)));
    json_string(j, "default", p->fallback); /* null: required */
    if (p->kind == PST_PARAM_CHOICE) {
        json_begin_array(j, "choices");
        for (size_t i = 0; p->choices[i]; i++)
            json_string(j, NULL, p->choices[i]);
        json_end_array(j);
    }
    json_string(j, "doc", p->doc);
    json_end_object(j);
}

static void put_json_op(struct json *j, const pst_op_class *op)
{
    json_begin_object(j, NULL);
    json_string(j, "name", op->name);
    json_string(j, "kind", kinds[pst_op_kind_of(op)].word);
    json_string(j, "doc", op->doc);
    json_string(j, "example", op->example);
    json_begin_array(j, "parameters");
    for (const pst_param *p = op->params; p && p->name; p++)
        put_json_param(j, p);
    json_end_array(j);
    json_end_object(j);
}

/* One operation, or a list of all. */
static void put_json(const pst_op_class *only)
{
    struct json j = json_to(stdout);
    const pst_op_class *op;

    if (only) {
        put_json_op(&j, only);
    } else {
        json_begin_array(&j, NULL);
        for (size_t i = 0; (op = pst_op_at(i)) != NULL; i++)
            put_json_op(&j, op);
        json_end_array(&j);
    }
    putchar('\n');
}

/* ---- The command ---- */

static int fail_name(const char *name)
{
    const char *names[MOST_OPS + 1], *nearest;
    size_t count = 0;

    for (; count < MOST_OPS && pst_op_at(count); count++)
        names[count] = pst_op_at(count)->name;
    names[count] = NULL;
    nearest = text_nearest(name, names);
    say_error("unknown operation %s", name);
    if (nearest)
        say_try("penstock ops %s", nearest);
    else
        say_try("penstock ops");
    return EXIT_USAGE;
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    const pst_op_class *op = count ? pst_op_find(operands[0]) : NULL;

    if (count && !op)
        return fail_name(operands[0]);
    if (c->json && c->markdown)
        return say_usage(&command_ops, "--json and --markdown exclude each other");
    if (c->json)
        put_json(op);
    else if (op && c->markdown)
        put_markdown_op(op);
    else if (op)
        put_op(op);
    else if (c->markdown)
        put_markdown();
    else
        put_list();
    return EXIT_DONE;
}

static const struct option options[] = {
    {"--markdown", .kind = OPTION_FLAG, INTO(struct config, markdown), .doc = "print Markdown"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print one JSON object per operation, in an array"},
    {0},
};

static const struct example examples[] = {
    {"list all operations", "penstock ops"},
    {"explain batch and its parameters", "penstock ops batch"},
    {0},
};

const struct command command_ops = {
    .name = "ops",
    .summary = "list the operations of pipelines, or explain one",
    .usage = "[NAME]",
    .doc =
        "Explains the operation NAME with its parameters. Without NAME, lists all operations: sources, order, what happens to "
        "elements, batches.",
    .options = options,
    .examples = examples,
    .max_operands = 1,
    .completion = COMPLETE_OPERATIONS,
    .config_size = sizeof(struct config),
    .run = run,
};
