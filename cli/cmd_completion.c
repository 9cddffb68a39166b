/* cmd_completion.c: `penstock completion`: scripts for the completion of commands, options and their values.
 *
 * Names and choices of ours hold letters, digits and dashes only; descriptions are quoted for each shell. */
#include "cli/command.h"
#include "cli/options.h"
#include "cli/say.h"
#include <penstock/op.h>
#include <stdio.h>
#include <string.h>

/* ---- bash ---- */

static void put_words(const char *const *words)
{
    for (size_t i = 0; words[i]; i++)
        printf("%s%s", i ? " " : "", words[i]);
}

static void put_command_names(void)
{
    for (size_t i = 0; commands[i]; i++)
        printf("%s%s", i ? " " : "", commands[i]->name);
}

static void put_operation_names(void)
{
    const pst_op_class *op;

    for (size_t i = 0; (op = pst_op_at(i)) != NULL; i++)
        printf("%s%s", i ? " " : "", op->name);
}

/* Prints the words that are valid as an operand of the command; false: there are none. */
static bool has_operand_words(const struct command *command)
{
    return command->operand_choices || command->completion == COMPLETE_COMMANDS || command->completion == COMPLETE_OPERATIONS ||
           command->completion == COMPLETE_PIPELINE;
}

static void put_operand_words(const struct command *command)
{
    if (command->operand_choices)
        put_words(command->operand_choices);
    else if (command->completion == COMPLETE_COMMANDS)
        put_command_names();
    else
        put_operation_names();
}

static void put_bash_value(const struct command *command, const struct option *o)
{
    printf("    '%s %s'", command->name, o->name);
    if (o->letter)
        printf(" | '%s -%c'", command->name, o->letter);
    fputs(")\n        ", stdout);
    if (o->kind == OPTION_CHOICE) {
        fputs("COMPREPLY=($(compgen -W '", stdout);
        put_words(o->choices);
        fputs("' -- \"$cur\"))\n        ", stdout);
    } else if (o->completion == COMPLETE_FILES || o->completion == COMPLETE_FOLDERS) {
        printf("compopt -o filenames\n        mapfile -t COMPREPLY < <(compgen -%c -- \"$cur\")\n        ",
               o->completion == COMPLETE_FILES ? 'f' : 'd');
    } else {
        fputs("compopt +o default\n        ", stdout); /* a number or a word: nothing to offer */
    }
    puts("return ;;");
}

static void put_bash_command(const struct command *command)
{
    const struct option *o;

    printf("    %s)\n        [[ $cur == -* ]] && words='", command->name);
    for (size_t i = 0; (o = option_at(command, i)) != NULL; i++)
        printf("%s ", o->name);
    fputs("--help'", stdout);
    if (has_operand_words(command)) {
        fputs(" || words='", stdout);
        put_operand_words(command);
        putchar('\'');
    }
    if (command->completion == COMPLETE_PIPELINE)
        fputs("\n        cur=${cur#[\\\"\\']}", stdout); /* what is within the quotes is completed */
    puts(" ;;");
}

static void put_bash(void)
{
    const struct option *o;

    puts("# bash completion for penstock\n"
         "_penstock()\n"
         "{\n"
         "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} words=\n"
         "    COMPREPLY=()\n"
         "    if [[ $COMP_CWORD -eq 1 ]]; then");
    fputs("        COMPREPLY=($(compgen -W '", stdout);
    put_command_names();
    puts(" --help --version' -- \"$cur\"))\n"
         "        return\n"
         "    fi\n"
         "    if [[ $cur == = ]]; then # --option=value comes as three words\n"
         "        cur=\n"
         "    elif [[ $prev == = ]]; then\n"
         "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
         "    fi\n"
         "    case \"$command $prev\" in");
    for (size_t i = 0; commands[i]; i++) {
        for (size_t k = 0; (o = option_at(commands[i], k)) != NULL; k++) {
            if (o->kind != OPTION_FLAG)
                put_bash_value(commands[i], o);
        }
    }
    puts("    esac\n"
         "    case $command in");
    for (size_t i = 0; commands[i]; i++)
        put_bash_command(commands[i]);
    puts("    esac\n"
         "    [[ -n $words ]] && COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
         "}\n"
         "complete -o default -F _penstock penstock");
}

/* ---- zsh ---- */

/* Inside single quotes and brackets of an _arguments specification. */
static void put_zsh_text(const char *s)
{
    for (; *s; s++) {
        if (*s == '\'')
            fputs("'\\''", stdout);
        else if (strchr("[]:\\", *s))
            printf("\\%c", *s);
        else
            putchar(*s);
    }
}

static void put_zsh_action(const struct option *o)
{
    putchar(':');
    put_zsh_text(o->metavar);
    putchar(':');
    if (o->kind == OPTION_CHOICE) {
        putchar('(');
        put_words(o->choices);
        putchar(')');
    } else if (o->completion != COMPLETE_NOTHING) {
        fputs(o->completion == COMPLETE_FOLDERS ? "_files -/" : "_files", stdout);
    }
}

