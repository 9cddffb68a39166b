/* say.c: see say.h. */
#include "cli/say.h"
#include "base/secret.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "cli/utf8.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- Text that may hold anything ---- */

static bool is_harmless(uint32_t c)
{
    bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
    bool reorders = c == 0x61c || c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
    bool breaks = c == 0x2028 || c == 0x2029;

    return !control && !reorders && !breaks;
}

/* The next piece of `s` as it may be printed, NUL-terminated in `piece`; returns the bytes used up. */
static size_t clean_piece(char piece[16], const char *s, size_t n)
{
    uint32_t c;
    size_t width = utf8_decode(s, n, &c);

    if (width == 0) {
        snprintf(piece, 16, "\\x%02x", (unsigned char)s[0]);
        return 1;
    }
    if (is_harmless(c)) {
        memcpy(piece, s, width);
        piece[width] = '\0';
    } else if (c == '\n' || c == '\r' || c == '\t') {
        snprintf(piece, 16, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    } else {
        snprintf(piece, 16, c < 0x80 ? "\\x%02x" : "\\u%04x", (unsigned)c);
    }
    return width;
}

size_t put_clean(FILE *out, const char *s, size_t n)
{
    size_t columns = 0;

    for (size_t i = 0; i < n;) {
        char piece[16];

        i += clean_piece(piece, s + i, n - i);
        fputs(piece, out);
        columns += utf8_columns(piece, strlen(piece));
    }
    return columns;
}

size_t put_clean_string(FILE *out, const char *s)
{
    struct secret_scan scan = {0};
    size_t columns = 0;
    bool hidden;

    for (size_t i = 0, end; s[i]; i = end) {
        end = secret_run(&scan, s, i, &hidden);
        columns += hidden ? put_clean(out, SECRET_MARK, strlen(SECRET_MARK)) : put_clean(out, s + i, end - i);
    }
    return columns;
}

void put_clean_lines(FILE *out, size_t indent, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");

        fprintf(out, "%*s", n ? (int)indent : 0, "");
        put_clean(out, text, n);
        fputc('\n', out);
        text += n + (text[n] == '\n');
    }
}

char *clean_text(char *buffer, size_t size, const char *s)
{
    size_t used = 0, n = strlen(s);

    buffer[0] = '\0';
    for (size_t i = 0; i < n;) {
        char piece[16];
        size_t length;

        i += clean_piece(piece, s + i, n - i);
        length = strlen(piece);
        if (used + length + 1 > size)
            break;
        memcpy(buffer + used, piece, length + 1);
        used += length;
    }
    return buffer;
}

char *shell_word(char *buffer, size_t size, const char *s)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:=@%+";
    const char *dash = s[0] == '-' ? "./" : "";
    size_t used = (size_t)snprintf(buffer, size, "%s", dash);

    if (s[0] && s[strspn(s, plain)] == '\0') {
        snprintf(buffer + used, size - used, "%s", s);
        return buffer;
    }
    used = (size_t)snprintf(buffer, size, "'%s", dash);
    for (; *s && used + 6 < size; s++)
        used += (size_t)snprintf(buffer + used, size - used, *s == '\'' ? "'\\''" : "%c", *s);
    snprintf(buffer + used, size - used, "'");
    return buffer;
}

void put_heading(const char *heading)
{
    printf("%s%-*s%s", style_bold(stdout), INDENT, heading, style_none(stdout));
}

/* ---- Lines on stderr ---- */

#define LINE_MAX_BYTES 8192 /* two paths of the longest kind and a sentence */

static void say_line(const char *lead, const char *format, va_list args)
{
    char text[LINE_MAX_BYTES];

    vsnprintf(text, sizeof(text), format, args);
    fputs(lead, stderr);
    put_clean_string(stderr, text);
    fputc('\n', stderr);
}

void say_error(const char *format, ...)
{
    char lead[64];
    va_list args;

    snprintf(lead, sizeof(lead), "penstock: %serror:%s ", style_red(stderr), style_none(stderr));
    va_start(args, format);
    say_line(lead, format, args);
    va_end(args);
}

void say_try(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say_line("  try: ", format, args);
    va_end(args);
}

void say_note(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say_line("penstock: ", format, args);
    va_end(args);
}

