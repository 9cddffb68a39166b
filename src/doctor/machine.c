/* machine.c: the name of this machine's processor and system, for people who compare answers of several machines. */
#include "doctor/doctor.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

void machine_cpu(char *buffer, size_t size)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "re");
    buffer[0] = '\0';
    while (f && !buffer[0] && fgets(line, sizeof(line), f)) {
        char *value = strncmp(line, "model name", 10) == 0 ? strchr(line, ':') : NULL;
        if (value)
            snprintf(buffer, size, "%.*s", (int)strcspn(value + strspn(value, ": \t"), "\n"), value + strspn(value, ": \t"));
    }
    if (f)
        fclose(f);
}

void machine_system(char *buffer, size_t size)
{
    struct utsname u;
    buffer[0] = '\0';
    if (uname(&u) == 0)
        snprintf(buffer, size, "%.40s %.60s %.20s", u.sysname, u.release, u.machine);
}
