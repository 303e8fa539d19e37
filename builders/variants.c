/* variants.c: the table of variants. A new variant is its builder and one row here. */
#include "hga_variants.h"

#include "formulas.h"
#include "hga_builders.h"
#include "hga_plan.h"

/* ---- parameters ---- */

#define FLAG_FOR_STUDY(type, member, name, says, study)                                                           \
    {                                                                                                             \
        name, HGA_PARAMETER_FLAG, HGA_IN_BUILDER, offsetof(type, member), HGA_NOWHERE, HGA_NOWHERE, "0", 0, NULL, \
            says, study                                                                                           \
    }
#define FLAG(type, member, name, says) FLAG_FOR_STUDY(type, member, name, says, NULL)
#define WORD_FOR_STUDY(type, member, name, standard, words, says, study)                                         \
    {                                                                                                            \
        name, HGA_PARAMETER_WORD, HGA_IN_BUILDER, offsetof(type, member), HGA_NOWHERE, HGA_NOWHERE, standard, 0, \
            words, says, study                                                                                   \
    }
#define WORD(type, member, name, standard, words, says) WORD_FOR_STUDY(type, member, name, standard, words, says, NULL)
#define WHOLE(type, member, name, standard, least, says)                                                              \
    {                                                                                                                 \
        name, HGA_PARAMETER_WHOLE, HGA_IN_BUILDER, offsetof(type, member), HGA_NOWHERE, HGA_NOWHERE, standard, least, \
            NULL, says, NULL                                                                                          \
    }
/* a number, or an array with a number for each */
#define WHOLE_OR_EACH(type, member, array, n, name, standard, least, says)                                           \
    {                                                                                                                \
        name, HGA_PARAMETER_WHOLE, HGA_IN_BUILDER, offsetof(type, member), offsetof(type, n), offsetof(type, array), \
            standard, least, NULL, says, NULL                                                                        \
    }
#define IDS(type, member, count, name, standard, least, says)                                                          \
    {                                                                                                                  \
        name, HGA_PARAMETER_IDS, HGA_IN_BUILDER, offsetof(type, member), offsetof(type, count), HGA_NOWHERE, standard, \
            least, NULL, says, NULL                                                                                    \
    }
#define FLOATS(place, type, member, count, name, says)                                                           \
    {                                                                                                            \
        name, HGA_PARAMETER_FLOATS, place, offsetof(type, member), count, HGA_NOWHERE, NULL, 0, NULL, says, NULL \
    }
#define REAL(type, member, name, says)                                                                             \
    {                                                                                                              \
        name, HGA_PARAMETER_REAL, HGA_IN_BUILDER, offsetof(type, member), HGA_NOWHERE, HGA_NOWHERE, NULL, 0, NULL, \
            says, NULL                                                                                             \
    }
#define CAUSAL(type) FLAG(type, causal, "causal", "1: no token sees a later one")

static const hga_parameter dense_parameters[] = {CAUSAL(hga_dense), {0}};

static const hga_parameter window_parameters[] = {
    WHOLE(hga_window, left, "left", "64", 0, "tokens seen to the left"),
    WHOLE(hga_window, right, "right", "64", 0, "tokens seen to the right"),
    WHOLE(hga_window, global, "global", "0", 0, "first tokens that see all and that all see"),
    WHOLE(hga_window, stride, "stride", "1", 1, "only its multiples count as distances"),
    CAUSAL(hga_window),
    {0},
};

static const hga_parameter bpt_parameters[] = {
    WHOLE(hga_bpt, k, "k", "4", 1, "spans a level on each side"),
    CAUSAL(hga_bpt),
    WORD_FOR_STUDY(hga_bpt, rule, "rule", "shifted", "shifted text algorithm1",
                   "what happens at a level of odd size: shifted, text, algorithm1", "algorithm1"),
    WHOLE(hga_bpt, clip, "clip", "10", 0, "levels from here on share their edge types"),
    {0},
};

static const hga_parameter htransformer_parameters[] = {
    WHOLE(hga_htransformer, block, "block", "16", 1, "tokens in a block"),
    WORD(hga_htransformer, structure, "structure", "neighbours", "neighbours siblings",
         "neighbours (section 5) or siblings (appendix A)"),
    CAUSAL(hga_htransformer),
    WORD_FOR_STUDY(hga_htransformer, linear, "interpolation", "constant", "constant linear", "constant or linear",
                   "linear"),
    FLAG(hga_htransformer, relative, "relative", "1: edges have their relative position as type"),
    {0},
};

