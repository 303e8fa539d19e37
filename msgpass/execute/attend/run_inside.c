/* run_inside.c: attention with the energies of the inside, which are available once the level below is done: sixteens
   of equal families by the family kernel, other rows one by one. The choice depends on the sixteen alone. */
#include "bound.h"
#include "tree_stages.h"
#include "inside.h"
#include "plan.h"
#include "stage_kernel.h"
#include "stages.h"
#include "unknowns.h"

#include <math.h>

/* Whether the kernel supports all features of the call. */
static int is_simple(const worker *w)
{
    enum { UNKNOWN = CALL_HAS_TYPES | CALL_HAS_POSITIONS | CALL_HAS_SLOPES | CALL_HAS_EDGE_BIASES };
    return !(w->workspace->call_has & UNKNOWN) && w->plan->shape.n_heads <= KERNEL_HEADS && !scores_are_sums(w->plan);
}

/* Whether the nodes are sixteen contiguous ones of which some row is computed; the others go into x->left_out. */
static int are_sixteen(const hga_id *node, hga_id first, inside_rows *x)
{
    x->left_out = 0;
    for (hga_id i = 0; i < KERNEL_TILE; i++) {
        if (row_node(node[i]) != first + i) return 0;
        if (node[i] < 0) x->left_out |= 1u << i;
    }
    return x->left_out != (1u << KERNEL_TILE) - 1;
}

/* Computes the energies of the inside, then the rows, whose energies replace them. */
static void run_families_inside(worker *w, hga_id stage, hga_id first, const hga_id *node, inside_rows *x)
{
    const hga_stage *s = stage_of(w, stage);
    const bound_field *out = field(w, s->out), *gate = field(w, s->gate);
    find_rows(gate, nodes_from(KERNEL_TILE, first), x->energy);
    energies_of_families(w, gate, out, KERNEL_TILE, node);
    run_sixteen(w, stage, first, x);
}

static void run_one_by_one(worker *w, hga_id stage, hga_id n, const hga_id *node)
{
    for (hga_id i = 0; i < n; i++)
        if (node[i] >= 0) inside_row(w, &(row_job){.stage = stage, .v = node[i], .count = INT64_MAX, .split = -1});
}

/* Sixteen rows at a time: equal families by the kernel, others one by one. */
void inside_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node)
{
    const bound_field *gate = field(w, stage_of(w, stage)->gate);
    inside_rows x = {.alpha = (float)program_alpha(&w->plan->program)};
    const int whole = is_simple(w) && find_equal(w, stage, first, n);
    for (hga_id at = 0; at < n; at += KERNEL_TILE) {
        const hga_id m = n - at < KERNEL_TILE ? n - at : KERNEL_TILE;
        if (m == KERNEL_TILE && is_simple(w) && bound_head(gate, first + at) == 1 &&
            are_sixteen(node + at, first + at, &x) && (whole || find_equal(w, stage, first + at, m)))
            run_families_inside(w, stage, first + at, node + at, &x);
        else
            run_one_by_one(w, stage, m, node + at);
    }
}
