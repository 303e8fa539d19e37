/* energies.c: energies of families, up the tree: psi[v] = sum of mass log(e^psi + e^LSE) over the children, by mass
   (Amizadeh et al. 2025, eq. 8-10, as log-likelihoods). A child has two scalars a head and needs one logarithm of them:
   so the kernel computes children of many families at once, and their results are summed family by family, in double,
   since a family may be large. */
#include "bound.h"
#include "tree_stages.h"
#include "stages.h"
#include "worker.h"

#include <math.h>

typedef struct energy_fields {
    worker *w;
    const bound_field *psi, *state;
    double *sum, total; /* of the current family: [heads], and its mass */
} energy_fields;

/* log(e^psi + e^LSE) of nodes, [nodes][heads]. */
static float *find_energies(const energy_fields *x, some_nodes of)
{
    float *own = x->w->rows.scalars[0], *theirs = x->w->rows.scalars[1];
    load_scalars(x->psi, of, own);
    load_lses(x->state, of, theirs);
    x->w->plan->machine.kernels->log_add(of.n * x->psi->heads, own, theirs, own);
    return own;
}

static void begin_family(energy_fields *x)
{
    for (hga_id h = 0; h < x->psi->heads; h++) x->sum[h] = 0;
    x->total = 0;
}

/* Children of mass 0 contribute nothing, whatever their values. */
static void add_children(energy_fields *x, hga_id n, const float *energy, const float *mass)
{
    x->w->plan->machine.kernels->energies(n, x->psi->heads, energy, mass, x->sum);
    for (hga_id i = 0; i < n; i++) x->total += (double)mass[i];
}

static void finish_family(const energy_fields *x, hga_id v)
{
    const ptrdiff_t head = bound_head(x->psi, v);
    float *out = bound_row(x->psi, v);
    for (hga_id h = 0; h < x->psi->heads; h++) out[h * head] = x->total > 0 ? (float)(x->sum[h] / x->total) : -INFINITY;
}

static void add_families(energy_fields *x, const some_families *f)
{
    const float *energy = find_energies(x, f->children);
    for (hga_id i = 0; i < f->parents.n; i++) {
        const hga_id at = f->ptr[i] - f->ptr[0];
        begin_family(x);
        add_children(x, f->ptr[i + 1] - f->ptr[i], energy + (ptrdiff_t)at * x->psi->heads, f->mass + at);
        finish_family(x, f->parents.first + i);
    }
}

/* Computes a family with more children than one batch, batch by batch. */
static void add_large_family(energy_fields *x, hga_id most, hga_id v)
{
    const hga_nodes *nodes = &x->w->plan->nodes;
    const hga_id *list = NULL;
    hga_id first = 0, n = children_of(nodes, v, &list, &first), child[CHILDREN_AT_ONCE];
    float mass[CHILDREN_AT_ONCE];
    begin_family(x);
    for (hga_id at = 0, some; at < n; at += some) {
        for (some = 0; some < most && at + some < n; some++)
            child[some] = child_number(list, first, at + some), mass[some] = nodes->mass[child[some]];
        add_children(x, some, find_energies(x, nodes_of(some, child)), mass);
    }
    finish_family(x, v);
}

/* Computes energies of the nodes' families: contiguous families in one batch up to its capacity; a larger one alone. */
void energies_of_families(worker *w, const bound_field *psi, const bound_field *state, hga_id n, const hga_id *node)
{
    const hga_id capacity = w->rows.lanes / psi->heads,
                 most = capacity < CHILDREN_AT_ONCE ? capacity : CHILDREN_AT_ONCE;
    energy_fields x = {.w = w, .psi = psi, .state = state, .sum = w->plain.numbers};
    some_families f;
    for (hga_id at = 0, taken; at < n; at += taken) {
        if (node[at] < 0) {
            taken = 1;
            continue;
        }
        taken = take_families(&w->plan->nodes, most, n - at, node + at, &f);
        if (taken)
            add_families(&x, &f);
        else
            add_large_family(&x, most, node[at]), taken = 1;
    }
}

void energy_panel(worker *w, hga_id stage, hga_id first, hga_id n, const hga_id *node)
{
    const hga_stage *s = stage_of(w, stage);
    (void)first;
    energies_of_families(w, field(w, s->out), field(w, s->value), n, node);
}
