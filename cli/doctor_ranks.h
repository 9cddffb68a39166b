/* doctor_ranks.h: measures a training job of several processes on this machine, for `penstock doctor --verify`. */
#ifndef CLI_DOCTOR_RANKS_H
#define CLI_DOCTOR_RANKS_H

#include "cli/pipeline_options.h"
#include <penstock/doctor.h>

/* A pst_doctor_ranks_fn: starts `penstock train`, by mpirun if there are several, with the options of the pipeline; `user` is the struct
 * pipeline_config. PST_EUNSUPPORTED: there is no mpirun, or it failed. */
pst_status doctor_run_ranks(void *user, const pst_doctor_ranks *job, double *ret_rate, pst_error *reterr);

#endif
