/* model.c: what a model has besides its graph, and its end. */
#include "variant.h"

#include <stdlib.h>
#include <string.h>

/* The weights of levels, copied from a file. */
int model_take_alpha(const npy *a, model *out)
{
    int status = take(a->count, sizeof *out->alpha, &out->alpha);
    if (status) return status;
    memcpy(out->alpha, a->real, (size_t)a->count * sizeof *out->alpha);
    out->n_alpha = (hga_id)a->count;
    return CLI_GOOD;
}

void model_clear(model *m)
{
    hga_graph_destroy(m->graph);
    hga_graph_destroy(m->ordered);
    free(m->order);
    free(m->title);
    node_ids_clear(&m->map);
    free(m->alpha);
    chosen_blocks_clear(&m->chosen);
    *m = (model){0};
}

hga_id main_relation(const hga_program *p)
{
    const hga_stage *attended = score_stage(p);
    if (attended) return attended->relation;
    for (hga_id i = p->n_stages; i-- > 0;)
        if (p->stage[i].relation >= 0) return p->stage[i].relation;
    return -1;
}
