/* flops.c: hga flops, operation counts by formula and by counting edges. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "chosen_source.h"
#include "command.h"
#include "table.h"
#include "variant.h"

typedef struct arguments {
    typed_variant variant;
    hga_shape shape;
    chosen_source chosen;
    int json;
} arguments;

/* ---- the command line ---- */

static const option_row options[] = {
    {"json", FLAG(arguments, json), NULL, 0, "as JSON", 9},
    {0},
};

/* ---- counting ---- */

typedef struct count {
    const char *title;
    hga_id tokens;
    hga_shape shape;
    double formula, edges; /* of the attended relation; NaN: not known */
    int may_differ;        /* the last block is shorter, and the formula takes a whole one */
    double flops;          /* of every stage */
} count;

/* edges that are scored, stage by stage; without any, those of the main relation */
static double attended_edges(const model *m)
{
    hga_id relation = main_relation(&m->program);
    double edges = 0;
    int scored = 0;
    for (hga_id i = 0; i < m->program.n_stages; i++) {
        const hga_stage *s = &m->program.stage[i];
        if (s->message != HGA_SCORE || s->relation < 0) continue;
        edges += (double)hga_graph_relation(m->graph, s->relation).n_edges;
        scored = 1;
    }
    return scored || relation < 0 ? edges : (double)hga_graph_relation(m->graph, relation).n_edges;
}

/* Counts the operations of one pass by a plan, and the attended edges. */
static int count_model(const model *m, const hga_shape *shape, count *c)
{
    hga_plan *plan = NULL;
    hga_shape folded = *shape;
    if (m->tree_heads > 1) folded.n_heads = folded.n_kv_heads = 1;
    hga_options o = {0};
    MUST(model_complain_of(hga_plan_create(m->graph, &m->program, &folded, &o, &plan), m));
    c->flops = hga_plan_cost(plan).flops;
    hga_plan_destroy(plan);
    c->shape = folded;
    c->title = m->title;
    c->tokens = hga_graph_nodes(m->graph).n_queries / m->tree_heads;
    c->edges = attended_edges(m);
    return CLI_GOOD;
}

static int set_own_k(const hga_variant *v, hga_id k, void *parameters)
{
    char text[16];
    snprintf(text, sizeof text, "%d", k);
    return complain_of(hga_variant_set(v, parameters, "k", text), CLI_USAGE, v->name);
}

/* The variant's own formula at this number of tokens; NAN if there is none, of a file or a batch. own_k: of the chooser
   whose graph it is; 0: of all. */
static int count_by_formula(const typed_variant *typed, hga_id own_k, count *c)
{
    _Alignas(max_align_t) char parameters[1024];
    settings s = {0};
    const hga_variant *v = NULL;
    int status = CLI_GOOD;
    c->formula = NAN;
    TRY(variant_settings(typed, &s, &v));
    if (!v || setting_array(&s, "tokens")) goto done; /* a file, a batch */
    TRY(settings_fill(&s, v, parameters));
    if (own_k) TRY(set_own_k(v, own_k, parameters));
    c->may_differ = v->can & HGA_NEEDS_CHOICE && !setting_id(&s, "causal") && c->tokens % setting_id(&s, "block") != 0;
    memcpy(parameters + v->tokens, &c->tokens, sizeof c->tokens);
    c->formula = v->edges(parameters);
done:
    settings_clear(&s);
    return status;
}

static const column columns[] = {
    {"variant", "variant", NULL, 0},
    {"tokens", "tokens", NULL, 0},
    {"edges_formula", "edges by formula", "%.0f", 0},
    {"edges_counted", "counted", "%.0f", 0},
    {"agrees", "agrees", NULL, 0},
    {"flops_attention", "attention GFLOP", "%.6g", 1e-9},
    {"flops", "all stages GFLOP", "%.6g", 1e-9},
    {"flops_dense", "dense GFLOP", "%.6g", 1e-9},
    {"share_of_dense", "of dense", "%.3f %%", 100},
    {0},
};

/* Do the formula and the edges agree? -1: one of them is unknown. */
static int agrees_with(const count *c)
{
    return isnan(c->formula) || isnan(c->edges) || c->may_differ ? -1 : c->formula == c->edges;
}