static const hga_parameter hsa_parameters[] = {
    IDS(hga_hsa, branching, n_branching, "branching", NULL, 1, "hopping windows, lowest level first, such as 2,4,8,16"),
    IDS(hga_hsa, parent, n_parent, "parent", NULL, -1,
        "the tree instead: each node's parent, -1 for a root; rows are its leaves, see leaves"),
    WORD(hga_hsa, leaves, "leaves", "depth-first", "depth-first id",
         "which leaf of parent is row 0, 1, ..: depth-first (children by increasing id), or by increasing id"),
    CAUSAL(hga_hsa),
    WORD_FOR_STUDY(hga_hsa, mode, "mode", "frontier", "frontier self", "causal: frontier (strict) or self", "self"),
    FLAG_FOR_STUDY(hga_hsa, self, "self", "1: a token may attend to itself", "1"),
    {0},
};

#define LEAVES(member, count, name, says)                                                                           \
    {                                                                                                               \
        name, HGA_PARAMETER_IDS, HGA_IN_BUILDER, offsetof(hga_treeformer, member), offsetof(hga_treeformer, count), \
            offsetof(hga_treeformer, n_tree_heads), NULL, -1, NULL, says, NULL                                      \
    }
#define TREE                                                                                                        \
    WHOLE(hga_treeformer, height, "height", NULL, 0, "levels below the root"),                                      \
        IDS(hga_treeformer, branching, height, "branching", NULL, 1,                                                \
            "children of a node at each level, root first, such as 10,4 (else 2)"),                                 \
        FLOATS(HGA_IN_ROUTER, hga_router, weights, HGA_NOWHERE, "weights",                                          \
               "hyperplanes, [2^h - 1][d] or, with branching, [rows][d]; a leading [heads] allowed"),               \
        FLOATS(HGA_IN_ROUTER, hga_router, bias, HGA_NOWHERE, "bias", "their offsets, weights' shape without [d]"),  \
        FLOATS(HGA_IN_KEY_ROUTER, hga_router, weights, HGA_NOWHERE, "key-weights", "the keys' own tree"),           \
        FLOATS(HGA_IN_KEY_ROUTER, hga_router, bias, HGA_NOWHERE, "key-bias", "its offsets"),                        \
        LEAVES(query_leaf, n_queries, "query-leaf", "leaves instead of a tree, [n] or [n][heads]; -1: in no leaf"), \
        LEAVES(key_leaf, n_keys, "key-leaf", "the keys' leaves")

static const hga_parameter fine_parameters[] = {TREE, CAUSAL(hga_treeformer), {0}};
static const hga_parameter coarse_parameters[] = {
    TREE,
    FLAG(hga_treeformer, causal, "causal", "0: node means hold later keys, so there is no causal form"),
    FLOATS(HGA_IN_IO, hga_io, type_scale.data, HGA_NOWHERE, "alpha", "a weight for each level, root first, [h + 1]"),
    {0},
};

static const hga_parameter fenwick_parameters[] = {{0}};

static const hga_parameter dilated_parameters[] = {
    IDS(hga_dilated, segments, n_segments, "segments", "64,256,1024", 1, "tokens in a segment, branch by branch"),
    IDS(hga_dilated, dilations, n_dilations, "dilations", "1,4,16", 1,
        "the distances that count in a branch are its multiples"),
    CAUSAL(hga_dilated),
    {0},
};

static const hga_parameter segments_parameters[] = {
    IDS(hga_segmented, query_segment, n_tokens, "query-segment", NULL, -1,
        "the segment of each query token, without decreasing; -1: in none"),
    IDS(hga_segmented, key_segment, n_keys, "key-segment", NULL, -1,
        "of each key token; without it keys are the queries' tokens"),
    CAUSAL(hga_segmented),
    {0},
};

static const hga_parameter neighbourhood_parameters[] = {
    IDS(hga_neighbourhood, shape, n_axes, "shape", NULL, 1,
        "the grid, such as 64,64, the last axis fastest; without it one axis of all tokens"),
    IDS(hga_neighbourhood, kernel, n_kernel, "kernel", "7", 1, "tokens seen along each axis; one number is for all"),
    IDS(hga_neighbourhood, dilation, n_dilation, "dilation", "1", 1, "the step between them along each axis"),
    IDS(hga_neighbourhood, causal, n_causal, "causal", "0", 0, "1: no token sees a later one along this axis"),
    {0},
};

