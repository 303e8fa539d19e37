/* variant_tree.c: Treeformer: leaves read or routed; trees that differ by head: row = token * heads + head. */
#include <stdlib.h>
#include <string.h>

#include "variant.h"

/* One side's leaves, [n][heads]. */
typedef struct leaves {
    int32_t *leaf;
    hga_id n, heads;
} leaves;

typedef struct tree {
    hga_id height;           /* -1: not known */
    const hga_id *branching; /* NULL: binary */
    int64_t rows;            /* hyperplanes */
} tree;

/* The hyperplanes of one side and the vectors they route. */
typedef struct routing {
    const tree *tree;
    const npy *weights, *bias, *x;
    hga_id heads, x_heads, dim;
    hga_id tree_heads, tree_dim;
} routing;

/* ---- the tree's shape ---- */

/* Reads the height and branching of the tree; -1 if neither was typed. */
static int read_tree(const settings *s, tree *t)
{
    const npy *b = setting_array(s, "branching");
    *t = (tree){.height = setting_is_set(s, "height") ? setting_id(s, "height") : -1};
    if (b && (b->n_dims != 1 || b->count > INT32_MAX)) return complain(CLI_DATA, "%s: branching has one axis", b->path);
    if (b && t->height >= 0 && t->height != b->count)
        return complain(CLI_USAGE, "height: %d, but branching has %lld levels", t->height, (long long)b->count);
    if (b) {
        t->height = (hga_id)b->count;
        t->branching = b->whole;
        for (int64_t i = 0; i < b->count; i++)
            if (b->whole[i] < 1)
                return complain(CLI_USAGE, "branching: level %lld has %d children", (long long)i, b->whole[i]);
    }
    if (t->height < 0) return CLI_GOOD;
    t->rows = hga_route_rows(t->height, t->branching);
    /* weights of another size are refused with their own file's name */
    int64_t most = setting_is_set(s, "weights") ? INT64_MAX : INT32_MAX - 2;
    return t->rows >= 0 && t->rows <= most
               ? CLI_GOOD
               : complain(CLI_USAGE, "height: a tree of %d levels has too many nodes", t->height);
}

/* ---- leaves that are read ---- */

/* Reads the leaves of each token, for all heads or for each; as many as the tensor has rows. */
static int input_leaves(const npy *a, const npy *tensor, leaves *out)
{
    if (a->n_dims < 1 || a->n_dims > 2 || a->count == 0 || a->count > INT32_MAX)
        return npy_complain_of_shape(a, "leaves are [n] or [n][heads]");
    MUST(take(a->count, sizeof *out->leaf, &out->leaf));
    memcpy(out->leaf, a->whole, (size_t)a->count * sizeof *out->leaf);
    out->n = (hga_id)a->dim[0];
    out->heads = a->n_dims == 2 ? (hga_id)a->dim[1] : 1;
    if (!tensor || tensor->dim[0] == out->n) return CLI_GOOD;
    return complain(CLI_DATA, "%s: leaves of %d tokens for the %lld of %s", a->path, out->n, (long long)tensor->dim[0],
                    tensor->path);
}

/* ---- leaves that are routed ---- */

/* Do the hyperplanes fit the tree, the heads and the widths of what they route? */
static int check_hyperplanes(routing *r)
{
    const npy *w = r->weights, *b = r->bias;
    if (w->n_dims < 2 || w->n_dims > 3) return npy_complain_of_shape(w, "weights are [rows][d] or [heads][rows][d]");
    int64_t rows = w->dim[w->n_dims - 2], dim = w->dim[w->n_dims - 1], trees = w->n_dims == 3 ? w->dim[0] : 1;
    if (rows != r->tree->rows)
        return complain(CLI_DATA, "%s: has %lld hyperplanes where a tree of height %d has %lld", w->path,
                        (long long)rows, r->tree->height, (long long)r->tree->rows);
    if (b->n_dims != w->n_dims - 1 || memcmp(b->dim, w->dim, (size_t)b->n_dims * sizeof *b->dim) != 0)
        return complain(CLI_DATA, "%s: has the shape %s, the weights have %s", b->path, npy_shape(b), npy_shape(w));
    if (trees != 1 && trees != r->heads)
        return complain(CLI_DATA, "%s: has trees for %lld heads, the query has %d", w->path, (long long)trees,
                        r->heads);
    if (dim != r->dim && !(trees == 1 && dim == (int64_t)r->x_heads * r->dim))
        return complain(CLI_DATA, "%s: has %lld columns, a head has %d", w->path, (long long)dim, r->dim);
    r->tree_heads = (hga_id)trees;
    r->tree_dim = (hga_id)dim;
    return CLI_GOOD;
}

