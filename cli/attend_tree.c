/* attend_tree.c: what attention asks of the paths that tokens took, for the tree that sent them. */
#include "attend_tree.h"

#include <stdlib.h>
#include <string.h>

#include "variant_tree.h"

int attend_tree_is_wanted(const attend_gradients *g)
{
    int wanted = 0;
    for (int i = GRADIENT_WEIGHTS; i <= GRADIENT_KEY_BIAS; i++) wanted |= g->typed->wanted[i] != NULL;
    return wanted;
}

/* Only a variant that routes has such arrays, and only one that is given has a gradient. */
int attend_tree_shape(const typed_variant *variant, gradient_of of, const char *name, int *n_dims, int64_t *dim)
{
    settings s = {0};
    const hga_variant *v;
    int status = CLI_GOOD;
    TRY(variant_settings(variant, &s, &v));
    if (!v || !(v->can & HGA_NEEDS_LEAVES))
        TRY(complain(CLI_USAGE, "--grad-%s: %s routes nothing", name, variant->name));
    const npy *like = tree_table_of(&s, (tree_table)(of - GRADIENT_WEIGHTS));
    if (!like) TRY(complain(CLI_USAGE, "--grad-%s needs -p %s=@FILE", name, name));
    *n_dims = like->n_dims;
    memcpy(dim, like->dim, sizeof like->dim);
done:
    settings_clear(&s);
    return status;
}

/* ---- what is asked ---- */

/* The arrays of a sample, [tokens][trees] or [tokens][trees][height + 1]. */
typedef struct asked {
    float *query, *key, *value;
} asked;

/* Fine: of a query d_out . out, of a key what its log mass loses; heads that share a tree are summed. */
static void ask_fine(const model *m, const attend_io *one, const float *d_out, const float *d_log_mass, hga_id trees,
                     const asked *a)
{
    hga_nodes nodes = hga_graph_nodes(m->graph);
    hga_id heads = one->query.heads, columns = one->value.columns;
    for (int64_t i = 0; i < (int64_t)one->out_rows * heads; i++) {
        double sum = 0;
        for (hga_id c = 0; c < columns; c++) sum += (double)d_out[i * columns + c] * (double)one->out[i * columns + c];
        a->query[trees > 1 ? i : i / heads] += (float)sum;
    }
    memcpy(a->key, d_log_mass + nodes.key_first, (size_t)one->key.rows * (size_t)trees * sizeof *a->key);
}

/* Coarse: of every level. */
static int ask_coarse(const variant_job *job, const tree *t, const attend_io *one, const float *d_out, hga_id trees,
                      asked *a)
{
    leaves query = {0}, key = {0};
    int status = CLI_GOOD;
    TRY(treeformer_leaves(job, t, &query, &key));
    TRY(tensor_file_widen(&one->value, one->query.heads, &a->value));
    hga_treeformer f = hga_treeformer_defaults();
    f.n_queries = query.n, f.n_keys = key.leaf ? key.n : 0, f.n_tree_heads = trees;
    f.height = t->height, f.branching = t->branching, f.query_leaf = query.leaf, f.key_leaf = key.leaf;
    hga_coarse_grad grad = {.dim_v = trees > 1 ? one->value.columns : one->query.heads * one->value.columns,
                            .value = a->value,
                            .d_out = d_out,
                            .alpha = one->io.type_scale.data,
                            .d_query = a->query,
                            .d_key = a->key};
    TRY(complain_of(hga_coarse_gradient(&f, &grad), CLI_DATA, job->name));
done:
    free(query.leaf), free(key.leaf);
    return status;
}

/* Turns what is asked of tokens' paths into gradients of the hyperplanes, of one sample. */
int attend_tree_add(const model *m, const attend_io *one, hga_id sample, const float *d_log_mass, attend_gradients *g)
{
    settings s = {0};
    tree t;
    asked a = {0};
    int status = CLI_GOOD;
    const hga_variant *v;
    TRY(variant_settings(g->variant, &s, &v));
    model_tensors tensors = attend_io_tensors(one);
    variant_job job = {.settings = &s, .tensors = &tensors, .variant = v, .name = v->name};
    TRY(tree_read(&s, &t));
    int coarse = one->io.type_scale.data != NULL;
    if (coarse && setting_array(&s, "tokens"))
        TRY(complain(CLI_USAGE, "%s: gradients of the tree are of one sample; tokens has several lengths", m->title));
    hga_id trees = m->tree_heads, width = coarse ? t.height + 1 : 1;
    const float *d_out = g->out.array.real + sample * g->out.array.count;
    TRY(take((int64_t)one->out_rows * trees * width, sizeof *a.query, &a.query));
    TRY(take((int64_t)one->key.rows * trees * width, sizeof *a.key, &a.key));
    if (coarse)
        TRY(ask_coarse(&job, &t, one, d_out, trees, &a));
    else
        ask_fine(m, one, d_out, d_log_mass, trees, &a);
    tree_asks asks = {.heads = trees, .query = a.query, .key = a.key, .by_level = coarse};
    TRY(tree_gradients(&job, &t, &asks, g->sum + GRADIENT_WEIGHTS));
done:
    free(a.query), free(a.key), free(a.value);
    settings_clear(&s);
    return status;
}
