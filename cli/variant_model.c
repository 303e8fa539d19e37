/* variant_model.c: what was typed becomes a model: a graph, its program and what goes with them. */
#include "variant.h"

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
