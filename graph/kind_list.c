/* kind_list.c: names of kinds, and a graph's kinds with some replaced. */
#include "graph.h"
#include "kind_list.h"
#include "load.h"

#include <string.h>

static const char *kind_name(const void *text, int64_t i) { return ((const char(*)[NAME_BYTES])text)[i]; }

/* Capacity for one more. Names point into the text, so they are set anew when it moves. */
static hga_status make_kind_capacity(const hga_allocator *a, kind_list *l)
{
    const int64_t had = l->capacity;
    hga_status st = hga_grow(a, &l->name, &l->name_capacity, l->n, (int64_t)l->n + 1, sizeof *l->name);
    if (!st) st = hga_grow(a, &l->text, &l->capacity, l->n, (int64_t)l->n + 1, sizeof *l->text);
    for (int32_t i = 0; l->capacity > had && i < l->n; i++) l->name[i] = l->text[i];
    return st;
}

/* The number of the kind; an unknown name is appended. */
hga_status kinds_note(const hga_allocator *a, kind_list *l, const char *name, int32_t *kind)
{
    const size_t length = name ? strlen(name) : 0;
    if (length < 1 || length >= NAME_BYTES || !is_utf8(name, (int64_t)length))
        return hga_fail(HGA_EGRAPH, "a kind's name has 1 to %d bytes of UTF-8%s", NAME_BYTES - 1,
                        length ? "" : ", not 0");
    hga_status st = HGA_OK;
    *kind = names_find(&l->index, l->text, kind_name, name);
    if (*kind >= 0) return st;
    HGA_TRY(make_kind_capacity(a, l));
    memset(l->text[l->n], 0, NAME_BYTES), memcpy(l->text[l->n], name, length);
    HGA_TRY(names_add(a, &l->index, l->text, kind_name));
    l->name[l->n] = l->text[l->n];
    *kind = l->n++;
done:
    return st;
}

void kinds_clear(const hga_allocator *a, kind_list *l)
{
    hga_delete(a, l->text, l->capacity, sizeof *l->text);
    hga_delete(a, l->name, l->name_capacity, sizeof *l->name);
    names_clear(a, &l->index);
    *l = (kind_list){0};
}

int64_t kinds_bytes(const kind_list *l)
{
    return l->capacity * (int64_t)sizeof *l->text + l->name_capacity * (int64_t)sizeof *l->name +
           l->index.n_slots * (int64_t)sizeof *l->index.slot;
}

/* Copies g's kinds to `to`, with kind[v] instead where it is set. All kinds of g are noted first, in their order, so
   that they keep their numbers. */
hga_status kinds_take(const hga_graph *g, const char *const *kind, hga_id n, hga_graph *to)
{
    const hga_allocator *a = &to->allocator;
    hga_status st = HGA_OK;
    int32_t number;
    if (!g->node.kind && n == 0) return st;
    HGA_TRY(hga_new(a, g->n, sizeof *to->node.kind, &to->node.kind));
    for (int32_t i = 0; i < g->kinds.n; i++) HGA_TRY(kinds_note(a, &to->kinds, g->kinds.name[i], &number));
    for (hga_id v = 0; v < g->n; v++) {
        to->node.kind[v] = g->node.kind ? g->node.kind[v] : -1;
        if (v < n && kind[v]) HGA_TRY(kinds_note(a, &to->kinds, kind[v], &to->node.kind[v]));
    }
done:
    return st;
}