static void put_zsh_spelling(const struct option *o, const char *spelling)
{
    printf("            '%s%s[", o->kind == OPTION_REPEATED ? "*" : "", spelling);
    put_zsh_text(o->doc);
    putchar(']');
    if (o->kind != OPTION_FLAG)
        put_zsh_action(o);
    puts("' \\");
}

static void put_zsh_option(const struct option *o)
{
    bool flag = o->kind == OPTION_FLAG;
    char spelling[64];

    snprintf(spelling, sizeof(spelling), "%s%s", o->name, flag ? "" : "=");
    put_zsh_spelling(o, spelling);
    snprintf(spelling, sizeof(spelling), "-%c%s", o->letter, flag ? "" : "+");
    if (o->letter)
        put_zsh_spelling(o, spelling);
}

static void put_zsh(void)
{
    const struct option *o;

    puts("#compdef penstock\n"
         "_penstock()\n"
         "{\n"
         "    local -a names\n"
         "    names=(");
    for (size_t i = 0; commands[i]; i++) {
        printf("        '%s:", commands[i]->name);
        put_zsh_text(commands[i]->summary);
        puts("'");
    }
    puts("    )\n"
         "    if ((CURRENT == 2)); then\n"
         "        _describe command names\n"
         "        return\n"
         "    fi\n"
         "    local command=${words[2]}\n"
         "    shift words\n"
         "    ((CURRENT--))\n"
         "    case $command in");
    for (size_t i = 0; commands[i]; i++) {
        printf("    %s)\n        _arguments -s \\\n", commands[i]->name);
        for (size_t k = 0; (o = option_at(commands[i], k)) != NULL; k++)
            put_zsh_option(o);
        fputs("            '(-h --help)'{-h,--help}'[show the help]' \\\n            '*:operand:", stdout);
        if (has_operand_words(commands[i])) {
            putchar('(');
            put_operand_words(commands[i]);
            putchar(')');
        } else if (commands[i]->completion != COMPLETE_NOTHING) {
            fputs("_files", stdout);
        }
        puts("' ;;");
    }
    puts("    esac\n"
         "}\n"
         "_penstock \"$@\"");
}

/* ---- fish ---- */

static void put_fish_text(const char *s)
{
    putchar('\'');
    for (; *s; s++)
        printf("%s%c", *s == '\'' || *s == '\\' ? "\\" : "", *s);
    putchar('\'');
}

static void put_fish_option(const struct command *command, const struct option *o)
{
    printf("complete -c penstock -n '__fish_seen_subcommand_from %s' -l %s", command->name, o->name + 2);
    if (o->letter)
        printf(" -s %c", o->letter);
    if (o->kind == OPTION_CHOICE) {
        fputs(" -x -a '", stdout);
        put_words(o->choices);
        putchar('\'');
    } else if (o->completion == COMPLETE_FOLDERS) {
        fputs(" -x -a '(__fish_complete_directories)'", stdout);
    } else if (o->kind != OPTION_FLAG) {
        fputs(o->completion == COMPLETE_FILES ? " -r -F" : " -x", stdout);
    }
    fputs(" -d ", stdout);
    put_fish_text(o->doc);
    putchar('\n');
}

static void put_fish(void)
{
    const struct option *o;

    puts("# fish completion for penstock");
    for (size_t i = 0; commands[i]; i++) {
        printf("complete -c penstock -n __fish_use_subcommand -f -a %s -d ", commands[i]->name);
        put_fish_text(commands[i]->summary);
        putchar('\n');
        for (size_t k = 0; (o = option_at(commands[i], k)) != NULL; k++)
            put_fish_option(commands[i], o);
        if (has_operand_words(commands[i])) {
            printf("complete -c penstock -n '__fish_seen_subcommand_from %s' %s -a '", commands[i]->name,
                   commands[i]->completion == COMPLETE_PIPELINE ? "-F" : "-f");
            put_operand_words(commands[i]);
            puts("'");
        }
    }
}

/* ---- The command ---- */

static const struct {
    const char *name;
    void (*put)(void);
} shells[] = {{"bash", put_bash}, {"zsh", put_zsh}, {"fish", put_fish}};

static int run(const void *config, const char *const *operands, size_t count)
{
    (void)config;
    (void)count;
    for (size_t i = 0; i < sizeof(shells) / sizeof(shells[0]); i++) {
        if (strcmp(shells[i].name, operands[0]) == 0)
            shells[i].put();
    }
    return EXIT_DONE;
}

static const char *const shell_names[] = {"bash", "zsh", "fish", NULL};

static const struct example examples[] = {
    {"enable completion in the current bash", "source <(penstock completion bash)"},
    {"install completion for fish", "penstock completion fish > ~/.config/fish/completions/penstock.fish"},
    {0},
};

const struct command command_completion = {
    .name = "completion",
    .summary = "print a completion script for a shell",
    .usage = "SHELL",
    .doc = "Prints a script that lets SHELL (bash, zsh or fish) complete commands, options and their values.",
    .examples = examples,
    .min_operands = 1,
    .max_operands = 1,
    .operand_choices = shell_names,
    .run = run,
};