static const hga_parameter draft_parameters[] = {
    WHOLE(hga_draft, prefix, "prefix", NULL, 0, "tokens before the drafts (attend: key rows without the drafts)"),
    IDS(hga_draft, parent, n_tokens, "parent", NULL, -1, "the draft that each draft follows; -1: the prefix"),
    {0},
};

static const hga_parameter routed_parameters[] = {
    WHOLE(hga_routed, block, "block", "64", 1, "tokens in a block of keys"),
    WHOLE_OR_EACH(hga_routed, choose.k, choose.k_each, choose.n_k_each, "k", "16", 1,
                  "blocks that are chosen, own and forced included; one number, or one for each chooser"),
    REAL(hga_routed, choose.threshold, "threshold",
         "instead of k: the fewest blocks that hold this share of the probability"),
    WHOLE(hga_routed, query_block, "query-block", "1", 1, "tokens that choose together, by their mean or samples"),
    WHOLE(hga_routed, choose.sinks, "sinks", "1", 0, "blocks at the beginning, always chosen"),
    WHOLE(hga_routed, choose.local, "local", "1", 0, "blocks just before a token's own, always chosen"),
    WORD(hga_routed, choose.share, "share", "head", "head group all",
         "who chooses together: head, the heads of a key/value head (group), or all"),
    WORD(hga_routed, choose.score, "score", "mean", "mean minmax given sample",
         "of a block: its mean key, a bound of its products (minmax), given, or true weights of some queries (sample)"),
    WHOLE(hga_routed, choose.sample, "sample", "4", 1,
          "with score sample, whose query blocks have several tokens: every so many-th query is sampled"),
    WHOLE(hga_routed, choose.coarse, "coarse", "0", 0,
          "causal: look only inside the best blocks of this many tokens, a multiple of block; 0: off"),
    WHOLE(hga_routed, choose.coarse_k, "coarse-k", "6", 1, "how many of these"),
    WHOLE(hga_routed, choose.prefill, "prefill", "1", 1,
          "query-block of calls and appends of several tokens; a single token chooses for itself"),
    {"choice", HGA_PARAMETER_IDS, HGA_IN_CHOICE, offsetof(hga_routed, choice), HGA_NOWHERE, HGA_NOWHERE, NULL, -1, NULL,
     "instead of queries and keys: the blocks, [choosers][query blocks][slots], as --choice writes them", NULL},
    CAUSAL(hga_routed),
    {0},
};

/* ---- settings for display, and settings to compare ---- */

#define SHOWS(name, ...) static const char *const name##_shows[] = {__VA_ARGS__, NULL}
SHOWS(dense, "", "causal=1");
SHOWS(window, "left=64 right=64", "left=64 causal=1");
SHOWS(bpt, "k=4", "k=4 causal=1");
SHOWS(htransformer, "block=16", "block=16 structure=siblings", "block=16 causal=1");
SHOWS(hsa, "", "branching=2,4,8,16", "causal=1");
SHOWS(plain, "");
SHOWS(dilated, "", "causal=1");
SHOWS(segments, "", "causal=1");
SHOWS(neighbourhood, "kernel=65", "kernel=65 causal=1");
SHOWS(routed, "block=16 k=8 share=all", "block=16 k=8 share=all causal=1");
static const char *const draft_shows[] = {NULL};

static const hga_sweep dense_sweeps[] = {{"", 0, {0}}, {0}};
static const hga_sweep window_sweeps[] = {{"left=# right=#", 1, {4, 16, 64, 256, 1024}}, {0}};
static const hga_sweep bpt_sweeps[] = {{"k=#", 2, {1, 2, 4, 8, 16, 32, 64}}, {0}};
static const hga_sweep htransformer_sweeps[] = {
    {"block=#", 2, {4, 8, 16, 32, 64, 128, 256}},
    {"block=# structure=siblings", 2, {4, 8, 16, 32, 64, 128, 256}},
    {0},
};
static const hga_sweep hsa_sweeps[] = {{"branching=#", 1, {2, 4, 8, 16, 32, 64}}, {"branching=#,4,8,16", 1, {2}}, {0}};
static const hga_sweep tree_sweeps[] = {{"height=#", 0, {1, 2, 3, 4, 6, 8, 10}}, {0}};
static const hga_sweep fenwick_sweeps[] = {{"", 0, {0}}, {0}};
static const hga_sweep dilated_sweeps[] = {
    {"segments=# dilations=1", 1, {16, 64, 256, 1024}},
    {"segments=64,#,1024 dilations=1,4,16", 1, {256}},
    {0},
};
static const hga_sweep routed_sweeps[] = {
    {"block=# k=4 share=all", 4, {8, 16, 32, 64, 128}},
    {"block=16 k=# share=all", 16, {8, 16, 32, 64}},
    {0},
};
static const hga_sweep neighbourhood_sweeps[] = {{"kernel=#", 1, {7, 33, 129, 513}}, {0}};

