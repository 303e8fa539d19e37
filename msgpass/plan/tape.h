/* tape.h: what an execution stores for the gradient: a header, and the log-sum-exps of the output's rows. */
#ifndef HGA_PLAN_TAPE_H
#define HGA_PLAN_TAPE_H

#include "plan.h"
#include "ranges.h"

enum { TAPE_MAGIC = 0x31546748 };

typedef struct tape_header {
    uint64_t magic, identity, serial; /* the plan's: an update makes it one of another graph */
    requested_stamp requested;        /* the log-sum-exps of the other rows are -inf */
    uint64_t unused;
} tape_header;
_Static_assert(sizeof(tape_header) == 64, "rows begin at a whole line");

/* The log-sum-exps of the output's rows in the caller's tensor, [rows][n_heads], after the header. */
static inline float *tape_lse(void *tape) { return (float *)(void *)((char *)tape + sizeof(tape_header)); }
/* Their number; 0: the output is no softmax state. */
static inline int64_t tape_lses(const hga_plan *plan)
{
    hga_id out = program_bound(&plan->program, HGA_IO_OUT);
    int state = out && plan->program.field[out].width == HGA_WIDTH_STATE;
    return state ? (int64_t)plan->fields.storage[out].input_n * plan->shape.n_heads : 0;
}

#endif
