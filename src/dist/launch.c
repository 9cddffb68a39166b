/* launch.c: which launcher started this process, and the plug-in for its MPI. */
#include "dist/comm.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Variables ---- */

/* Both variables are numbers, and the rank is one of several. */
static bool read_pair(const char *rank_name, const char *size_name, pst_launch *ret)
{
    const char *rank = getenv(rank_name), *ranks = getenv(size_name);
    unsigned long k = rank ? strtoul(rank, NULL, 10) : 0, n = ranks ? strtoul(ranks, NULL, 10) : 0;
    if (!rank || n < 2 || n > 1u << 24 || k >= n)
        return false;
    ret->rank = (unsigned)k;
    ret->ranks = (unsigned)n;
    return true;
}

bool pst_launch_find(pst_launch *ret)
{
    static const struct {
        const char *rank, *size, *launcher, *mpi;
    } known[] = {
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI", "openmpi"},
        {"PMIX_RANK", "SLURM_STEP_NUM_TASKS", "Slurm with PMIx", "openmpi"},
        {"PMI_RANK", "PMI_SIZE", "PMI", "mpich"},
        {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "Slurm", ""},
    };
    pst_launch found = {0};
    if (result_check(ret, NULL) < 0)
        return false;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (read_pair(known[i].rank, known[i].size, &found)) {
            found.launcher = known[i].launcher;
            found.mpi = known[i].mpi;
            result_give(ret, &found, sizeof(found));
            return true;
        }
    return false;
}

/* ---- Plug-ins ---- */

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* The folder of this library; false: not known. */
static bool own_folder(char *ret, size_t size)
{
    Dl_info info;
    const char *slash = dladdr((const void *)(uintptr_t)&pst_launch_find, &info) && info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    if (!slash || (size_t)(slash - info.dli_fname) >= size)
        return false;
    snprintf(ret, size, "%.*s", (int)(slash - info.dli_fname), info.dli_fname);
    return true;
}

/* The path of the plug-in: the file that was given, or in the folder that was given, or beside the library. */
static bool find_plugin(const char *given, const char *mpi, char *ret, size_t size)
{
    static const char *const places[] = {"%s/penstock-mpi-%s.so", "%s/penstock/penstock-mpi-%s.so"};
    char folder[3072];
    if (given) {
        snprintf(ret, size, "%s", given);
        if (is_file(ret))
            return true;
        snprintf(ret, size, "%s/penstock-mpi-%s.so", given, mpi);
        return is_file(ret);
    }
    for (size_t i = 0; own_folder(folder, sizeof(folder)) && i < sizeof(places) / sizeof(places[0]); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(ret, size, places[i], folder, mpi);
#pragma GCC diagnostic pop
        if (is_file(ret))
            return true;
    }
    return false;
}

/* MPI's own plug-ins need its symbols: they must be visible to all. */
static pst_status load(const char *path, const struct transport **ret, pst_error *reterr)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!object)
        return pst_fail_at(reterr, PST_EUNSUPPORTED, path, PST_NOWHERE, PST_NOWHERE, "cannot load the plug-in for MPI: %s", dlerror());
    *ret = dlsym(object, TRANSPORT_SYMBOL);
    if (!*ret || (*ret)->abi != TRANSPORT_ABI)
        return pst_fail_at(reterr, PST_EUNSUPPORTED, path, PST_NOWHERE, PST_NOWHERE,
                           "not a plug-in for MPI of this version: build it with this version of penstock");
    return PST_OK;
}

pst_status pst_comm_open(pst_comm **ret, const pst_comm_options *options, pst_error *reterr)
{
    pst_launch launch = {.size = sizeof(launch)};
    const struct transport *transport = NULL;
    char path[4096];
    pst_comm_options own = {0};
    pst_status st = options_take(&own, sizeof(own), options, reterr);
    if (st < 0)
        return st;
    options = &own;
    if (!pst_launch_find(&launch))
        return comm_create(ret, NULL, NULL, options, reterr);
    if (!*launch.mpi)
        return pst_fail(reterr, PST_EUNSUPPORTED, "srun started %u processes without MPI: use `srun --mpi=pmix` for Open MPI, or `srun --mpi=pmi2` "
                                                  "for MPICH", launch.ranks);
    const char *given = options->plugin;
    if (!find_plugin(given, launch.mpi, path, sizeof(path)))
        return pst_fail(reterr, PST_EUNSUPPORTED, "penstock-mpi-%s.so is not %s%.60s: install %s with its headers (Debian: lib%s-dev) and build "
                                                  "again, or name its folder in PENSTOCK_PLUGIN", launch.mpi, given ? "in " : "beside the library",
                        given ? given : "", strcmp(launch.mpi, "openmpi") == 0 ? "Open MPI" : "MPICH", launch.mpi);
    st = load(path, &transport, reterr);
    return st < 0 ? st : comm_create(ret, transport, NULL, options, reterr);
}
