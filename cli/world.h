/* world.h: the processes of this command that mpirun has started, its ranks. Without mpirun, as most often, these
   functions do nothing. An error is printed once: complaints are kept until the ranks agree that there is one. */
#ifndef CLI_WORLD_H
#define CLI_WORLD_H

#include "hga_exchange.h"

/* Meets the other ranks, if mpirun has started this process; ranks above 0 have no standard output from then on. */
int world_open(const char *command);
/* Leaves them, with a status that all have. */
int world_close(int status);

hga_id world_ranks(void); /* 1 alone */
hga_id world_rank(void);
/* Does this rank print what all know? */
int world_speaks(void);

/* Threads for each rank, if `typed` is 0: the processors of the machine divided by the ranks on it. */
hga_id world_threads(hga_id typed);

/* The same status for all ranks: that of the lowest rank that has one, whose complaint rank 0 prints. Every rank
   calls it at the same points; once it is not good, it stays so and no rank waits any more. Ranks of other commands,
   and those that leave before others, are a complaint. */
int world_agree(int status);
/* Every rank's `bytes` bytes to every rank, by rank. */
int world_gather(const void *mine, int64_t bytes, void *all);
/* The exchange for calls of the library. */
const hga_exchange *world_exchange(void);

#endif
