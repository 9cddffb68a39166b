/* test_link.c: which network device counts: physical and up, that of the default route first. */
#include "doctor/link.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void put(const char *root, const char *path, const char *text)
{
    char whole[700];
    snprintf(whole, sizeof(whole), "%s%s", root, path);
    for (char *at = whole + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(whole, 0700);
        *at = '/';
    }
    test_write_file(whole, text, strlen(text));
}

static void device(const char *root, const char *name, bool physical, const char *state, const char *speed)
{
    char path[200];
    snprintf(path, sizeof(path), "/sys/class/net/%s/operstate", name);
    put(root, path, state);
    snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
    put(root, path, speed);
    snprintf(path, sizeof(path), "/sys/class/net/%s/device/vendor", name);
    if (physical)
        put(root, path, "x\n");
}

static void route(const char *root, const char *lines)
{
    char text[600];
    snprintf(text, sizeof(text), "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n%s", lines);
    put(root, "/proc/net/route", text);
}

static void check(const char *root, double want, const char *name)
{
    char found[LINK_NAME];
    double rate = link_read(root, found);
    CHECK_MSG(rate == want && strcmp(found, name) == 0, "%g bytes/s of \"%s\"; expected %g of \"%s\"", rate, found, want, name);
}

static void test_choice(void)
{
    char root[500];
    snprintf(root, sizeof(root), "%s", test_path("machine"));
    check(root, 0, "");
    device(root, "docker0", false, "up\n", "100000\n");
    device(root, "veth1", false, "up\n", "10000\n");
    route(root, "veth1\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n");
    check(root, 0, ""); /* nothing of it is hardware */
    device(root, "eth0", true, "up\n", "1000\n");
    device(root, "eth1", true, "down\n", "40000\n");
    device(root, "ib0", true, "up\n", "-1\n");
    check(root, 125e6, "eth0");
    device(root, "eth2", true, "up\n", "25000\n");
    check(root, 3125e6, "eth2"); /* the default route is virtual: the fastest that is up */
    route(root, "veth1\t0000A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
                "eth2\t00000000\t0100A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n"
                "eth0\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n");
    check(root, 125e6, "eth0"); /* the route with the least metric */
    device(root, "tun0", false, "unknown\n", "10000\n");
    route(root, "tun0\t00000000\t0100080A\t0003\t0\t0\t0\t00000080\t0\t0\t0\n"
                "tun0\t00000080\t0100080A\t0003\t0\t0\t0\t00000080\t0\t0\t0\n"
                "eth0\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n");
    check(root, 125e6, "eth0"); /* the halves of a tunnel are not the default route */
}

int main(int argc, char **argv)
{
    return test_main(argc, argv, (const struct test[]){{"choice", test_choice}, {0}});
}
