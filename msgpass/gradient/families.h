/* families.h: the backward pass of programs that coarsen queries, keys and values up the tree, attend among
   siblings, and hand down what energies leave (energy, descend): all heads at once, a family at a time, from the
   caller's own rows.

   families.c        the call: which plans, memory, threads
   family_order.c    which edges families have, and in which order families are taken
   family_steps.c    what is computed of a family on the way up and on the way down */
#ifndef HGA_GRADIENT_FAMILIES_H
#define HGA_GRADIENT_FAMILIES_H

#include "plan.h"
#include "solvers.h"

/* What is coarsened: queries, keys, values; and the output's gradients, which are summed. */
enum { Q, K, V, G, N_COARSE };

/* Rows of a field: tokens' are the caller's, those above them in the workspace, with heads contiguous. */
typedef struct family_rows {
    int needs_grad; /* of gradients: else it has no rows at all */
    float *io;      /* NULL: a gradient that is not required */
    ptrdiff_t io_row, io_head;
    hga_id heads, columns;
    ptrdiff_t head, row; /* floats of those above */
    float *above;        /* [nodes above the tokens] */
    int mean, by_mass;   /* how parents are made of children: a mean or a sum */
} family_rows;

/* Families that no other share's depend on but by what is above: [first, end) of both orders. */
typedef struct family_share {
    hga_id first, end;
} family_share;

/* Which families there are. Positions are those of children, family after family: of node v's from index_of(v). */
typedef struct family_order {
    const hga_plan *plan;
    hga_nodes nodes;
    hga_id base, n_above; /* nodes from base on are above the tokens */
    uint64_t *columns;    /* [positions]: bit i: an edge to member i of the family */
    hga_pos *edge_ptr;    /* [n_above + 1]: how many edges the families of the nodes before have */
    hga_id *up, *down;    /* [n_above]: node after node, each before its parent; and after it */
    hga_id *slot;         /* [n_above]: which row its gradients have for as long as they are needed; -1: none */
    family_share *share;  /* [n_shares]; the last has the families above all others' */
    hga_id n_shares, n_slots, n_top_slots; /* slots of a share; those of the last begin after them */
    int64_t share_capacity;
} family_order;

/* Where the stages are. */
typedef struct family_stages {
    hga_id coarsen[G], attend, energy, descend;
} family_stages;

/* What the solver makes once. */
typedef struct made_families {
    family_stages at;
    family_order order;
} made_families;

typedef struct families {
    const gradient_call *call;
    const hga_plan *plan;
    family_order order;
    hga_id heads, first_head;      /* those that run backward here */
    family_rows x[N_COARSE], d[G]; /* values; gradients of those of Q, K, V */
    double *d_scale;               /* [shares][heads] */
    float *bias;                   /* [positions], base 2 */
    float *lse, *mean;             /* [positions][heads]: see kernel_siblings */
    float *product, *product_v;    /* [edges][heads], the same, from the pass up to the pass down; NULL: not cached */
    float *psi, *inside, *keep, *d_psi; /* [n_above][heads]: energies, what is lost of what passes inside, what does */
    const table_sums *sums;             /* [key/value heads], of those that run backward here */
    kernel_draw draw;                   /* of dropout */
    const float *node_pos;              /* NULL: scores have no positions */
} families;

/* What a thread has: rows of gradients, [n_slots] of each; of a family's members, [members][heads]: energies, shares of
   their own state and of what is inside, and what kernel_siblings calls upstream and delta. */
enum { FAMILY_SCALARS = KERNEL_SIBLINGS * KERNEL_HEADS, FAMILY_PAIRS = KERNEL_SIBLINGS * KERNEL_SIBLINGS };
typedef struct family_thread {
    float *slots[G];
    float *psi, *mine, *rest, *upstream, *delta;
    float *pair;     /* products of members' positions; NULL without positions */
    float *d_score;  /* [members][members][heads]: gradients of scores; NULL: no table needs them */
    double *d_scale; /* [heads], of the share at hand; NULL: not required */
} family_thread;

static inline hga_id index_of(const family_order *o, hga_id v) { return o->nodes.child_ptr[v - o->base]; }
static inline hga_id members_of(const family_order *o, hga_id v)
{
    return o->nodes.child_ptr[v - o->base + 1] - o->nodes.child_ptr[v - o->base];
}
static inline hga_id member_at(const family_order *o, hga_id index)
{
    return o->nodes.child_list ? o->nodes.child_list[index] : index;
}

/* ---- family_order.c ---- */

/* The order of the families whose edges are the relation's; or *why it has other edges, or families with too many
   members. order_clear frees it, whatever the outcome. */
hga_status order_create(const hga_plan *plan, hga_id relation, family_order *o, const char **why);
/* Frees the order; a zeroed one is accepted. */
void order_clear(family_order *o);

/* ---- family_steps.c ---- */

/* Computes from node v's children the means of their scores, v's energy, and v's coarse rows. Each node comes
   before its parent. */
void family_up(families *f, hga_id v, const family_thread *l);
/* Passes v's gradients on to its children and computes theirs; accumulates tables' gradients. Each node comes after its
   parent. */
void family_down(families *f, hga_id v, const family_thread *l);

#endif
