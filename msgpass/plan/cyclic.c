/* cyclic.c: partitions tokens among threads: a run for each thread, or blocks dealt out in turn ("block-cyclic").

   Where rows see all previous tokens through means, no row of a second run can attend before all means of the first one
   are present. Threads with a run each would then make all means, and read keys and values from memory once more. Dealt
   out in turn, blocks are so small that what a thread has summed into means is still in its cache when it attends
   there, a wave later. */
#include "partition.h"

/* A block has several panels of rows. Waves are a pipeline that fills and drains: a thread is idle in one of so many
   rounds. */
enum { LEAST_BLOCK = 64, LEAST_ROUNDS = 16 };

/* Bytes of a token in the fields that are coarsened and attended. 0: none, or a stage reads down the tree, which needs
   all of a tree. */
static int64_t coarsened_bytes(const hga_plan *plan)
{
    int64_t bytes = 0;
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        const hga_stage *stage = &plan->program.stage[s];
        const field_storage *out = &plan->fields.storage[stage->out];
        if (stage->order != HGA_FLAT && stage->relation != HGA_TREE_UP) return 0;
        if (stage->order != HGA_FLAT) bytes += (int64_t)out->heads * out->columns * (int64_t)sizeof(float);
    }
    return bytes;
}

/* Whether the highest node spans at least half as many tokens as a thread's run. Of many small trees a thread may have
   some for itself. */
static int is_one_tree(const hga_plan *plan)
{
    const hga_nodes *n = &plan->nodes;
    const hga_id top = n->n - 1;
    return 2 * plan->team.n * ((int64_t)n->span_last[top] - n->span_first[top] + 1) > n->level_ptr[1];
}

/* Tokens of a block; 0: each thread has one run. On several domains rows are in the memory of the thread that owns the
   run. */
hga_id cyclic_tokens(const hga_plan *plan)
{
    const hga_nodes *n = &plan->nodes;
    if (plan->team.n == 1 || plan_is_shared(plan) || topology_domains(plan->machine.topology) > 1) return 0;
    if (!(n->claims & HGA_CLAIM_CAUSAL) || n->n_levels < 2 || !is_one_tree(plan)) return 0;
    const int64_t bytes = coarsened_bytes(plan), fit = bytes ? plan->machine.tuning.is.cyclic_bytes / (2 * bytes) : 0;
    int64_t tokens = LEAST_BLOCK;
    while (2 * tokens <= fit) tokens *= 2;
    return bytes && LEAST_ROUNDS * tokens * plan->team.n <= n->level_ptr[1] ? (hga_id)tokens : 0;
}
