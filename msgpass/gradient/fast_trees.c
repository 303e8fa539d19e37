/* fast_trees.c: means and sums of a node's children in place, and their adjoints: no edge is listed for them. */
#include "fast.h"

#include <string.h>

int is_of_children(const hga_stage *s)
{
    return s->relation == HGA_TREE_UP && s->value == s->out && s->message != HGA_SCALED;
}

/* A node's children, n of them, and what each is multiplied with. */
typedef struct brood {
    hga_id n, first;
    const hga_id *list; /* [n]; NULL: the ids from `first` on */
    double total;
} brood;

static brood find_brood(const fast_pass *p, const hga_stage *s, hga_id v)
{
    const hga_nodes *nodes = &p->nodes;
    brood b = {.total = 1};
    if (!nodes->child_ptr) return b;
    const hga_id *ptr = nodes->child_ptr + (v - nodes->level_ptr[1]);
    b.n = ptr[1] - ptr[0], b.first = ptr[0], b.list = nodes->child_list ? nodes->child_list + ptr[0] : NULL;
    if (s->reduce != HGA_MEAN) return b;
    b.total = s->by_mass ? 0 : b.n;
    for (hga_id i = 0; i < b.n && s->by_mass; i++) b.total += (double)nodes->mass[b.list ? b.list[i] : b.first + i];
    return b;
}

/* Of children [at, at + n): rows of x, and weights. */
static void find_part(const fast_pass *p, const hga_stage *s, const brood *b, hga_id at, hga_id n, float *x,
                      float **row, float *weight)
{
    int by_mass = s->reduce == HGA_MEAN && s->by_mass;
    ptrdiff_t columns = p->field[s->out].padded;
    double share = 1 / b->total;
    for (hga_id i = 0; i < n; i++) {
        hga_id u = b->list ? b->list[at + i] : b->first + at + i;
        row[i] = x + u * columns, weight[i] = (float)((by_mass ? (double)p->nodes.mass[u] : 1) * share);
    }
}

static void sum_children(const fast_pass *p, const hga_stage *s, const brood *b, float *y)
{
    hga_id columns = p->field[s->out].padded;
    float *row[KERNEL_CHUNK], weight[KERNEL_CHUNK];
    if (b->n == 0 || !(b->total > 0)) memset(y, 0, (size_t)columns * sizeof *y);
    for (hga_id at = 0; at < b->n && b->total > 0; at += KERNEL_CHUNK) {
        hga_id n = b->n - at < KERNEL_CHUNK ? b->n - at : KERNEL_CHUNK;
        find_part(p, s, b, at, n, p->field[s->out].value, row, weight);
        if (at == 0)
            p->plan->kernels->weigh(n, (const float *const *)row, 0, weight, 1, columns, y);
        else
            p->plan->kernels->sum(n, (const float *const *)row, 0, weight, columns, y);
    }
}

static void give_children(const fast_pass *p, const hga_stage *s, const brood *b, const float *dy)
{
    float *row[KERNEL_CHUNK], weight[KERNEL_CHUNK];
    int is_number = p->field[s->out].padded == 1; /* which the kernel, whose rows are padded, does not know */
    for (hga_id at = 0; at < b->n && b->total > 0; at += KERNEL_CHUNK) {
        hga_id n = b->n - at < KERNEL_CHUNK ? b->n - at : KERNEL_CHUNK;
        find_part(p, s, b, at, n, p->field[s->out].adjoint, row, weight);
        for (hga_id i = 0; is_number && i < n; i++) *row[i] += weight[i] * *dy;
        if (!is_number) p->plan->kernels->give(n, p->field[s->out].padded, weight, dy, row);
    }
}

void fast_children(fast_pass *p, const hga_stage *s, int backwards)
{
    const fast_field *x = &p->field[s->out];
    hga_id first = p->nodes.level_ptr[1], n = p->nodes.n - first;
    for (hga_id i = 0; i < n; i++) {
        hga_id v = backwards ? p->nodes.n - 1 - i : first + i;
        if (!program_row(&p->nodes, p->program->field[s->out].rows, v)) continue;
        brood b = find_brood(p, s, v);
        if (!backwards) sum_children(p, s, &b, x->value + (ptrdiff_t)v * x->padded);
        if (!backwards) continue;
        float *dy = adjoint_row(p, s->out, v);
        give_children(p, s, &b, dy);
        if (is_read_again(p, s, v)) memset(dy, 0, (size_t)x->padded * sizeof *dy);
    }
}
