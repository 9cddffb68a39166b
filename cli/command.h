/* command.h: what a command is. One table of commands (commands.c) and one table of options for each command feed the
 * parser, the help, the man pages and the shell completions; nothing about a command is written down twice.
 *
 * A command keeps its options in a config struct of its own. The framework zeroes it, fills in the defaults and the command
 * line, and hands it to `run` together with what is left: the operands. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit codes; exit_meanings describes them. */
enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_DAMAGE = 3,
    EXIT_INTERRUPTED = 130 /* by SIGINT; other signals: 128 + their number */
};

/* The kind decides how a value is read and what the member of the config is. */
enum option_kind {
    OPTION_FLAG,    /* bool; --no-x turns it off (--x, if the name is --no-x) */
    OPTION_INT,     /* int64_t */
    OPTION_UINT,    /* uint64_t */
    OPTION_BYTES,   /* uint64_t; "64M", "1.5GiB": K, M, G and T are powers of 1024 */
    OPTION_FLOAT,   /* double */
    OPTION_STRING,  /* const char * */
    OPTION_CHOICE,  /* int: an index into `choices` */
    OPTION_REPEATED /* struct option_list */
};

struct option_list {
    const char **items;
    size_t count;
};

/* Words that the shell offers for a value or an operand. */
enum completion {
    COMPLETE_NOTHING,
    COMPLETE_FILES,
    COMPLETE_FOLDERS,
    COMPLETE_COMMANDS,
    COMPLETE_OPERATIONS, /* names of operations */
    COMPLETE_PIPELINE    /* the same, after an opening quote too, and files */
};

struct option {
    const char *name;    /* "--shards"; NULL ends the table */
    char letter;         /* 's' for -s; 0: none */
    const char *metavar; /* "N"; NULL for flags */
    enum option_kind kind;
    size_t offset, width;       /* by INTO */
    size_t given;               /* offset of a bool that is set when the option appears; 0: none */
    const char *initial;        /* the default as a user would write it; NULL: zeroed… */
    const char *absent;         /* …and what that means, for the help */
    double min, max;            /* of numbers; both 0: no bounds but the type's */
    const char *zero;           /* of OPTION_UINT: the word that stands for 0, whatever the bounds are; NULL: none */
    const char *const *choices; /* of OPTION_CHOICE; ends with NULL */
    enum completion completion; /* of the value */
    const char *doc;            /* a sentence without its full stop */
    const char *group;          /* the heading that begins here in the help; NULL: same group as before */
    const char *parameter;      /* its name in messages of the library; NULL: that of the option, with _ for - */
    bool resumes;               /* may be given with --resume: it changes no result, or where the run ends and its data is */
};

/* Where a value goes; the width lets the parser notice a member of the wrong type. */
#define INTO(type, member) .offset = offsetof(type, member), .width = sizeof(((type *)0)->member)

struct example {
    const char *what, *command;
};

struct command {
    const char *name;
    const char *summary; /* one line, without a full stop */
    const char *usage;   /* the operands: "SOURCE... OUT" */
    const char *doc;     /* paragraphs, with blank lines between; one that starts with a space keeps its line breaks */
    const struct option *options;
    const struct option *shared;    /* rows that several commands have: the config begins with their struct */
    const struct example *examples; /* ends with a NULL command */
    size_t min_operands, max_operands;
    enum completion completion;         /* of the operands */
    const char *const *operand_choices; /* or: the only ones allowed; ends with NULL */
    size_t config_size;
    /* Returns an enum exit_code. The operands are pointers into argv. */
    int (*run)(const void *config, const char *const *operands, size_t count);
};

#define ANY_NUMBER SIZE_MAX

struct exit_meaning {
    int code;
    const char *meaning;
};
extern const struct exit_meaning exit_meanings[]; /* ends with a NULL meaning */

extern const struct command *const commands[]; /* in the order of the help; ends with NULL */
/* Returns the command; NULL: unknown, and the error with the nearest name has been printed. */
const struct command *command_find(const char *name);

/* The words after the command's name as they were given, for a command that records them. */
extern struct option_list command_arguments;

extern const struct command command_bench, command_cat, command_completion, command_doctor, command_eval, command_export, command_generate, command_help,
    command_index, command_inspect, command_lr_find, command_man, command_model, command_ops, command_pack, command_plan, command_predict,
    command_repair, command_top, command_train, command_version;
extern const struct command command_cache, command_compress;

#endif
