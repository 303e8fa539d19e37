/* addresses.c: see bound.h. Each function copies the field's numbers into registers: otherwise the compiler must
   reload them after each address it writes. */
#include "bound.h"

#include <string.h>

some_nodes nodes_of(hga_id n, const hga_id *list)
{
    hga_id i = 1;
    while (i < n && list[i] == list[0] + i) i++;
    return n > 0 && i == n ? nodes_from(n, list[0]) : (some_nodes){.n = n, .list = list};
}

/* ---- addresses ---- */

/* Writes the addresses of nodes [v, end) in the workspace to at[]. */
static void find_workspace_rows(const bound_field *field, hga_id v, hga_id end, float **at)
{
    const ptrdiff_t row = field->ws.row;
    const hga_id *slot = field->ws.slot;
    float *ws = field->ws.at;
    const hga_id first = field->ws.first;
    if (slot)
        for (; v < end; v++) *at++ = ws + slot[v - first] * row;
    else
        for (; v < end; v++) *at++ = ws + (v - first) * row;
}

static void find_callers_rows(const bound_field *field, hga_id v, hga_id end, float **at)
{
    const ptrdiff_t row = field->io.row;
    if (v >= end) return; /* there may be no tensor */
    for (float *io = field->io.at + (v - field->io.first) * row; v < end; v++, io += row) *at++ = io;
}

static hga_id within(hga_id x, hga_id least, hga_id most) { return x < least ? least : x > most ? most : x; }

/* Row addresses of nodes, in the workspace or the caller's tensor: contiguous nodes split into at most three ranges
   (workspace, caller's, workspace); lists are looked up one by one. */
void find_rows(const bound_field *field, some_nodes of, float **at)
{
    const bound_field x = *field;
    const hga_id first = of.first, end = first + of.n;
    if (of.list || x.ws.borrowed || x.io.slot || x.io.fold) {
        for (hga_id i = 0; i < of.n; i++) at[i] = bound_row(&x, node_of(&of, i));
        return;
    }
    const hga_id io = within(x.io.first, first, end), io_end = within(x.io.first + x.io.n, io, end);
    find_workspace_rows(&x, first, io, at);
    find_callers_rows(&x, io, io_end, at + (io - first));
    find_workspace_rows(&x, io_end, end, at + (io_end - first));
}

void find_lses(const bound_field *field, some_nodes of, float **at)
{
    const bound_field x = *field;
    for (hga_id i = 0; i < of.n; i++) at[i] = bound_lse(&x, node_of(&of, i));
}

/* ---- scalars ---- */

/* Rows of [heads] from `rows` on, indexed by slot; contiguous slots are copied in one call. */
typedef struct scalar_rows {
    float *rows;
    const hga_id *slot;
    hga_id first, heads;
} scalar_rows;

static inline hga_id place_of(const scalar_rows *x, const some_nodes *of, hga_id i)
{
    const hga_id at = node_of(of, i) - x->first;
    return x->slot ? x->slot[at] : at;
}

static inline void copy(hga_id n, const float *from, float *to)
{
    if (n == 1)
        *to = *from;
    else
        memcpy(to, from, (size_t)n * sizeof *to);
}

/* `stores` is a compile-time constant: one loop for loads and one for stores. */
static inline __attribute__((always_inline)) void move_scalars(scalar_rows x, some_nodes of, float *scalars, int stores)
{
    for (hga_id i = 0, end; i < of.n; i = end) {
        const hga_id index = place_of(&x, &of, i);
        for (end = i + 1; end < of.n && place_of(&x, &of, end) == index + (end - i);) end++;
        float *at = x.rows + (ptrdiff_t)index * x.heads, *mine = scalars + (ptrdiff_t)i * x.heads;
        stores ? copy((end - i) * x.heads, mine, at) : copy((end - i) * x.heads, at, mine);
    }
}

static scalar_rows lses_of(const bound_field *x)
{
    return (scalar_rows){x->lse.at, x->lse.slot, x->lse.first, x->heads};
}

void load_lses(const bound_field *field, some_nodes of, float *to) { move_scalars(lses_of(field), of, to, 0); }

void store_lses(const bound_field *field, some_nodes of, const float *from)
{
    move_scalars(lses_of(field), of, (float *)from, 1);
}

/* Whether the field's rows can be addressed as scalar_rows. */
static int are_scalar_rows(const bound_field *x)
{
    return !x->io.n && !x->ws.borrowed && x->ws.head == 1 && x->ws.row == x->heads;
}

static scalar_rows rows_of(const bound_field *x) { return (scalar_rows){x->ws.at, x->ws.slot, x->ws.first, x->heads}; }

/* Reads rows of a field of scalars into [nodes][heads]. */
void load_scalars(const bound_field *field, some_nodes of, float *to)
{
    if (are_scalar_rows(field)) {
        move_scalars(rows_of(field), of, to, 0);
        return;
    }
    for (hga_id i = 0; i < of.n; i++) {
        const hga_id v = node_of(&of, i);
        for (hga_id h = 0; h < field->heads; h++) *to++ = bound_row(field, v)[h * bound_head(field, v)];
    }
}

/* Writes rows of a field of scalars from [nodes][heads]. */
void store_scalars(const bound_field *field, some_nodes of, const float *from)
{
    if (are_scalar_rows(field)) {
        move_scalars(rows_of(field), of, (float *)from, 1);
        return;
    }
    for (hga_id i = 0; i < of.n; i++) {
        const hga_id v = node_of(&of, i);
        for (hga_id h = 0; h < field->heads; h++) bound_row(field, v)[h * bound_head(field, v)] = *from++;
    }
}

/* ---- families of contiguous nodes, whose children are found together ---- */

static const hga_id no_children[CHILDREN_AT_ONCE + 1];

static const hga_id *children_from(const hga_nodes *nodes, hga_id v)
{
    const hga_id tokens = nodes->level_ptr[1];
    return !nodes->child_ptr || v < tokens ? no_children : nodes->child_ptr + (v - tokens);
}

static void find_masses(const hga_nodes *nodes, some_families *out)
{
    const some_nodes *of = &out->children;
    out->mass = nodes->mass + of->first;
    if (!of->list) return;
    for (hga_id i = 0; i < of->n; i++) out->buffer[i] = nodes->mass[of->list[i]];
    out->mass = out->buffer;
}

hga_id take_families(const hga_nodes *nodes, hga_id most, hga_id n, const hga_id *node, some_families *out)
{
    const hga_id *ptr = children_from(nodes, node[0]), tokens = nodes->level_ptr[1];
    hga_id i = 0;
    if (n > CHILDREN_AT_ONCE) n = CHILDREN_AT_ONCE;
    if (node[0] < tokens && n > tokens - node[0]) n = tokens - node[0];
    while (i < n && node[i] == node[0] + i && ptr[i + 1] - ptr[i] < KERNEL_CHUNK && ptr[i + 1] - ptr[0] <= most) i++;
    out->parents = nodes_from(i, node[0]), out->ptr = ptr;
    out->children = (some_nodes){ptr[i] - ptr[0], ptr[0], nodes->child_list ? nodes->child_list + ptr[0] : NULL};
    find_masses(nodes, out);
    return i;
}