/* the leaves of head t of `leaf`, which has `heads` columns */
static int route_head(const routing *r, hga_id t, hga_id heads, int32_t *column, int32_t *leaf)
{
    int64_t which = r->tree_heads > 1 ? t : 0;
    hga_router router = {.height = r->tree->height,
                         .dim = r->tree_dim,
                         .n_heads = 1,
                         .branching = r->tree->branching,
                         .weights = r->weights->real + which * r->tree->rows * r->tree_dim,
                         .bias = r->bias->real + which * r->tree->rows};
    hga_id n = (hga_id)r->x->dim[0], group = r->heads / r->x_heads;
    const float *x = r->x->real + (heads > 1 ? (int64_t)(t / group) * r->dim : 0);
    MUST(complain_of(hga_route(&router, x, n, (ptrdiff_t)r->x_heads * r->dim, 0, column), CLI_DATA, r->weights->path));
    for (hga_id i = 0; i < n; i++) leaf[(int64_t)i * heads + t] = column[i];
    return CLI_GOOD;
}

/* hyperplanes over a head's columns route each head by itself; over all heads' columns, the token */
static int route(const routing *r, leaves *out)
{
    int32_t *column = NULL;
    int status = CLI_GOOD;
    out->n = (hga_id)r->x->dim[0];
    out->heads = r->tree_dim == r->dim ? r->heads : 1;
    TRY(take(out->n, sizeof *column, &column));
    TRY(take((int64_t)out->n * out->heads, sizeof *out->leaf, &out->leaf));
    for (hga_id t = 0; t < out->heads; t++) TRY(route_head(r, t, out->heads, column, out->leaf));
done:
    free(column);
    return status;
}

/* ---- both sides ---- */

/* a tree of height 0: all tokens are in its one leaf */
static int all_in_leaf_zero(hga_id n, leaves *out)
{
    out->n = n;
    out->heads = 1;
    return take(n, sizeof *out->leaf, &out->leaf);
}

/* Routes the rows of the tensors, which must be there, by hyperplanes. */
static int route_by(const variant_job *job, const tree *t, const char *weights, const char *bias, int keys, leaves *out)
{
    const npy *w = setting_array(job->settings, weights), *b = setting_array(job->settings, bias);
    if (!w || !b) return complain(CLI_USAGE, "%s: %s and %s go together", job->name, weights, bias);
    if (t->height < 0) return complain(CLI_USAGE, "%s: %s needs height or branching", job->name, weights);
    if (!job->tensors)
        return complain(CLI_USAGE, "%s: %s cannot route without tensors; give query-leaf", job->name, weights);
    const model_tensors *x = job->tensors;
    routing r = {.tree = t, .weights = w, .bias = b, .x = keys ? x->key : x->query, .heads = x->heads, .dim = x->dim};
    r.x_heads = keys ? x->kv_heads : x->heads;
    MUST(check_hyperplanes(&r));
    return route(&r, out);
}

/* Leaves that are read or found by hyperplanes; a tree without levels has but one. */
static int query_leaves(const variant_job *job, const tree *t, leaves *out)
{
    const settings *s = job->settings;
    const npy *input = setting_array(s, "query-leaf");
    int weights = setting_is_set(s, "weights") || setting_is_set(s, "bias");
    if (input && weights) return complain(CLI_USAGE, "%s takes weights or query-leaf, not both", job->name);
    if (input) return input_leaves(input, job->tensors ? job->tensors->query : NULL, out);
    if (weights && t->height != 0) return route_by(job, t, "weights", "bias", 0, out);
    if (t->height == 0 && job->tensors) return all_in_leaf_zero((hga_id)job->tensors->query->dim[0], out);
    if (t->height == 0 && setting_id(s, "tokens") > 0) return all_in_leaf_zero(setting_id(s, "tokens"), out);
    return complain(CLI_USAGE, "%s needs query-leaf, or height, weights and bias", job->name);
}

/* no leaves: the keys are the queries' tokens and have their leaves */
static int key_leaves(const variant_job *job, const tree *t, const leaves *query, leaves *out)
{
    const settings *s = job->settings;
    const npy *input = setting_array(s, "key-leaf");
    int own = setting_is_set(s, "key-weights") || setting_is_set(s, "key-bias");
    if (input && own) return complain(CLI_USAGE, "%s takes key-weights or key-leaf, not both", job->name);
    int same = setting_is_set(s, "query-leaf") && !own && job->tensors && job->tensors->key->dim[0] == query->n;
    if (input) return input_leaves(input, job->tensors ? job->tensors->key : NULL, out);
    if (t->height == 0 && job->tensors && !same) return all_in_leaf_zero((hga_id)job->tensors->key->dim[0], out);
    if (own) return route_by(job, t, "key-weights", "key-bias", 1, out);
    if (setting_is_set(s, "weights") && t->height != 0) return route_by(job, t, "weights", "bias", 1, out);
    if (job->tensors && job->tensors->key->dim[0] != query->n)
        return complain(CLI_USAGE, "%s needs key-leaf: the %lld keys are not the %d queries", job->name,
                        (long long)job->tensors->key->dim[0], query->n);
    return CLI_GOOD;
}

