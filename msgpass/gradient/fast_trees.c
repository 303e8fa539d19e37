/* fast_trees.c: means and sums of a node's children in place, and their adjoints: no edge is listed for them. */
#include "fast_trees.h"
#include "carve.h"

#include <string.h>

int is_of_children(const hga_stage *s)
{
    return s->relation == HGA_TREE_UP && s->value == s->out && s->message != HGA_SCALED;
}

/* The divisor of the sum over a node's children. */
static double total_of(const fast_pass *p, const hga_stage *s, const brood *b)
{
    if (s->reduce != HGA_MEAN) return 1;
    double total = s->by_mass ? 0 : b->n;
    for (hga_id i = 0; i < b->n && s->by_mass; i++) total += (double)p->nodes.mass[b->list ? b->list[i] : b->first + i];
    return total;
}

/* Finds the rows of x and the weights of children [at, at + n). */
static void find_brood(const fast_pass *p, const hga_stage *s, const brood *b, double total, hga_id at, hga_id n,
                       float *x, float **row, float *weight)
{
    int by_mass = s->reduce == HGA_MEAN && s->by_mass;
    ptrdiff_t columns = p->field[s->out].padded;
    double share = 1 / total;
    for (hga_id i = 0; i < n; i++) {
        hga_id u = b->list ? b->list[at + i] : b->first + at + i;
        row[i] = x + u * columns, weight[i] = (float)((by_mass ? (double)p->nodes.mass[u] : 1) * share);
    }
}

/* The weighted sum of a family's rows, KERNEL_CHUNK at a time; zeros for a family without mass. */
static void sum_children(const fast_pass *p, const hga_stage *s, const brood *b, float *y)
{
    hga_id columns = p->field[s->out].padded;
    float *row[KERNEL_CHUNK], weight[KERNEL_CHUNK];
    double total = total_of(p, s, b);
    if (b->n == 0 || !(total > 0)) memset(y, 0, (size_t)columns * sizeof *y);
    for (hga_id at = 0; at < b->n && total > 0; at += KERNEL_CHUNK) {
        hga_id n = b->n - at < KERNEL_CHUNK ? b->n - at : KERNEL_CHUNK;
        find_brood(p, s, b, total, at, n, p->field[s->out].value, row, weight);
        if (at == 0)
            p->plan->machine.kernels->weigh(n, (const float *const *)row, 0, weight, 1, columns, y);
        else
            p->plan->machine.kernels->sum(n, (const float *const *)row, 0, weight, columns, y);
    }
}

/* Adds the parent's gradient, weighted, to each member's. */
static void give_children(const fast_pass *p, const hga_stage *s, const brood *b, const float *dy)
{
    float *row[KERNEL_CHUNK], weight[KERNEL_CHUNK];
    double total = total_of(p, s, b);
    int is_number = p->field[s->out].padded == 1; /* the kernel knows only padded rows */
    for (hga_id at = 0; at < b->n && total > 0; at += KERNEL_CHUNK) {
        hga_id n = b->n - at < KERNEL_CHUNK ? b->n - at : KERNEL_CHUNK;
        find_brood(p, s, b, total, at, n, p->field[s->out].adjoint, row, weight);
        for (hga_id i = 0; is_number && i < n; i++) *row[i] += weight[i] * *dy;
        if (!is_number) p->plan->machine.kernels->give(n, p->field[s->out].padded, weight, dy, row);
    }
}

/* Is a row of a sum's adjoint read again: by an earlier stage, or as a gradient of the caller's input? */
int is_read_again(const fast_pass *p, const hga_stage *stage, hga_id v)
{
    hga_id first, n;
    int again = 0;
    for (const hga_stage *s = p->program->stage; s < stage; s++)
        again |= (int)((s->reads | s->writes) >> stage->out & 1u);
    if (again || !program_is_input(p->program->field[stage->out].binding)) return again;
    n = field_io(p->plan, stage->out, &first);
    return v >= first && v < first + n;
}

