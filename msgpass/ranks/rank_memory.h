/* rank_memory.h: a rank's memory of an execution in its workspace (workspace->shared). */
#ifndef RANK_MEMORY_H
#define RANK_MEMORY_H

#include "plan.h"
#include "ranks.h"
#include "stages.h"
#include "workspace.h"

typedef struct rank_memory {
    char *sent, *received;
    hga_packet *packet; /* a message's */
    rank_words *call;
    char *merged;    /* of a split: is it merged? */
    hga_io staged;   /* stages' tensors in place of the caller's */
    uint32_t copied; /* bit f: stages have a copy of field f */
} rank_memory;

static inline rank_memory *memory_of(const hga_workspace *workspace) { return workspace->shared.at; }

/* ---- rank_stage.c ---- */

/* Bytes of the memory of an execution. */
int64_t rank_memory_bytes(const hga_plan *plan);
/* Points *io, the caller's tensors, to those that stages read and write: tensors of 16 bits become widened copies, in
   spare memory of the workspace. */
hga_status rank_stage(const hga_plan *plan, hga_workspace *workspace, const hga_io **io);
/* Copies what stages have written to copies back to the caller's tensors. */
void rank_give_back(const hga_plan *plan, const hga_workspace *workspace, const hga_io *io);

#endif
