/* world.h: the processes of this command that mpirun has started, its ranks. Alone, as most often, nothing of this does
   anything. What is wrong is said once: complaints are kept until the ranks agree that there is one. */
#ifndef CLI_WORLD_H
#define CLI_WORLD_H

#include "hga_exchange.h"

/* Meet the other ranks, where mpirun has started this process; ranks above 0 have no standard output from then on. */
int world_open(const char *command);
/* Part with them, with a status that all have. */
int world_close(int status);

hga_id world_ranks(void); /* 1 alone */
hga_id world_rank(void);
/* Does this rank say what all know? */
int world_speaks(void);

/* Threads for each rank, where `typed` is 0: the processors of the machine among the ranks that are on it. */
hga_id world_threads(hga_id typed);

/* The same status for all ranks: that of the lowest rank that has one, whose complaint rank 0 prints. Every rank calls
   it at the same points; once it is not good, it is so for ever and nobody waits any more. Ranks of other commands, and
   those that part while others go on, are a complaint. */
int world_agree(int status);
/* Every rank's `bytes` bytes to every rank, by rank. */
int world_gather(const void *mine, int64_t bytes, void *all);
/* What the engine talks by. */
const hga_exchange *world_exchange(void);

#endif