int say_usage(const struct command *command, const char *format, ...)
{
    char text[LINE_MAX_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    say_error("%s: %s", command->name, text);
    say_try("penstock help %s", command->name);
    return EXIT_USAGE;
}

/* ---- Failures ---- */

static void put_error_json(const struct command *command, const pst_error *error)
{
    struct json j = json_to(stdout);

    json_begin_object(&j, NULL);
    json_string(&j, "command", command->name);
    json_error(&j, "error", error);
    json_end_object(&j);
    putchar('\n');
}

/* Where the drawing at the end of a message begins: a line of the pipeline's text and one of carets. NULL: it has none. */
static const char *find_drawing(const char *message)
{
    const char *carets = strrchr(message, '\n'), *line = carets;

    if (!carets || carets[1 + strspn(carets + 1, " ^")] != '\0' || !strchr(carets, '^'))
        return NULL;
    do
        line--;
    while (line > message && *line != '\n');
    return line > message ? line : NULL;
}

/* Prints the error, then the drawing, which replaces the byte number. */
static void say_drawn(const pst_error *error, const char *drawing)
{
    pst_error words = *error;
    char text[1024];

    words.message[drawing - error->message] = '\0';
    if (!words.path[0])
        words.offset = PST_NOWHERE;
    say_error("%s", pst_error_text(&words, text, sizeof(text)));
    put_clean_lines(stderr, 2, drawing + 1);
}

/* Whether a message of the library means this option by the word. */
static bool is_meant(const struct option *o, const char *word, size_t length)
{
    const char *name = o->parameter ? o->parameter : o->name + 2; /* without the dashes */
    size_t same = 0;

    if (strlen(name) != length)
        return false;
    while (same < length && (name[same] == word[same] || (name[same] == '-' && word[same] == '_')))
        same++;
    return same == length;
}

static const struct option *option_meant(const struct command *command, const char *word, size_t length)
{
    const struct option *o = command->options;

    while (o && o->name && !is_meant(o, word, length))
        o++;
    return o && o->name ? o : NULL;
}

/* How many characters after a word show that it is the name of a parameter: "columns=", "columns:" where a message or a part of it begins, and where
 * the message begins, "name \"x\"". */
static size_t mark_length(const char *message, const char *at, size_t word)
{
    bool begins = at == message || strchr(" (`\"", at[-1]);
    bool heads = at == message || (at[-1] == ' ' && at - message > 1 && strchr(":;", at[-2])) || at[-1] == '`' || at[-1] == '(';

    if (begins && word && (at[word] == '=' || (at[word] == ':' && heads)))
        return 1;
    return at == message && word && strncmp(at + word, " \"", 2) == 0;
}

char *with_option_names(const struct command *command, const char *message, char *buffer, size_t size)
{
    size_t n = 0;

    for (const char *at = message; *at && n + 1 < size;) {
        size_t word = strspn(at, "abcdefghijklmnopqrstuvwxyz_"), mark = mark_length(message, at, word);
        const struct option *o = mark ? option_meant(command, at, word) : NULL;

        if (o && n + strlen(o->name) + 2 < size) {
            /* "columns: …" is about the option, "columns=x" is a way to write it */
            n += (size_t)snprintf(buffer + n, size - n, "%s%s", o->name, at[word] == ':' ? ":" : at[word + 1] == ' ' ? "" : " ");
            at += word + mark;
        } else {
            for (word = word ? word : 1; word && n + 1 < size; word--)
                buffer[n++] = *at++;
        }
    }
    buffer[n] = '\0';
    return buffer;
}

/* What is in a file is wrong, whatever part of the library found it: damage, a value of another type, a record that lacks one. */
static bool is_of_data(const pst_error *error)
{
    switch (error->status) {
    case PST_ECORRUPT:
    case PST_ESTALE:
        return true;
    case PST_ETYPE:
        return error->path[0] || error->record != PST_NOWHERE;
    case PST_EINVAL:
    case PST_ENOTFOUND:
        return error->path[0] && error->record != PST_NOWHERE;
    default:
        return false;
    }
}

/* What was written is wrong: an option's value, an operation's argument, a field that does not exist or has another type. A
 * path in the error means that a file, or what is in it, is at fault. */
static bool is_usage(const pst_error *error, bool drawn)
{
    if (is_of_data(error))
        return false;
    bool types = error->status == PST_ETYPE || error->status == PST_ENOTFOUND || error->status == PST_EUNSUPPORTED;
    return error->status == PST_EINVAL || (drawn && types && error->op[0] && !error->path[0]);
}

/* `listing` is the command that lists what a text may have. */
static int say_text_failure(const struct command *command, const pst_error *error, const char *listing, bool json)
{
    char text[1024];
    const char *drawing = find_drawing(error->message);

    pst_error named = *error;

    if (!drawing && !error->op[0]) { /* not about the operations of a pipeline */
        with_option_names(command, error->message, named.message, sizeof(named.message));
        error = &named;
    }
    if (json)
        put_error_json(command, error);
    if (error->status == PST_ECANCELLED) {
        say_note("interrupted");
        return interrupt_exit_code();
    }
    if (drawing)
        say_drawn(error, drawing);
    else
        say_error("%s", pst_error_text(error, text, sizeof(text)));
    if (is_usage(error, drawing)) {
        say_try("penstock %s%s", drawing ? listing : "help ", drawing ? "" : command->name);
        return EXIT_USAGE;
    }
    return is_of_data(error) ? EXIT_DAMAGE : EXIT_FAILED;
}

int say_failure(const struct command *command, const pst_error *error, bool json)
{
    return say_text_failure(command, error, "ops", json);
}

int say_model_failure(const struct command *command, const pst_error *error, bool json)
{
    return say_text_failure(command, error, "model --layers", json);
}

static int weight(int code)
{
    return code == EXIT_DONE ? 0 : code == EXIT_DAMAGE ? 1 : code == EXIT_FAILED ? 2 : code == EXIT_USAGE ? 3 : 4;
}

int exit_worse(int a, int b)
{
    return weight(a) > weight(b) ? a : b;
}

/* ---- Amounts ---- */

char *amount_count(char buffer[AMOUNT_SIZE], uint64_t n)
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
    char *out = buffer;

    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *out++ = ',';
        *out++ = digits[i];
    }
    *out = '\0';
    return buffer;
}

