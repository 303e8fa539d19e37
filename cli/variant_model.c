/* variant_model.c: what was typed becomes a model: a graph, its program and what goes with them. */
#include <stdlib.h>
#include <string.h>

#include "graph_file.h"
#include "ordered.h"
#include "tree_file.h"
#include "variant.h"

hga_id main_relation(const hga_program *p)
{
    const hga_stage *attended = score_stage(p);
    if (attended) return attended->relation;
    for (hga_id i = p->n_stages; i-- > 0;)
        if (p->stage[i].relation >= 0) return p->stage[i].relation;
    return -1;
}

/* ---- hsa ---- */

static int check_tokens(const settings *s, hga_id leaves)
{
    if (setting_array(s, "tokens"))
        return complain(CLI_USAGE, "tokens: with parent a batch is a forest, not a list of lengths");
    if (setting_is_set(s, "tokens") && setting_id(s, "tokens") != leaves)
        return complain(CLI_USAGE, "tokens: %d, but parent has %d leaves", setting_id(s, "tokens"), leaves);
    return CLI_GOOD;
}

/* HSA on the tree of these parents; whatever ids they have, the graph renumbers its nodes. */
static int make_from_parent(const variant_job *job, const npy *parent, model *out)
{
    hga_hsa h;
    if (parent->n_dims != 1 || parent->count == 0 || parent->count > INT32_MAX)
        return npy_complain_of_shape(parent, "parent is [nodes]");
    MUST(node_ids_make((hga_id)parent->count, &out->map));
    int status = settings_fill(job->settings, job->variant, &h);
    if (status) return status == CLI_USAGE ? CLI_DATA : status; /* what is typed was checked before: it is the file's */
    h.node_of = out->map.id;
    MUST(complain_of(job->variant->build(&h, &out->graph, &out->program), CLI_DATA, parent->path));
    hga_id leaves = hga_graph_nodes(out->graph).level_ptr[1];
    MUST(check_tokens(job->settings, leaves));
    MUST(node_ids_fit(out->graph, parent->path, &out->map));
    if (h.leaves == HGA_LEAVES_DEPTH_FIRST) tree_file_tell(parent->path, out->map.id, out->map.n, leaves, 0);
    const hga_tree *tree = setting_tree(job->settings, "parent");
    if (tree) MUST(tree_file_name(tree, out->map.id, &out->graph));
    return CLI_GOOD;
}

static int make_hsa(const variant_job *job, model *out)
{
    const npy *parent = setting_array(job->settings, "parent");
    int branching = setting_is_set(job->settings, "branching");
    if (parent && branching) return complain(CLI_USAGE, "hsa takes branching or parent, not both");
    if (!parent && !branching) return complain(CLI_USAGE, "hsa needs -p branching=LIST or -p parent=@FILE.npy");
    return parent ? make_from_parent(job, parent, out) : make_from_tokens(job, out);
}

/* ---- graph=FILE ---- */

/* weights by type, for a program with weighted sums */
static int copy_alpha(const npy *a, model *out)
{
    if (!a) return CLI_GOOD;
    if (a->n_dims != 1 || a->count == 0 || a->count > INT32_MAX) return npy_complain_of_shape(a, "alpha is [types]");
    return model_take_alpha(a, out);
}

static int put_under_clusters(const variant_job *job, graph_file *f)
{
    const npy *size = setting_array(job->settings, "tree");
    if (!size) return CLI_GOOD;
    if (setting_is_set(job->settings, "parents"))
        return complain(CLI_USAGE, "tree: the graph has a tree already, of parents");
    if (size->n_dims != 1) return complain(CLI_DATA, "%s: tree has one axis", size->path);
    return graph_file_coarsen(job->path, "tree", size->whole, (hga_id)size->count, f);
}

/* The graph of a file with its program, under clusters and in an order if requested. */
static int make_from_file(const variant_job *job, model *out)
{
    graph_file f = {0};
    int status = CLI_GOOD;
    int by_id = setting_id(job->settings, "leaves") == 0, pattern = setting_id(job->settings, "weights") != 0;
    TRY(graph_file_import(job->path, setting_array(job->settings, "parents"), !by_id, pattern, &f));
    TRY(put_under_clusters(job, &f));
    if (f.map.id && !f.in_order)
        tree_file_tell(job->path, f.map.id, f.map.n, hga_graph_nodes(f.graph).level_ptr[1], by_id);
    if (!f.text) TRY(complain(CLI_DATA, "%s: has no program (%s)", job->path, f.lacks));
    out->graph = hga_graph_retain(f.graph);
    out->program = f.program;
    out->from_file = 1;
    out->map = f.map, f.map = (node_ids){0};
    hga_id how = setting_id(job->settings, "order");
    if (how && !job->typed->takes_order)
        TRY(complain(CLI_USAGE, "order: changes nothing here; it is for attend, bench, explain and inspect"));
    TRY(ordered_find((hga_ordering)how, out));
    TRY(copy_alpha(setting_array(job->settings, "alpha"), out));
    hga_id n = hga_graph_nodes(out->graph).n_queries, tokens = setting_id(job->settings, "tokens");
    if (setting_is_set(job->settings, "tokens") && tokens != n)
        TRY(complain(CLI_USAGE, "tokens: %d, but the graph in %s has %d query tokens", tokens, job->path, n));
done:
    graph_file_clear(&f);
    return status;
}

static int make(const variant_job *job, model *out)
{
    if (!job->variant) return make_from_file(job, out);
    if (job->variant->can & HGA_NEEDS_LEAVES) return make_treeformer(job, out);
    if (job->variant->can & HGA_NEEDS_CHOICE) return make_routed(job, out);
    if (job->variant->can & HGA_TAKES_TREE) return make_hsa(job, out);
    return make_from_tokens(job, out);
}

/* Reads the settings and makes the graph by the variant's own function. */
int model_build(const typed_variant *typed, const model_tensors *tensors, model *out)
{
    settings s = {0};
    int status = CLI_GOOD;
    const hga_variant *v;
    *out = (model){.tree_heads = 1};
    TRY(variant_settings(typed, &s, &v));
    TRY(variant_title(typed, &out->title));
    variant_job job = {
        .typed = typed, .settings = &s, .tensors = tensors, .variant = v, .name = v ? v->name : "graph=FILE"};
    job.path = v ? NULL : variant_path(typed);
    TRY(make(&job, out));
done:
    settings_clear(&s);
    if (status) model_clear(out);
    return status;
}
