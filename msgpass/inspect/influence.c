/* influence.c: whether a later token reaches a row of the output. */
#include "hga_inspect.h"
#include "latest.h"
#include "program_check.h"

/* Finds the first query token whose output a later token influences. */
static void find_leak(const hga_program *p, const hga_nodes *nodes, const latest_tokens *latest, hga_id *token,
                      hga_id *sees)
{
    const int32_t *out = latest->of[program_bound(p, HGA_IO_OUT)] + nodes->query_first;
    for (hga_id i = 0; i < nodes->n_queries; i++)
        if (out[i] > i) {
            *token = i, *sees = out[i];
            return;
        }
}

hga_status hga_program_influence(const hga_program *p, const hga_graph *g, hga_id *token, hga_id *sees)
{
    latest_tokens latest = {0};
    hga_status st = HGA_OK;
    hga_id unused;
    if (!token) token = &unused;
    if (!sees) sees = &unused;
    *token = *sees = -1;
    HGA_TRY(program_check(p, g));
    hga_nodes nodes = hga_graph_nodes(g);
    if (nodes.query_first != nodes.key_first || nodes.n_queries != nodes.n_keys)
        return hga_fail(HGA_EUNSUPPORTED,
                        "influence has a meaning for self-attention only: queries %d + %d, keys %d + %d",
                        nodes.query_first, nodes.n_queries, nodes.key_first, nodes.n_keys);
    HGA_TRY(latest_find(p, g, &latest));
    find_leak(p, &nodes, &latest, token, sees);
done:
    latest_clear(&latest);
    return st;
}
