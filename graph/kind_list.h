/* kind_list.h: kinds of nodes by name (kind_list.c), and graphs with other names (labels.c). */
#ifndef KIND_LIST_H
#define KIND_LIST_H

#include "graph.h"

/* ---- labels.c ---- */

/* The same graph with other names and kinds of its first nodes, see hga_graph_set_names and _set_kinds. */
hga_status graph_with_labels(const hga_graph *g, const char *const *name, hga_id n_names, const char *const *kind,
                             hga_id n_kinds, hga_graph **out);

/* ---- kind_list.c ---- */

/* The number of the kind; an unknown name is appended. HGA_EGRAPH unless it is 1 to NAME_BYTES - 1 bytes of UTF-8. */
hga_status kinds_note(const hga_allocator *a, kind_list *l, const char *name, int32_t *kind);
/* Copies g's kinds, which keep their numbers, to `to`; node v < n gets kind[v] instead where it is set. */
hga_status kinds_take(const hga_graph *g, const char *const *kind, hga_id n, hga_graph *to);
/* Frees the list. */
void kinds_clear(const hga_allocator *a, kind_list *l);
/* Bytes of the list. */
int64_t kinds_bytes(const kind_list *l);

#endif
