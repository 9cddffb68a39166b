/* train_ranks.h: training by several processes that mpirun or srun started. */
#ifndef CLI_TRAIN_RANKS_H
#define CLI_TRAIN_RANKS_H

#include "cli/train_session.h"

/* Joins the other ranks, binds this process to its share of the cores, and shows the ranks. Without a launcher it does nothing. Returns
 * EXIT_DONE, or another exit code with the error printed. */
int ranks_open(struct train_session *s);
/* Rank 0's number on every rank. */
uint64_t ranks_agree(const struct train_session *s, uint64_t number);
/* Whether other ranks may wait for this one, which ends with `code` before the run is over. */
bool ranks_waiting(const struct train_session *s, int code);
/* Ends this rank's part; where others may wait for it, ends all ranks. */
void ranks_close(struct train_session *s, int code);
/* Sets the batches per rank and update of a run that is resumed with its `total` batches per update. */
int ranks_divide(const struct command *command, struct train_config *c, uint64_t total);

#endif
