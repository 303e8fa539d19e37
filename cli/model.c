/* model.c: what a model owns, and frees. */
#include <stdlib.h>
#include <string.h>

#include "variant.h"

void model_clear(model *m)
{
    hga_graph_destroy(m->graph);
    hga_graph_destroy(m->ordered);
    free(m->order);
    free(m->title);
    node_ids_clear(&m->map);
    free(m->alpha);
    free(m->k_each);
    chosen_blocks_clear(&m->chosen);
    *m = (model){0};
}

model model_of(const hga_graph *g, const hga_program *p, const char *title)
{
    return (model){
        .graph = (hga_graph *)(uintptr_t)g, .program = *p, .tree_heads = 1, .title = (char *)(uintptr_t)title};
}

int model_complain_of(hga_status st, const model *m)
{
    return complain_of(st, m->from_file ? CLI_DATA : CLI_USAGE, m->title);
}

/* The weights of levels, copied from a file. */
int model_take_alpha(const npy *a, model *out)
{
    MUST(take(a->count, sizeof *out->alpha, &out->alpha));
    memcpy(out->alpha, a->real, (size_t)a->count * sizeof *out->alpha);
    out->n_alpha = (hga_id)a->count;
    return CLI_GOOD;
}