/* ---- the table ---- */

/* what a choice is made by, where nothing is said: as hga_select_blocks has it */
static hga_routed as_selections(void)
{
    const hga_selection how = hga_selection_defaults();
    return (hga_routed){.block = how.block,
                        .query_block = how.query_block,
                        .n_choosers = 1,
                        .choose.k = how.k,
                        .choose.sinks = how.sinks,
                        .choose.local = how.local,
                        .choose.coarse_k = how.coarse_k,
                        .choose.sample = how.sample,
                        .choose.prefill = 1};
}

/* typed functions behind untyped pointers, and the defaults, which are zero but for what is named */
#define FUNCTIONS(name, type, builder, ...)                                            \
    static void start_##name(void *p)                                                  \
    {                                                                                  \
        const type defaults = __VA_ARGS__;                                             \
        *(type *)p = defaults;                                                         \
    }                                                                                  \
    static hga_status build_##name(const void *p, hga_graph **g, hga_program *program) \
    {                                                                                  \
        const type *parameters = p;                                                    \
        return builder(parameters, g, program);                                        \
    }
FUNCTIONS(dense, hga_dense, hga_build_dense, {0})
FUNCTIONS(window, hga_window, hga_build_window, {.left = 64, .right = 64, .stride = 1})
FUNCTIONS(bpt, hga_bpt, hga_build_bpt, {.k = 4, .clip = 10})
FUNCTIONS(htransformer, hga_htransformer, hga_build_htransformer, {.block = 16})
FUNCTIONS(hsa, hga_hsa, hga_build_hsa, {0})
FUNCTIONS(fine, hga_treeformer, hga_build_treeformer_fine, {.n_tree_heads = 1})
FUNCTIONS(coarse, hga_treeformer, hga_build_treeformer_coarse, {.n_tree_heads = 1})
FUNCTIONS(fenwick, hga_fenwick, hga_build_fenwick, {0})
FUNCTIONS(dilated, hga_dilated, hga_build_dilated, {0})
FUNCTIONS(segments, hga_segmented, hga_build_segments, {0})
FUNCTIONS(neighbourhood, hga_neighbourhood, hga_build_neighbourhood, {0})
FUNCTIONS(draft, hga_draft, hga_build_draft, {.prefix = -1})
FUNCTIONS(routed, hga_routed, hga_build_routed, as_selections())

/* The options of programs of attention; of one stage, into which nothing is merged; and without distances. */
#define MERGED            (HGA_TAKES_SOFTCAP | HGA_TAKES_SINK | HGA_TAKES_SLOPES | HGA_TAKES_SIGMOID)
#define WHOLE_ROWS        (MERGED | HGA_TAKES_ENTMAX)
#define WITHOUT_DISTANCES (WHOLE_ROWS & ~(unsigned)HGA_TAKES_SLOPES)

#define SIZES(type, tokens, keys) sizeof(type), offsetof(type, tokens), keys

