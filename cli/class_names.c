/* class_names.c: see class_names.h. */
#include "cli/class_names.h"
#include "cli/stages.h"
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_CLASSES 100000

static void add(struct class_names *c, const char *name)
{
    char **more = c->count < MOST_CLASSES ? realloc(c->names, (c->count + 1) * sizeof(*more)) : NULL;

    if (!more)
        return;
    c->names = more;
    c->names[c->count] = strdup(name);
    c->count += c->names[c->count] != NULL;
}

static void read_lines(struct class_names *c, const char *path)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t size = 0;
    ssize_t n;

    while (f && (n = getline(&line, &size, f)) >= 0) {
        line[strcspn(line, "\r\n")] = '\0';
        add(c, line);
    }
    free(line);
    if (f)
        fclose(f);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void read_folders(struct class_names *c, const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;
    char below[PATH_MAX];
    struct stat st;

    while (d && (e = readdir(d)) != NULL) {
        if (e->d_name[0] != '.' && snprintf(below, sizeof(below), "%s/%s", path, e->d_name) < (int)sizeof(below) &&
            stat(below, &st) == 0 && S_ISDIR(st.st_mode))
            add(c, e->d_name);
    }
    if (d)
        closedir(d);
    if (c->count > 1)
        qsort(c->names, c->count, sizeof(*c->names), by_bytes);
}

/* The folder of shards: the path itself, or what stands before its last slash. */
static void read_labels(struct class_names *c, const char *path, const char *target)
{
    char file[PATH_MAX];
    struct stat st;
    int folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    const char *slash = strrchr(path, '/');
    int length = folder ? (int)strlen(path) : slash ? (int)(slash - path) : 0;

    if (snprintf(file, sizeof(file), "%.*s%s%s.labels.txt", length, path, length ? "/" : "", target) < (int)sizeof(file))
        read_lines(c, file);
    if (c->count == 0 && snprintf(file, sizeof(file), "%.*s%slabels.txt", length, path, length ? "/" : "") < (int)sizeof(file))
        read_lines(c, file);
}

void class_names_find(struct class_names *ret, const char *pipeline, const char *target)
{
    struct stages s;
    char *path;

    *ret = (struct class_names){0};
    if (stages_cut(&s, pipeline) < 0)
        return;
    path = stage_argument(s.text[0]);
    if (path && stage_is(s.text[0], "folder"))
        read_folders(ret, path);
    else if (path && stage_is(s.text[0], "tfrecord"))
        read_labels(ret, path, target);
    free(path);
    stages_finish(&s);
}

void class_names_finish(struct class_names *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->names[i]);
    free(c->names);
    *c = (struct class_names){0};
}
