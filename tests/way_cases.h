/* way_cases.h: the solvers of the backward pass, each with problems that it runs. */
#ifndef WAY_CASES_H
#define WAY_CASES_H

#include "choosing.h"

/* ---- the solvers ---- */

typedef struct row {
    const char *way, *words; /* its name; a program of the builders', or .. */
    const char *variant;     /* .. a variant of the tests' table, or .. */
    problem (*by_hand)(hga_id n, const hga_shape *shape);
    hga_id n;
    hga_shape shape, grouped; /* grouped: several query heads for one key/value head */
    hga_options options;
    const operands *modifiers; /* NULL: none */
    int additive;              /* scores are sums, with a vector for each head */
    double alpha;              /* entmax's; 0: softmax */
} row;

/* A row's edges come from anywhere, some with weights, some twice; some rows have none. */
static problem listed(hga_id n, const hga_shape *shape)
{
    problem p = {.name = "edges listed one by one", .shape = *shape};
    uint64_t rng = 1;
    hga_id near;
    hga_builder *b = tokens_alone(n);
    assert_ok(hga_builder_add_relation(b, "near", &near));
    for (hga_id v = 0; v < n; v++)
        for (hga_id i = 0; i < v % 12; i++) {
            hga_id u = random_below(&rng, n);
            assert_ok(hga_builder_add_edge(b, near, u, v, 0, u % 5 ? 1 : 0.5f));
        }
    p.graph = finished(b);
    assert_ok(hga_program_attention(&p.program, near));
    problem_fill(&p, 1);
    return p;
}

/* Families of five whose edges have types: a solver that ignores relative keys is wrong, which with one type it is
   not. */
static problem typed_families(hga_id n, const hga_shape *shape)
{
    problem p = {.name = "families of five, with types", .shape = *shape};
    const hga_id each = 5;
    hga_id above, root, near, n_above = n / each;
    hga_graph *plain;
    hga_builder *b = tokens_alone(n_above * each);
    assert_ok(hga_builder_add_level(b, n_above, &above));
    assert_ok(hga_builder_add_level(b, 1, &root));
    assert_ok(hga_builder_set_families(b, above, 0, n_above * each, each));
    assert_ok(hga_builder_set_families(b, root, above, n_above, n_above));
    assert_ok(hga_builder_add_relation(b, "sibling", &near));
    hga_block families = {.n_dst = each, .n_src = each, .count = n_above, .dst_step = each, .src_step = each};
    families.shape = HGA_OFF_DIAGONAL, families.type_src = 1;
    assert_ok(hga_builder_add_blocks(b, near, &families));
    hga_block top = {.dst = above, .n_dst = n_above, .src = above, .n_src = n_above, .shape = HGA_OFF_DIAGONAL};
    top.type = each;
    assert_ok(hga_builder_add_blocks(b, near, &top));
    p.graph = finished(b);
    assert_ok(hga_build("hsa branching=5", n, &plain, &p.program)); /* for its program */
    hga_graph_destroy(plain);
    problem_fill(&p, 1);
    return p;
}

/* Rows that choose their columns. */
static problem choosing(hga_id n, const hga_shape *shape)
{
    problem p = {.name = "rows that choose", .shape = *shape, .graph = rows_that_choose(n, 1, HOLES | TWICE)};
    assert_ok(hga_program_attention(&p.program, 0));
    problem_fill(&p, 1);
    return p;
}

static problem choosing_blocks(hga_id n, const hga_shape *shape)
{
    problem p = {.name = "rows that choose blocks", .shape = *shape, .graph = rows_with_blocks(n, 1)};
    assert_ok(hga_program_attention(&p.program, 0));
    problem_fill(&p, 1);
    return p;
}

/* HSA whose states attend a second time, differently, before energies are made of them. */
static problem attends_twice(hga_id n, const hga_shape *shape)
{
    problem p = {.name = "hsa that attends twice", .shape = *shape};
    assert_ok(hga_build("hsa branching=2,4,8", n, &p.graph, &p.program));
    hga_stage *stage = p.program.stage, more;
    hga_id attend = (hga_id)(find_stage(&p.program, HGA_SCORE) - stage), last = p.program.n_stages;
    const hga_stage *s = &stage[attend];
    assert_ok(hga_program_attend_more(&p.program, s->relation, s->query, s->key, s->value, s->out, !s->by_mass));
    more = stage[last];
    memmove(stage + attend + 2, stage + attend + 1, (size_t)(last - attend - 1) * sizeof *stage);
    stage[attend + 1] = more;
    problem_fill(&p, 1);
    return p;
}

/* A cap and slopes, contents being as large as the cap; and sinks, where the output has a log-sum-exp. */
static const float slopes[] = {0.5f, 0.05f, 0, 0.2f};
static const float sinks[] = {0.5f, -1, 2, -INFINITY};
static const operands modifiers = {.softcap = 0.5f, .sink = sinks, .slopes = slopes}, sloping = {.slopes = slopes},
                      sinking = {.sink = sinks}, capped = {.softcap = 0.5f, .slopes = slopes};
static const float vectors[4 * 32] = {0.5f, -1, 0.25f, 1, 0.75f, -0.5f};
static const operands adding = {.additive = vectors};

#define SHORT \
    .shape = {.n_heads = 4, .dim = 8, .dim_v = 4}, .grouped = {.n_heads = 4, .n_kv_heads = 2, .dim = 1, .dim_v = 12}
#define SHAPES .shape = {.n_heads = 4, .dim = 16}, .grouped = {.n_heads = 4, .n_kv_heads = 2, .dim = 16, .dim_v = 32}

