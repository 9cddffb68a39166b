/* say.h: printing of errors, hints, amounts and untrusted names.
 *
 * Results go to stdout, everything else to stderr. File names and library messages are printed through put_clean or
 * say_*: control characters never reach the terminal. */
#ifndef CLI_SAY_H
#define CLI_SAY_H

#include "cli/command.h"
#include <penstock/base.h>
#include <stdio.h>

/* "penstock: error: …" */
void say_error(const char *format, ...) PST_PRINTF(1, 2);
/* "  try: …", below an error. */
void say_try(const char *format, ...) PST_PRINTF(1, 2);
/* "penstock: …": neither error nor result. */
void say_note(const char *format, ...) PST_PRINTF(1, 2);

/* A message of the library with the command's options as they are written: "columns=x" becomes "--columns x". Returns `buffer`.
 */
char *with_option_names(const struct command *command, const char *message, char *buffer, size_t size);

/* A wrong command line: the error, then where the help is. Returns EXIT_USAGE. */
int say_usage(const struct command *command, const char *format, ...) PST_PRINTF(2, 3);

/* A failed library call: the error, with its drawing where it is about a pipeline's text, and with `json` also
 * {"command", "error"} on stdout. Returns the exit code of its status: damage 3, wrong arguments 2, cancelled 130, everything
 * else 1. */
int say_failure(const struct command *command, const pst_error *error, bool json);

/* The same for the text of a model: its help is the list of layers. */
int say_model_failure(const struct command *command, const pst_error *error, bool json);

/* Returns which of two exit codes to end with: an interruption outweighs wrong usage, then failure, then damage, then success. */
int exit_worse(int a, int b);

/* Prints `n` bytes with control characters, bidirectional overrides and invalid UTF-8 as \n, \x1b, …; returns the columns. */
size_t put_clean(FILE *out, const char *s, size_t n);
size_t put_clean_string(FILE *out, const char *s);
/* Lines that the library laid out, each indented by `indent` blanks and escaped separately. */
void put_clean_lines(FILE *out, size_t indent, const char *text);
/* The same into memory; truncates safely. Returns `buffer`. */
char *clean_text(char *buffer, size_t size, const char *s);
/* A path that a user can paste after a command: quoted where a shell needs that, "./" before a dash. Returns `buffer`. */
char *shell_word(char *buffer, size_t size, const char *s);

/* Reports on stdout have headings at the left. A heading takes INDENT columns; continuation lines are indented by as many. */
#define INDENT 13
void put_heading(const char *heading);

/* Amounts as people read them. Each returns `buffer`. */
#define AMOUNT_SIZE 32
char *amount_count(char buffer[AMOUNT_SIZE], uint64_t n);    /* 50,000 */
char *amount_bytes(char buffer[AMOUNT_SIZE], double bytes);  /* 1.5 GB (decimal) */
char *amount_time(char buffer[AMOUNT_SIZE], double seconds); /* 0.4 s, 12 s, 3:07, 1:02:33 */
const char *plural(uint64_t n, const char *one, const char *many);

/* "$XDG_CACHE_HOME/penstock" or "~/.cache/penstock"; NULL if neither variable is set. */
const char *default_cache_folder(char *buffer, size_t size);

/* Flushes stdout. A write that failed (full, closed) turns success into EXIT_FAILED and is reported. */
int finish_output(int code);

#endif
