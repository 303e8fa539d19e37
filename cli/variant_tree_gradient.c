/* variant_tree_gradient.c: what a loss asks of the hyperplanes that sent tokens to their leaves. */
#include <stdlib.h>

#include "variant_tree.h"

static const char *const table_names[N_TREE_TABLES] = {"weights", "bias", "key-weights", "key-bias"};

const npy *tree_table_of(const settings *s, tree_table which) { return setting_array(s, table_names[which]); }

/* Tree t of the side's: its tokens' leaves and what is asked of them, heads that share it summed. */
static void gather(const leaves *l, const float *asked, hga_id heads, hga_id width, hga_id t, int32_t *leaf, float *d)
{
    for (hga_id i = 0; i < l->n; i++) {
        leaf[i] = l->leaf[(int64_t)i * l->heads + t];
        for (hga_id c = 0; c < width; c++) {
            double sum = 0;
            for (hga_id h = 0; h < heads; h++)
                if (l->heads == 1 || h == t) sum += (double)asked[((int64_t)i * heads + h) * width + c];
            d[(int64_t)i * width + c] = (float)sum;
        }
    }
}

/* One side: its hyperplanes, by the names of their parameters, and where their gradients are added. */
static int add_side(const variant_job *job, const tree *t, const tree_asks *asks, int keys, const char *const *names,
                    float *const *sum)
{
    routing r;
    leaves l = {0};
    int32_t *leaf = NULL;
    float *d = NULL;
    hga_id width = asks->by_level ? t->height + 1 : 1;
    int status = CLI_GOOD;
    TRY(tree_routing(job, t, names[0], names[1], keys, &r));
    TRY(tree_route(&r, &l));
    TRY(take(l.n, sizeof *leaf, &leaf));
    TRY(take((int64_t)l.n * width, sizeof *d, &d));
    for (hga_id h = 0; h < l.heads; h++) {
        hga_router router = tree_router(&r, h);
        int64_t which = tree_of_head(&r, h);
        gather(&l, keys ? asks->key : asks->query, asks->heads, width, h, leaf, d);
        hga_route_grad grad = {.x = tree_vectors(&r, h, l.heads),
                               .n = l.n,
                               .row_stride = (ptrdiff_t)r.x_heads * r.dim,
                               .leaf = leaf,
                               .d_path = asks->by_level ? NULL : d,
                               .d_level = asks->by_level ? d : NULL,
                               .d_weights = sum[0] ? sum[0] + which * t->rows * r.tree_dim : NULL,
                               .d_bias = sum[1] ? sum[1] + which * t->rows : NULL,
                               .accumulate = 1};
        TRY(complain_of(hga_route_gradient(&router, &grad), CLI_DATA, r.weights->path));
    }
done:
    free(leaf), free(d), free(l.leaf);
    return status;
}

int tree_gradients(const variant_job *job, const tree *t, const tree_asks *asks, float *const *sum)
{
    const settings *s = job->settings;
    int own = setting_given(s, "key-weights"), given = setting_given(s, "key-leaf"), status = CLI_GOOD;
    if (setting_given(s, "weights") && (sum[0] || sum[1])) TRY(add_side(job, t, asks, 0, table_names, sum));
    float *const *to = own ? sum + TREE_KEY_WEIGHTS : sum;
    if (!given && (to[0] || to[1])) TRY(add_side(job, t, asks, 1, own ? table_names + 2 : table_names, to));
done:
    return status;
}
