/* node_ids.c: made by the reader that numbers nodes, and never shorter than the graph. */
#include "node_ids.h"

#include <stdlib.h>

#include "complain.h"
#include "npy.h"

int node_ids_make(hga_id n, node_ids *out)
{
    out->n = n;
    return take(n, sizeof *out->id, &out->id);
}

static int extend(hga_id n, node_ids *map)
{
    hga_id *more = realloc(map->id, (size_t)n * sizeof *more);
    if (!more) return complain(CLI_OUTSIDE, "out of memory: the numbers of %d nodes", n);
    map->id = more;
    for (; map->n < n; map->n++) map->id[map->n] = map->n;
    return CLI_GOOD;
}

/* Checks that each of the graph's ids occurs once. */
static int check(const char *title, hga_id n, const node_ids *map)
{
    char *seen = NULL;
    int status = CLI_GOOD;
    if (map->n != n) TRY(complain(CLI_OUTSIDE, "%s: %d nodes have numbers, the graph has %d", title, map->n, n));
    TRY(take(n, 1, &seen));
    for (hga_id v = 0; v < n; v++) {
        hga_id id = map->id[v];
        if (id < 0 || id >= n || seen[id])
            TRY(complain(CLI_OUTSIDE,
                         "%s: node %d has the graph's number %d, which is no node's number, or another node's", title,
                         v, id));
        seen[id] = 1;
    }
done:
    free(seen);
    return status;
}

int node_ids_fit(const hga_graph *g, const char *title, node_ids *map)
{
    hga_id n = hga_graph_nodes(g).n;
    if (!map->id) return CLI_GOOD;
    if (map->n < n) MUST(extend(n, map));
    return check(title, n, map);
}

hga_id node_ids_at(const node_ids *map, hga_id caller) { return map->id ? map->id[caller] : caller; }

int node_ids_put(const node_ids *map, const hga_graph *g, outfile *out)
{
    int32_t *caller = NULL;
    int64_t n = hga_graph_nodes(g).n;
    int status = CLI_GOOD;
    TRY(take(n, sizeof *caller, &caller));
    for (hga_id v = 0; v < n; v++) caller[node_ids_at(map, v)] = v;
    TRY(npy_write_whole(out, caller, 1, &n));
    TRY(outfile_flush(out));
done:
    free(caller);
    return status;
}

void node_ids_clear(node_ids *map)
{
    free(map->id);
    *map = (node_ids){0};
}
