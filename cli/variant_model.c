/* variant_model.c: what was typed becomes a model: a graph, its program and what goes with them. */
#include "variant.h"

#include <stdlib.h>
#include <string.h>

static int make(const variant_job *job, model *out)
{
    if (!job->variant) return make_from_file(job, out);
    if (job->variant->can & HGA_NEEDS_LEAVES) return make_treeformer(job, out);
    if (job->variant->can & HGA_NEEDS_CHOICE) return make_routed(job, out);
    if (job->variant->can & HGA_TAKES_TREE) return make_hsa(job, out);
    return make_from_tokens(job, out);
}

/* Reads the settings and has the variant's own way make the graph. */
int model_build(const typed_variant *typed, const model_tensors *tensors, model *out)
{
    settings s = {0};
    int status = CLI_GOOD;
    const hga_variant *v;
    *out = (model){.tree_heads = 1};
    TRY(variant_settings(typed, &s, &v));
    TRY(variant_title(typed, &out->title));
    variant_job job = {.settings = &s, .tensors = tensors, .variant = v, .name = v ? v->name : "graph=FILE"};
    job.takes_order = typed->takes_order, job.decodes = typed->decodes;
    job.path = v ? NULL : variant_path(typed);
    TRY(make(&job, out));
done:
    settings_clear(&s);
    if (status) model_clear(out);
    return status;
}

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