static const row rows[] = {
    {"a family of siblings at a time, all heads together", "hsa branching=2,4,8", NULL, NULL, 600, SHAPES, {0}},
    {"a family of siblings at a time, all heads together", NULL, NULL, typed_families, 150, SHAPES, {0}},
    {"row by row and source by source, all heads together", NULL, NULL, listed, 300, SHAPES, {0}},
    {"row by row and source by source, all heads together",
     NULL,
     NULL,
     listed,
     300,
     SHAPES,
     {0},
     .modifiers = &sinking},
    {"row by row and source by source, all heads together", NULL, NULL, listed, 300, SHAPES, {.dropout = 0.2f}},
    {"row by row and source by source, all heads together", NULL, NULL, listed, 300, SHORT, {.dropout = 0.2f}},
    {"row by row and source by source, all heads together", NULL, NULL, listed, 300, SHAPES, {0}, .additive = 1},
    {"row by row and source by source, all heads together", NULL, NULL, listed, 300, SHORT, {0}, .additive = 1},
    {"sums from end to end, all heads together", NULL, "coarse", NULL, 300, SHAPES, {0}},
    {"a subtree at a time, a head at a time",
     "htransformer block=4",
     NULL,
     NULL,
     700,
     SHAPES,
     {.gradient_subtree = 64}},
    {"a head at a time", "window left=20 right=10", NULL, NULL, 500, SHAPES, {.gradient_row_ranges = 3}},
    {"a head at a time", "bpt k=4", NULL, NULL, 200, SHAPES, {0}},
    {"a head at a time", "bpt k=4", NULL, NULL, 200, SHAPES, {.dropout = 0.2f}},
    {"a head at a time", NULL, NULL, attends_twice, 300, SHAPES, {0}},
    {"a head at a time", NULL, NULL, choosing, 800, SHAPES, {.gradient_row_ranges = 3}},
    {"a head at a time", NULL, NULL, choosing_blocks, 700, SHAPES, {0}},
    {"a head at a time", NULL, NULL, choosing, 800, SHAPES, {.dropout = 0.2f}, .modifiers = &modifiers},
    {"a head at a time", "window left=20 right=10", NULL, NULL, 500, SHAPES, {0}, .modifiers = &modifiers},
    {"a head at a time", "bpt k=4", NULL, NULL, 200, SHAPES, {.dropout = 0.2f}, .modifiers = &modifiers},
    {"a head at a time", NULL, NULL, listed, 120, SHAPES, {0}, .modifiers = &modifiers},
    {"a head at a time", NULL, NULL, attends_twice, 300, SHAPES, {0}, .modifiers = &sloping},
    {"a subtree at a time, a head at a time",
     "htransformer block=4",
     NULL,
     NULL,
     700,
     SHAPES,
     {.gradient_subtree = 64},
     .modifiers = &modifiers},
    {"a subtree at a time, a head at a time",
     "htransformer block=4",
     NULL,
     NULL,
     300,
     SHAPES,
     {0},
     .modifiers = &sinking},
    {"a head at a time", "dilated segments=16,64 dilations=1,4", NULL, NULL, 200, SHAPES, {0}, .modifiers = &sinking},
    {"a head at a time",
     "window left=20 right=10",
     NULL,
     NULL,
     500,
     SHAPES,
     {.gradient_row_ranges = 3},
     .modifiers = &capped,
     .alpha = 1.5},
    {"a head at a time", "dense", NULL, NULL, 130, SHAPES, {.dropout = 0.2f}, .alpha = 1.25},
    {"a head at a time", NULL, NULL, listed, 120, SHORT, {0}, .alpha = 1.7},
    {"a head at a time", NULL, NULL, choosing, 800, SHAPES, {0}, .modifiers = &sloping, .alpha = 1.5},
    {"row by row in double", "window left=5 right=4", NULL, NULL, 60, SHAPES, {.generic = 1}},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

static problem of_words(const row *r, hga_id n, const hga_shape *shape)
{
    problem p = {.shape = *shape};
    snprintf(p.name, sizeof p.name, "%s", r->words);
    assert_ok(hga_build(r->words, n, &p.graph, &p.program));
    problem_fill(&p, 1);
    return p;
}

/* The problem of a row, of n tokens instead of the row's own. */
static inline problem problem_of_tokens(const row *r, hga_id n, const hga_shape *shape)
{
    problem p = {.shape = *shape};
    if (r->by_hand)
        p = r->by_hand(n, shape);
    else if (r->words)
        p = of_words(r, n, shape);
    else
        variant_build(variant_named(r->variant), n, 1, shape, &p);
    bring_to(&p.io, r->modifiers);
    if (r->alpha != 0) p.io.lse.data = NULL;
    if (r->alpha != 0) assert_ok(hga_program_normalise(&p.program, HGA_NORMALISER_ENTMAX, r->alpha));
    if (r->additive) bring_to(&p.io, &adding), p.program.scores = HGA_SCORES_ADDITIVE, p.program.negative_slope = 0.2f;
    return p;
}

static inline problem problem_of(const row *r, const hga_shape *shape) { return problem_of_tokens(r, r->n, shape); }

/* The solver of the call. */
static inline const char *way_of(const hga_plan *plan, const hga_io *io, const hga_grad_io *grad)
{
    const char *name, *refusal;
    for (hga_id i = 0; (name = hga_plan_gradient_tried(plan, io, grad, i, &refusal)); i++)
        if (!refusal) return name;
    return "none";
}

#endif
