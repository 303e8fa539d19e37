/* variant_hsa.c: hsa on hopping windows or on a tree of the user's own. */
#include <stdlib.h>

#include "tree_file.h"
#include "variant.h"

/* leaves of a parent array, each entry of which must be a node or -1 */
static int count_leaves(const npy *parent, hga_id *leaves)
{
    char shape[200], *has_child = NULL;
    int status = CLI_GOOD;
    int64_t n = parent->count;
    if (parent->n_dims != 1 || n == 0 || n > INT32_MAX)
        return complain(CLI_DATA, "%s: parent is [nodes], not the shape %s", parent->path,
                        npy_shape(parent->n_dims, parent->dim, shape));
    TRY(take(n, 1, &has_child));
    for (int64_t i = 0; i < n; i++) {
        int32_t p = parent->whole[i];
        if (p < -1 || p >= n)
            TRY(complain(CLI_DATA, "%s: node %lld has the parent %d; there are %lld nodes", parent->path, (long long)i,
                         p, (long long)n));
        if (p >= 0) has_child[p] = 1;
    }
    *leaves = 0;
    for (int64_t i = 0; i < n; i++) *leaves += !has_child[i];
done:
    free(has_child);
    return status;
}

static int check_tokens(const settings *s, hga_id leaves)
{
    if (setting_array(s, "tokens"))
        return complain(CLI_USAGE, "tokens: with parent a batch is a forest, not a list of lengths");
    if (setting_given(s, "tokens") && setting_id(s, "tokens") != leaves)
        return complain(CLI_USAGE, "tokens: %d, but parent has %d leaves", setting_id(s, "tokens"), leaves);
    return CLI_GOOD;
}

/* HSA on the tree whose parents are given; whatever ids they have, the graph numbers its nodes anew. */
static int make_from_parent(const variant_job *job, const npy *parent, model *out)
{
    int status = CLI_GOOD;
    hga_id leaves = 0;
    hga_hsa h;
    TRY(count_leaves(parent, &leaves));
    TRY(check_tokens(job->settings, leaves));
    TRY(node_ids_make((hga_id)parent->count, &out->map));
    TRY(settings_fill(job->settings, job->variant, &h));
    h.node_of = out->map.id;
    TRY(complain_of(job->variant->build(&h, &out->graph, &out->program), CLI_DATA, parent->path));
    TRY(node_ids_fit(out->graph, parent->path, &out->map));
    if (h.leaves == HGA_LEAVES_DEPTH_FIRST) tree_file_tell(parent->path, out->map.id, out->map.n, leaves, 0);
    const hga_tree *tree = setting_tree(job->settings, "parent");
    if (tree) TRY(tree_file_name(tree, out->map.id, &out->graph));
done:
    return status;
}

int make_hsa(const variant_job *job, model *out)
{
    const npy *parent = setting_array(job->settings, "parent");
    int branching = setting_given(job->settings, "branching");
    if (parent && branching) return complain(CLI_USAGE, "hsa takes branching or parent, not both");
    if (!parent && !branching) return complain(CLI_USAGE, "hsa needs -p branching=LIST or -p parent=@FILE.npy");
    return parent ? make_from_parent(job, parent, out) : make_from_tokens(job, out);
}
