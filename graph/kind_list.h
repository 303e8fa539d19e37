/* kind_list.h: kinds of nodes by name (kind_list.c), and graphs with other names (labels.c). */
#ifndef KIND_LIST_H
#define KIND_LIST_H

#include "graph.h"

/* labels.c: the same graph with other names and kinds of its first nodes, see hga_graph_set_names and _set_kinds. */
hga_status graph_with_labels(const hga_graph *g, const char *const *name, hga_id n_names, const char *const *kind,
                             hga_id n_kinds, hga_graph **out);
/* kind_list.c: the number of the kind; an unknown name is appended. */
hga_status kinds_note(const hga_allocator *a, kind_list *l, const char *name, int32_t *kind);
hga_status kinds_take(const hga_graph *g, const char *const *kind, hga_id n, hga_graph *to);
void kinds_clear(const hga_allocator *a, kind_list *l);
int64_t kinds_bytes(const kind_list *l);

#endif
