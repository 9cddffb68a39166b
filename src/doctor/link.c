/* link.c: see link.h. A device is physical where the system shows the hardware behind it: bridges, pairs of containers and tunnels report speeds
 * that nothing has measured. */
#include "doctor/link.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The first words of a file of the device; false: there are none. */
static bool read_fact(const char *root, const char *device, const char *name, const char *format, void *ret)
{
    char path[512];
    if (snprintf(path, sizeof(path), "%s/sys/class/net/%s/%s", root, device, name) >= (int)sizeof(path))
        return false;
    FILE *f = fopen(path, "re");
    bool found = f && fscanf(f, format, ret) == 1;
    if (f)
        fclose(f);
    return found;
}

static bool is_physical(const char *root, const char *device)
{
    char path[512];
    return snprintf(path, sizeof(path), "%s/sys/class/net/%s/device", root, device) < (int)sizeof(path) && access(path, F_OK) == 0;
}

/* Bytes per second of a physical device that is up; 0: it is neither, or says nothing. */
static double rate_of(const char *root, const char *device)
{
    char state[16] = "";
    double mbit = 0;
    if (!is_physical(root, device) || !read_fact(root, device, "operstate", "%15s", state) || strcmp(state, "up") != 0 ||
        !read_fact(root, device, "speed", "%lf", &mbit) || !(mbit > 0))
        return 0;
    return 1e6 / 8 * mbit;
}

/* The device of the default route with the least metric; "": none. */
static void find_default(const char *root, char ret[LINK_NAME])
{
    char path[512], line[256], device[LINK_NAME];
    unsigned long destination, gateway, flags, best = ~0ul;
    unsigned reference, use;
    unsigned long metric, mask;
    ret[0] = '\0';
    snprintf(path, sizeof(path), "%s/proc/net/route", root);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        if (sscanf(line, "%31s %lx %lx %lx %u %u %lu %lx", device, &destination, &gateway, &flags, &reference, &use, &metric, &mask) == 8 &&
            destination == 0 && mask == 0 && (flags & 1) && metric < best) { /* mask: 0.0.0.0/1 is the half route of a tunnel */
            best = metric;
            memcpy(ret, device, sizeof(device));
        }
    if (f)
        fclose(f);
}

double link_read(const char *root, char ret_device[LINK_NAME])
{
    find_default(root, ret_device);
    double best = ret_device[0] ? rate_of(root, ret_device) : 0;
    if (best > 0)
        return best;
    ret_device[0] = '\0'; /* a bond or a bridge, whose members are physical, or none */
    char path[512];
    snprintf(path, sizeof(path), "%s/sys/class/net", root);
    DIR *all = opendir(path);
    for (struct dirent *e; all && (e = readdir(all));) {
        double rate = e->d_name[0] == '.' || strlen(e->d_name) >= LINK_NAME ? 0 : rate_of(root, e->d_name);
        if (rate > best) {
            best = rate;
            memcpy(ret_device, e->d_name, strlen(e->d_name) + 1);
        }
    }
    if (all)
        closedir(all);
    return best;
}