static const hga_variant table[] = {
    {"dense", "every token sees every token", "the baseline", SIZES(hga_dense, n_tokens, offsetof(hga_dense, n_keys)),
     dense_parameters, HGA_CAN_CAUSAL | HGA_CAN_CROSS | WHOLE_ROWS, dense_shows, dense_sweeps, NULL, start_dense,
     build_dense, formula_dense},
    {"window", "sliding window, global tokens, strides",
     "Longformer (Beltagy et al. 2020), Sparse Transformer (Child et al. 2019)",
     SIZES(hga_window, n_tokens, offsetof(hga_window, n_keys)), window_parameters,
     HGA_CAN_CAUSAL | HGA_CAN_CROSS | WHOLE_ROWS, window_shows, window_sweeps, NULL, start_window, build_window,
     formula_window},
    {"bpt", "BP-Transformer; rows of tensors are nodes", "Ye et al. 2019", SIZES(hga_bpt, n_tokens, HGA_NOWHERE),
     bpt_parameters, HGA_CAN_CAUSAL | HGA_ROWS_ARE_NODES | WHOLE_ROWS, bpt_shows, bpt_sweeps, hga_bpt_tokens, start_bpt,
     build_bpt, formula_bpt},
    {"htransformer", "H-Transformer-1D", "Zhu and Soricut 2021",
     SIZES(hga_htransformer, n_tokens, offsetof(hga_htransformer, n_keys)), htransformer_parameters,
     HGA_CAN_CAUSAL | HGA_CAN_CROSS | MERGED, htransformer_shows, htransformer_sweeps, NULL, start_htransformer,
     build_htransformer, formula_htransformer},
    {"hsa", "hierarchical self-attention", "Amizadeh et al. 2025", SIZES(hga_hsa, n_tokens, HGA_NOWHERE),
     hsa_parameters, HGA_CAN_CAUSAL | HGA_TAKES_TREE | HGA_TAKES_SLOPES | HGA_TAKES_ENTMAX, hsa_shows, hsa_sweeps, NULL,
     start_hsa, build_hsa, formula_hsa},
    {"treeformer-fine", "Treeformer, TF-attention", "Madaan et al. 2022",
     SIZES(hga_treeformer, n_queries, offsetof(hga_treeformer, n_keys)), fine_parameters,
     HGA_CAN_CAUSAL | HGA_CAN_CROSS | HGA_NEEDS_LEAVES | WHOLE_ROWS, plain_shows, tree_sweeps, NULL, start_fine,
     build_fine, formula_fine},
    {"treeformer-coarse", "Treeformer, TC-attention", "Madaan et al. 2022",
     SIZES(hga_treeformer, n_queries, offsetof(hga_treeformer, n_keys)), coarse_parameters,
     HGA_CAN_CROSS | HGA_NEEDS_LEAVES | HGA_NEEDS_TYPE_SCALE, plain_shows, tree_sweeps, NULL, start_coarse,
     build_coarse, formula_coarse},
    {"fenwick", "itself and the past in complete power-of-two spans; always causal",
     "log-linear attention (Guo et al. 2025)", SIZES(hga_fenwick, n_tokens, HGA_NOWHERE), fenwick_parameters,
     HGA_ALWAYS_CAUSAL | WHOLE_ROWS, plain_shows, fenwick_sweeps, NULL, start_fenwick, build_fenwick, formula_fenwick},
    {"dilated", "segments and dilations, branch by branch", "LongNet (Ding et al. 2023)",
     SIZES(hga_dilated, n_tokens, HGA_NOWHERE), dilated_parameters, HGA_CAN_CAUSAL | MERGED, dilated_shows,
     dilated_sweeps, NULL, start_dilated, build_dilated, formula_dilated},
    {"segments", "aligned segments of two texts, dense inside", "BP-Transformer's translation (Ye et al. 2019)",
     SIZES(hga_segmented, n_tokens, offsetof(hga_segmented, n_keys)), segments_parameters,
     HGA_CAN_CAUSAL | HGA_CAN_CROSS | HGA_NEEDS_SEGMENTS | WHOLE_ROWS, segments_shows, NULL, NULL, start_segments,
     build_segments, formula_segments},
    {"neighbourhood", "the nearest tokens of a grid of one to three axes", "NATTEN (Hassani et al. 2023)",
     SIZES(hga_neighbourhood, n_tokens, HGA_NOWHERE), neighbourhood_parameters,
     HGA_CAN_CAUSAL | HGA_TAKES_SHAPE | WITHOUT_DISTANCES, neighbourhood_shows, neighbourhood_sweeps, NULL,
     start_neighbourhood, build_neighbourhood, formula_neighbourhood},
    {"draft", "drafts of speculative decoding, each after the prefix and its own line",
     "SpecInfer (Miao et al. 2024), Medusa (Cai et al. 2024)", SIZES(hga_draft, n_tokens, offsetof(hga_draft, n_keys)),
     draft_parameters, HGA_CAN_CROSS | HGA_NEEDS_DRAFTS | WHOLE_ROWS, draft_shows, NULL, NULL, start_draft, build_draft,
     formula_draft},
    {"routed", "blocks of keys that each token chooses, by the queries and keys of the call",
     "MoBA (Lu et al. 2025), Quest (Tang et al. 2024), XAttention (Xu et al. 2025)",
     SIZES(hga_routed, n_tokens, HGA_NOWHERE), routed_parameters, HGA_CAN_CAUSAL | HGA_NEEDS_CHOICE | WHOLE_ROWS,
     routed_shows, routed_sweeps, NULL, start_routed, build_routed, formula_routed},
    {0},
};

const hga_variant *hga_variants(void) { return table; }