/* the same leaf for each of `heads` heads */
static int widen(leaves *side, hga_id heads)
{
    if (!side->leaf || side->heads == heads) return CLI_GOOD;
    int32_t *wide = NULL;
    MUST(take((int64_t)side->n * heads, sizeof *wide, &wide));
    for (int64_t i = 0; i < (int64_t)side->n * heads; i++) wide[i] = side->leaf[i / heads];
    free(side->leaf);
    side->leaf = wide;
    side->heads = heads;
    return CLI_GOOD;
}

/* one number of tree heads for both sides: 1, or the query's heads */
static int match_heads(const variant_job *job, leaves *query, leaves *key)
{
    hga_id heads = query->heads;
    if (key->leaf && key->heads > heads) heads = key->heads;
    if ((query->heads != 1 && query->heads != heads) || (key->leaf && key->heads != 1 && key->heads != heads))
        return complain(CLI_DATA, "query leaves have %d heads, key leaves %d", query->heads, key->heads);
    if (job->tensors && heads != 1 && heads != job->tensors->heads)
        return complain(CLI_DATA, "leaves have %d heads, the query has %d", heads, job->tensors->heads);
    MUST(widen(query, heads));
    return widen(key, heads);
}

/* ---- graphs ---- */

/* tokens [first, first + n) of both sides */
static int build_sample(const variant_job *job, const tree *t, const leaves *query, const leaves *key, int64_t first,
                        hga_id n, hga_graph **g, hga_program *p)
{
    hga_treeformer f;
    hga_defaults(&f);
    f.n_queries = n;
    f.n_keys = key->leaf && key->n != query->n ? key->n : 0;
    f.n_tree_heads = query->heads;
    f.height = t->height > 0 ? t->height : 0;
    f.branching = t->branching;
    f.n_leaves = t->height == 0 ? 1 : 0;
    f.query_leaf = query->leaf + first * query->heads;
    f.key_leaf = key->leaf ? key->leaf + first * key->heads : NULL;
    f.causal = setting_id(job->settings, "causal");
    return complain_of(job->variant->build(&f, g, p), CLI_DATA, job->name);
}

/* tokens: nothing, the number of rows, or the lengths that cut them into samples */
static int cut_samples(const variant_job *job, const leaves *query, const leaves *key, samples *s)
{
    if (!setting_is_set(job->settings, "tokens")) {
        MUST(samples_make(1, s));
        *s->length = query->n;
        return CLI_GOOD;
    }
    int batch = 0;
    MUST(samples_of(job, s, &batch));
    int64_t sum = 0;
    for (hga_id i = 0; i < s->n; i++) sum += s->length[i];
    if (sum != query->n)
        return complain(batch ? CLI_DATA : CLI_USAGE, "tokens: %lld, but there are leaves for %d", (long long)sum,
                        query->n);
    if (batch && key->leaf && key->n != query->n)
        return complain(CLI_USAGE, "tokens: a batch of cross-attentions has no lengths for its keys");
    return CLI_GOOD;
}

/* A graph for each sample, and all of them joined. */
static int build_all(const variant_job *job, const tree *t, const leaves *query, const leaves *key, model *out)
{
    samples s = {0};
    int64_t first = 0;
    int status = CLI_GOOD;
    TRY(cut_samples(job, query, key, &s));
    for (hga_id i = 0; i < s.n; first += s.length[i++])
        TRY(build_sample(job, t, query, key, first, s.length[i], &s.graph[i], &s.program[i]));
    TRY(samples_join(&s, out));
done:
    samples_clear(&s);
    return status;
}

/* ---- alpha ---- */

/* The weights of levels, one for each level of the tree. */
static int read_alpha(const variant_job *job, const tree *t, model *out)
{
    const npy *a = setting_array(job->settings, "alpha");
    if (!(job->variant->can & HGA_NEEDS_TYPE_SCALE)) return CLI_GOOD;
    if (t->height < 0) return complain(CLI_USAGE, "%s needs height or branching", job->name);
    if (!a) return job->tensors ? complain(CLI_USAGE, "%s needs -p alpha=@FILE.npy", job->name) : CLI_GOOD;
    if (a->n_dims != 1 || a->count != (int64_t)t->height + 1)
        return complain(CLI_DATA, "%s: alpha has the shape %s where a tree of height %d has %d levels", a->path,
                        npy_shape(a), t->height, t->height + 1);
    return model_take_alpha(a, out);
}

/* Finds leaves of queries and keys first, and then builds their graph. */
int make_treeformer(const variant_job *job, model *out)
{
    tree t;
    leaves query = {0}, key = {0};
    int status = CLI_GOOD;
    TRY(read_tree(job->settings, &t));
    TRY(read_alpha(job, &t, out));
    TRY(query_leaves(job, &t, &query));
    TRY(key_leaves(job, &t, &query, &key));
    TRY(match_heads(job, &query, &key));
    TRY(build_all(job, &t, &query, &key, out));
    out->tree_heads = query.heads;
done:
    free(query.leaf);
    free(key.leaf);
    return status;
}