/* 4 x dim for each edge and head if scores are computed; otherwise nothing is attended */
static json_t *count_row(const count *c, int scored)
{
    double each = 4.0 * c->shape.dim * c->shape.n_heads, dense = each * c->tokens * (double)c->tokens;
    json_t *agrees = agrees_with(c) < 0 ? json_null() : json_boolean(agrees_with(c));
    return json_pack("{s:s, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:f, s:f, s:f}", "variant", c->title, "tokens",
                     c->tokens, "heads", c->shape.n_heads, "dim", c->shape.dim, "edges_formula",
                     json_number(c->formula), "edges_counted", json_number(c->edges), "agrees", agrees,
                     "flops_attention",
                     scored ? json_real(each * (isnan(c->edges) ? c->formula : c->edges)) : json_null(), "flops",
                     c->flops, "flops_dense", dense, "share_of_dense", c->flops / dense);
}

static int print_count(const count *c, int scored, int json)
{
    json_t *rows = json_array();
    int status = row_append(rows, count_row(c, scored));
    if (!status)
        status = json ? json_print(stdout, json_pack("{s:O}", "rows", rows)) : table_print(stdout, rows, columns);
    json_decref(rows);
    if (status) return status;
    return agrees_with(c) ? CLI_GOOD : CLI_FAILED;
}

/* Where k has several numbers, heads are as many as these say. */
static int check_k(const arguments *a, const settings *s)
{
    const npy *k = setting_array(s, "k");
    hga_id n = 0;
    MUST(routed_choosers(&a->variant, a->shape.n_heads, a->shape.n_kv_heads, &n));
    if (!k || k->count == n) return CLI_GOOD;
    return complain(CLI_USAGE, "routed: k has %lld numbers, and there are %d choosers", (long long)k->count, n);
}

/* Counts routed without anything to choose from: k blocks for each row, which are not built. */
static int count_unchosen(const arguments *a)
{
    char *title = NULL;
    settings s = {0};
    const hga_variant *v;
    count c = {.shape = a->shape, .edges = NAN, .formula = NAN};
    int status = CLI_GOOD;
    TRY(variant_settings(&a->variant, &s, &v));
    c.tokens = setting_id(&s, "tokens");
    if (!setting_is_set(&s, "tokens") || setting_array(&s, "tokens"))
        TRY(complain(CLI_USAGE, "%s needs --tokens N", v->name));
    TRY(variant_title(&a->variant, &title));
    c.title = title;
    TRY(check_k(a, &s));
    TRY(count_by_formula(&a->variant, 0, &c));
    if (isnan(c.formula))
        TRY(complain(CLI_USAGE,
                     "%s: how many blocks are chosen depends on queries and keys: give --query FILE and --key FILE",
                     v->name));
    c.flops = 4.0 * c.shape.dim * c.shape.n_heads * c.formula;
    TRY(print_count(&c, 1, a->json));
done:
    free(title);
    settings_clear(&s);
    return status;
}

/* Was a choice typed? */
static int is_chosen(const typed_variant *typed)
{
    int is_input = 0;
    for (int i = 0; i < typed->n; i++) is_input |= strncmp(typed->setting[i], "choice=", strlen("choice=")) == 0;
    return is_input;
}

int run_flops(int argc, char **argv)
{
    const option_part parts[] = {{&variant_list, offsetof(arguments, variant), NULL, 0},
                                 {&shape_list, offsetof(arguments, shape), NULL, 0},
                                 {&chosen_list, offsetof(arguments, chosen), NULL, 0},
                                 {0}};
    const option_list line = {
        .rows = options,
        .parts = parts,
        .words = "VARIANT",
        .says = "Count operations by formula and by counting edges. Exits with 1 if the two disagree.\v"};
    arguments a = {0};
    model m = {0};
    count c = {0};
    int status = CLI_GOOD;
    TRY(arguments_parse(&line, argc, argv, &a));
    if (routed_is(&a.variant) && !a.chosen.query && !is_chosen(&a.variant)) return count_unchosen(&a);
    TRY(chosen_build(&a.variant, &a.chosen, CHOSEN_FIRST, 0, &m));
    TRY(count_model(&m, &a.shape, &c));
    TRY(count_by_formula(&a.variant, m.chosen.k, &c));
    TRY(print_count(&c, score_stage(&m.program) != NULL, a.json));
done:
    model_clear(&m);
    return status;
}