/* Forward, each node gets its children's sum; backward, children get their shares of its gradient. */
void fast_children(fast_pass *p, const hga_stage *s, int backwards)
{
    const fast_field *x = &p->field[s->out];
    hga_id first = p->nodes.level_ptr[1];
    for (node_walk w = {0}; node_next(p, backwards, &w);) {
        hga_id v = w.v;
        if (v < first || !program_row(&p->nodes, p->program->field[s->out].rows, v)) continue;
        brood b = brood_of(&p->nodes, v);
        if (!backwards) sum_children(p, s, &b, x->value + (ptrdiff_t)v * x->padded);
        if (!backwards) continue;
        float *dy = adjoint_row(p, s->out, v);
        give_children(p, s, &b, dy);
        if (is_read_again(p, s, v)) memset(dy, 0, (size_t)x->padded * sizeof *dy);
    }
}

int families_lie_together(const hga_program *p, const hga_nodes *nodes, hga_id f)
{
    hga_field_rows rows = p->field[f].rows;
    int all = rows == HGA_ROWS_NODES || (!nodes->side && (rows == HGA_ROWS_QUERY_SIDE || rows == HGA_ROWS_KEY_SIDE));
    return all && nodes->child_ptr && !nodes->child_list;
}

static int lies_side_by_side(const fast_pass *p, hga_id f) { return families_lie_together(p->program, &p->nodes, f); }

/* Sums families: contiguous ones by one kernel, others node by node. */
void sum_families(const fast_pass *p, hga_id f, row_range nodes)
{
    const fast_field *x = &p->field[f];
    const subtrees *t = p->call->subtrees;
    if (nodes.first >= nodes.end) return;
    if (lies_side_by_side(p, f)) {
        const hga_id *ptr = p->nodes.child_ptr + (nodes.first - p->nodes.level_ptr[1]);
        const float *share = t->share[f] ? t->share[f] + ptr[0] : NULL;
        p->plan->machine.kernels->gather(nodes.end - nodes.first, ptr, share, value_row(p, f, ptr[0]), x->padded,
                                         value_row(p, f, nodes.first));
        return;
    }
    for (hga_id v = nodes.first; v < nodes.end; v++) {
        if (!program_row(&p->nodes, p->program->field[f].rows, v)) continue;
        brood b = brood_of(&p->nodes, v);
        sum_children(p, &p->program->stage[t->sum[f]], &b, x->value + (ptrdiff_t)v * x->padded);
    }
}

/* Scatters to families: contiguous ones by one kernel, others node by node. */
void give_families(const fast_pass *p, hga_id f, row_range nodes, const direct_rows *out)
{
    const fast_field *x = &p->field[f];
    const subtrees *t = p->call->subtrees;
    if (nodes.first >= nodes.end) return;
    if (lies_side_by_side(p, f)) {
        const hga_id *ptr = p->nodes.child_ptr + (nodes.first - p->nodes.level_ptr[1]);
        const float *share = t->share[f] ? t->share[f] + ptr[0] : NULL;
        float *own = x->adjoint + (ptrdiff_t)ptr[0] * x->padded;
        p->plan->machine.kernels->scatter(
            nodes.end - nodes.first, ptr, share, x->adjoint + (ptrdiff_t)nodes.first * x->padded, x->padded, own,
            out ? out->stride : x->padded, out ? out->put : KERNEL_WRITE, out ? out->first : own);
        return;
    }
    for (hga_id v = nodes.first; v < nodes.end; v++) {
        if (!program_row(&p->nodes, p->program->field[f].rows, v)) continue;
        brood b = brood_of(&p->nodes, v);
        give_children(p, &p->program->stage[t->sum[f]], &b, x->adjoint + (ptrdiff_t)v * x->padded);
    }
}

int are_children_of(const fast_pass *p, hga_id f, row_range nodes, row_range parents)
{
    const hga_id *ptr = p->nodes.child_ptr;
    hga_id base = p->nodes.level_ptr[1];
    return lies_side_by_side(p, f) && ptr[parents.first - base] == nodes.first && ptr[parents.end - base] == nodes.end;
}