char *amount_bytes(char buffer[AMOUNT_SIZE], double bytes)
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;

    while (bytes >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        bytes /= 1000;
        unit++;
    }
    snprintf(buffer, AMOUNT_SIZE, "%.*f %s", unit > 0 && bytes < 9.95 ? 1 : 0, bytes,
             unit == 0 && bytes >= 0.5 && bytes < 1.5 ? "byte" : units[unit]);
    return buffer;
}

char *amount_time(char buffer[AMOUNT_SIZE], double seconds)
{
    unsigned long long whole = seconds > 0 ? (unsigned long long)(seconds + 0.5) : 0;

    if (seconds < 9.95)
        snprintf(buffer, AMOUNT_SIZE, "%.1f s", seconds > 0 ? seconds : 0);
    else if (whole < 60)
        snprintf(buffer, AMOUNT_SIZE, "%llu s", whole);
    else if (whole < 3600)
        snprintf(buffer, AMOUNT_SIZE, "%llu:%02llu", whole / 60, whole % 60);
    else
        snprintf(buffer, AMOUNT_SIZE, "%llu:%02llu:%02llu", whole / 3600, whole / 60 % 60, whole % 60);
    return buffer;
}

const char *plural(uint64_t n, const char *one, const char *many)
{
    return n == 1 ? one : many;
}

/* ---- Surroundings ---- */

const char *default_cache_folder(char *buffer, size_t size)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int length;

    if (cache && cache[0] == '/') /* its specification says to ignore a relative path */
        length = snprintf(buffer, size, "%s/penstock", cache);
    else if (home && home[0])
        length = snprintf(buffer, size, "%s/.cache/penstock", home);
    else
        return NULL;
    return (size_t)length < size ? buffer : NULL;
}

int finish_output(int code)
{
    bool failed = ferror(stdout) != 0;

    errno = 0;
    if (fflush(stdout) != 0 || failed) {
        if (errno != EPIPE) /* a reader that closes the pipe is not an error */
            say_error("writing to standard output: %s", errno ? strerror(errno) : "failed");
        return code == EXIT_DONE ? EXIT_FAILED : code;
    }
    return code;
}
