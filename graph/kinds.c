/* kinds.c: kinds of nodes, such as text and picture: what a builder was told, and what a graph answers. */
#include "builder.h"
#include "load.h"

#include <string.h>

/* ---- lists of names ---- */

static int32_t find_kind(const kind_list *l, const char *name)
{
    int32_t i = 0;
    while (i < l->n && strcmp(l->name[i], name) != 0) i++;
    return i < l->n ? i : -1;
}

/* The number of the kind, which is a new one where none is called so. */
static hga_status note_kind(const hga_allocator *a, kind_list *l, const char *name, int32_t *kind)
{
    const size_t length = name ? strlen(name) : 0;
    if (length < 1 || length >= NAME_BYTES || !is_utf8(name, (int64_t)length))
        return hga_fail(HGA_EGRAPH, "a kind's name has 1 to %d bytes of UTF-8%s", NAME_BYTES - 1,
                        length ? "" : ", not 0");
    hga_status st = HGA_OK;
    *kind = find_kind(l, name);
    if (*kind >= 0) return st;
    HGA_TRY(hga_grow(a, &l->text, &l->room, l->n, (int64_t)l->n + 1, sizeof *l->text));
    memset(l->text[l->n], 0, NAME_BYTES), memcpy(l->text[l->n], name, length);
    HGA_TRY(hga_grow(a, &l->name, &l->name_room, l->n, (int64_t)l->n + 1, sizeof *l->name));
    *kind = l->n++;
    for (int32_t i = 0; i < l->n; i++) l->name[i] = l->text[i]; /* they may have moved */
done:
    return st;
}

void kinds_clear(const hga_allocator *a, kind_list *l)
{
    hga_delete(a, l->text, l->room, sizeof *l->text);
    hga_delete(a, l->name, l->name_room, sizeof *l->name);
    *l = (kind_list){0};
}

/* ---- the builder ---- */

hga_status hga_builder_set_kinds(hga_builder *b, hga_id first, hga_id n, const char *kind)
{
    hga_status st = HGA_OK;
    kinds_told told = {.first = first, .n = n};
    if (first < 0 || n < 0 || first > b->n - n)
        return hga_fail(HGA_EGRAPH, "kind: nodes %d .. %lld leave [0, %d)", first, (long long)first + n - 1, b->n);
    HGA_TRY(note_kind(&b->allocator, &b->kinds, kind, &told.kind));
    HGA_TRY(hga_grow(&b->allocator, &b->told, &b->told_room, b->n_told, b->n_told + 1, sizeof *b->told));
    b->told[b->n_told++] = told;
done:
    return st;
}

/* The names change hands. */
hga_status kinds_finish(hga_builder *b, hga_graph *g)
{
    if (b->n_told == 0) return HGA_OK;
    hga_status st = hga_new(&g->allocator, g->n, sizeof *g->kind, &g->kind);
    if (st) return st;
    for (hga_id v = 0; v < g->n; v++) g->kind[v] = -1;
    for (int64_t i = 0; i < b->n_told; i++)
        for (hga_id v = 0; v < b->told[i].n; v++) g->kind[b->told[i].first + v] = b->told[i].kind;
    g->kinds = b->kinds, b->kinds = (kind_list){0};
    return HGA_OK;
}

/* ---- the graph ---- */

hga_kinds hga_graph_kinds(const hga_graph *g)
{
    return (hga_kinds){g->kinds.n, (const char *const *)g->kinds.name, g->kind};
}

/* Kinds keep their numbers, so all are noted in their order first. */
hga_status kinds_take(const hga_graph *g, const char *const *kind, hga_id n, hga_graph *to)
{
    const hga_allocator *a = &to->allocator;
    hga_status st = HGA_OK;
    int32_t number;
    if (!g->kind && n == 0) return st;
    HGA_TRY(hga_new(a, g->n, sizeof *to->kind, &to->kind));
    for (int32_t i = 0; i < g->kinds.n; i++) HGA_TRY(note_kind(a, &to->kinds, g->kinds.name[i], &number));
    for (hga_id v = 0; v < g->n; v++) {
        to->kind[v] = g->kind ? g->kind[v] : -1;
        if (v < n && kind[v]) HGA_TRY(note_kind(a, &to->kinds, kind[v], &to->kind[v]));
    }
done:
    return st;
}

hga_status hga_graph_set_kinds(const hga_graph *g, const char *const *kind, hga_id n, hga_graph **out)
{
    *out = NULL;
    if (n < 0 || n > g->n) return hga_fail(HGA_EINVAL, "%d kinds for %d nodes", n, g->n);
    return graph_with_labels(g, NULL, 0, kind, n, out);
}
