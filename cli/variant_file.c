/* variant_file.c: graph=FILE, a hierarchy of the user's own. */

#include "graph_file.h"
#include "ordered.h"
#include "tree_file.h"
#include "variant.h"

/* weights by type, for a program with weighted sums */
static int copy_alpha(const npy *a, model *out)
{
    char shape[200];
    if (!a) return CLI_GOOD;
    if (a->n_dims != 1 || a->count == 0 || a->count > INT32_MAX)
        return complain(CLI_DATA, "%s: alpha is [types], not the shape %s", a->path,
                        npy_shape(a->n_dims, a->dim, shape));
    return model_take_alpha(a, out);
}

static int put_under_clusters(const variant_job *job, graph_file *f)
{
    const npy *size = setting_array(job->settings, "tree");
    if (!size) return CLI_GOOD;
    if (setting_given(job->settings, "parents"))
        return complain(CLI_USAGE, "tree: the graph has a tree already, of parents");
    if (size->n_dims != 1) return complain(CLI_DATA, "%s: tree has one axis", size->path);
    return graph_file_coarsen(job->path, "tree", size->whole, (hga_id)size->count, f);
}

/* The graph of a file with its program, under clusters and in an order where these are asked for. */
int make_from_file(const variant_job *job, model *out)
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
    if (how && !job->takes_order)
        TRY(complain(CLI_USAGE, "order: changes nothing here; it is for attend, bench, explain and inspect"));
    TRY(ordered_find((hga_ordering)how, out));
    TRY(copy_alpha(setting_array(job->settings, "alpha"), out));
    hga_id n = hga_graph_nodes(out->graph).n_queries, tokens = setting_id(job->settings, "tokens");
    if (setting_given(job->settings, "tokens") && tokens != n)
        TRY(complain(CLI_USAGE, "tokens: %d, but the graph in %s has %d query tokens", tokens, job->path, n));
done:
    graph_file_clear(&f);
    return status;
}
