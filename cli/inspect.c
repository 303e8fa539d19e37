/* inspect.c: hga inspect, what a graph is and who sees whom in it. */
#include <stdio.h>
#include <stdlib.h>

#include "arguments.h"
#include "graph_argument.h"
#include "ascii.h"
#include "command.h"
#include "degrees.h"
#include "edges_of_note.h"
#include "inspect_print.h"
#include "inspect_row.h"
#include "ordered.h"
#include "table.h"
#include "variant_routed.h"

enum { MOST_LAYERS = INT32_MAX };

/* What following the layers of an irregular graph may take without --layers: about a second. */
enum { BRIEF_WORK = 1 << 23 };

typedef struct arguments {
    graph_argument source;
    const char *path; /* what messages call it */
    hga_shape shape;
    row_wish row;
    hga_options options;
    hga_id width;
    int json, causal, has_row, draws, all_layers;
} arguments;

/* ---- nodes and edges ---- */

static json_t *level_row(const hga_nodes *nodes, hga_id l)
{
    hga_id count[3] = {0};
    for (hga_id v = nodes->level_ptr[l]; v < nodes->level_ptr[l + 1]; v++)
        count[nodes->side ? nodes->side[v] : HGA_SIDE_BOTH]++;
    return json_pack("{s:i, s:i, s:i, s:i, s:i}", "level", l, "nodes", nodes->level_ptr[l + 1] - nodes->level_ptr[l],
                     "both", count[HGA_SIDE_BOTH], "query", count[HGA_SIDE_QUERY], "key", count[HGA_SIDE_KEY]);
}

static int list_levels(const hga_graph *g, json_t *rows)
{
    hga_nodes nodes = hga_graph_nodes(g);
    for (hga_id l = 0; l < nodes.n_levels; l++)
        if (row_append(rows, level_row(&nodes, l))) return CLI_OUTSIDE;
    return CLI_GOOD;
}

/* Edges, blocks and types of each relation, and its degrees on both sides. */
static int list_relations(const arguments *a, const hga_graph *g, json_t *rows)
{
    hga_graph *turned = NULL;
    int status = CLI_GOOD;
    TRY(complain_of(hga_graph_transpose(g, &turned), CLI_DATA, a->path));
    for (hga_id i = 0; i < hga_graph_nodes(g).n_relations; i++) {
        hga_relation r = hga_graph_relation(g, i);
        json_t *row = json_pack("{s:s, s:I, s:I, s:I, s:I, s:i, s:b}", "name", r.name, "edges", (json_int_t)r.n_edges,
                                "twice", (json_int_t)edges_twice(g, i), "blocks", (json_int_t)r.n_blocks, "explicit",
                                (json_int_t)r.n_explicit, "types", r.n_types, "weighted", r.weighted);
        TRY(row_append(rows, row));
        TRY(degrees_add(g, i, "in", row));
        TRY(degrees_add(turned, i, "out", row));
    }
done:
    hga_graph_destroy(turned);
    return status;
}

/* What the graph takes and, where it has a program, what a plan and a workspace of it would. */
static int add_bytes(const arguments *a, const graph_file *f, json_t *document)
{
    hga_plan *plan = NULL;
    int64_t plan_bytes = -1, state_bytes = -1;
    int status = CLI_GOOD;
    if (f->text) {
        TRY(complain_of(hga_plan_create(f->graph, &f->program, &a->shape, &a->options, &plan), CLI_DATA, a->path));
        plan_bytes = hga_plan_bytes(plan), state_bytes = hga_plan_workspace_bytes(plan);
    }
    json_t *bytes = json_pack("{s:I, s:o, s:o, s:i, s:i, s:o}", "graph", (json_int_t)hga_graph_bytes(f->graph), "plan",
                              plan ? json_integer(plan_bytes) : json_null(), "state",
                              plan ? json_integer(state_bytes) : json_null(), "heads", a->shape.n_heads, "dim",
                              a->shape.dim, "threads", plan ? json_integer(hga_plan_threads(plan)) : json_null());
    if (json_object_set_new(document, "bytes", bytes) != 0) status = complain(CLI_OUTSIDE, "out of memory");
done:
    hga_plan_destroy(plan);
    return status;
}

/* ---- pairs ---- */

static json_t *level_set(uint64_t levels)
{
    json_t *list = json_array();
    for (int l = 0; l < 64; l++)
        if (levels >> l & 1) json_array_append_new(list, json_integer(l));
    return list;
}

/* How many pairs are covered, how often, and by which sets of levels. */
static int add_coverage(const arguments *a, const graph_file *f, int causal, json_t *document)
{
    hga_coverage c;
    hga_levels_count levels = {0};
    json_t *sets = json_array();
    int status = CLI_GOOD;
    TRY(complain_of(hga_program_coverage_levels(&f->program, f->graph, causal, &c, &levels), CLI_DATA, a->path));
    for (hga_id i = 0; i < levels.n; i++)
        json_array_append_new(
            sets, json_pack("{s:o, s:I}", "levels", level_set(levels.levels[i]), "pairs", (json_int_t)levels.pairs[i]));
    json_t *coverage = json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:O}", "causal", causal, "pairs",
                                 (json_int_t)c.pairs, "none", (json_int_t)c.none, "none_diagonal",
                                 (json_int_t)c.none_diagonal, "once", (json_int_t)c.once, "more", (json_int_t)c.more,
                                 "later", (json_int_t)c.later, "token", c.token, "other", c.other, "levels", sets);
    if (json_object_set_new(document, "coverage", coverage) != 0) status = complain(CLI_OUTSIDE, "out of memory");
done:
    json_decref(sets);
    hga_levels_count_clear(&levels);
    return status;
}

/* By which node a token sees a later one: a source that holds later tokens, else a destination whose query is made of
   them. */
typedef struct leak {
    hga_nodes nodes;
    hga_id token, sees;
    hga_id source, query; /* nodes, -1 unknown */
    int exact;            /* the source holds the token that is seen */
} leak;

static hga_status find_way(const hga_seen *e, void *context)
{
    leak *k = context;
    int holds = e->key_first <= k->sees && k->sees <= e->key_last;
    if ((k->source < 0 && e->key_last > k->token) || (holds && !k->exact)) k->source = e->source, k->exact = holds;
    if (k->query < 0 && k->nodes.span_last[e->destination] - k->nodes.query_first > k->token) k->query = e->destination;
    return HGA_OK;
}

/* The first token whose output depends on a later one, and the node by which it does. */
static int add_causality(const arguments *a, const graph_file *f, json_t *document)
{
    hga_id token, sees;
    json_t *causality = json_null();
    hga_status st = hga_program_influence(&f->program, f->graph, &token, &sees);
    leak k = {.nodes = hga_graph_nodes(f->graph), .token = token, .sees = sees, .source = -1, .query = -1};
    int status = CLI_GOOD;
    if (st != HGA_EUNSUPPORTED) {
        TRY(complain_of(st, CLI_DATA, a->path));
        if (token >= 0)
            TRY(complain_of(hga_program_row(&f->program, f->graph, token, find_way, &k), CLI_DATA, a->path));
        hga_id node = k.source >= 0 ? k.source : k.query;
        causality = json_pack("{s:b, s:i, s:i, s:i, s:s?, s:i}", "causal", token < 0, "token", token, "sees", sees,
                              "node", node, "side",
                              k.source >= 0  ? "key"
                              : k.query >= 0 ? "query"
                                             : NULL,
                              "level", node >= 0 ? hga_graph_level(f->graph, node) : -1);
    }
    if (json_object_set_new(document, "causality", causality) != 0) status = complain(CLI_OUTSIDE, "out of memory");
done:
    return status;
}

/* Are there pairs that one layer does not cover, other than a token and itself? */
static int lacks_pairs(const json_t *document)
{
    const json_t *c = json_object_get(document, "coverage");
    return json_integer_value(json_object_get(c, "none")) > json_integer_value(json_object_get(c, "none_diagonal"));
}

/* null where layers have no meaning, or what tokens reach is too irregular to be followed */
static int add_layers(const arguments *a, const graph_file *f, int causal, json_t *document)
{
    hga_id layers = 1;
    int known = json_is_object(json_object_get(document, "causality")) && !lacks_pairs(document);
    hga_status st = HGA_OK;
    if (!known && a->all_layers)
        st = hga_program_layers(&f->program, f->graph, causal, MOST_LAYERS, &layers);
    else if (!known)
        st = hga_program_layers_within(&f->program, f->graph, causal, MOST_LAYERS, BRIEF_WORK, &layers);
    if (st && st != HGA_EUNSUPPORTED) return complain_of(st, CLI_DATA, a->path);
    json_t *why = st ? json_string(hga_error_detail()) : json_null();
    int failed = json_object_set_new(document, "layers", st ? json_null() : json_integer(layers)) != 0;
    failed |= json_object_set_new(document, "layers_unknown", why) != 0;
    return failed ? complain(CLI_OUTSIDE, "out of memory") : CLI_GOOD;
}

/* ---- the document ---- */

/* All that is told of a whole graph; of one without a program what needs none. */
static int look(const arguments *a, const graph_file *f, json_t *document)
{
    hga_nodes nodes = hga_graph_nodes(f->graph);
    int status = CLI_GOOD, causal = (nodes.claims & HGA_CLAIM_CAUSAL) || a->causal;
    json_object_set_new(document, "program", json_boolean(f->text != NULL));
    json_object_set_new(document, "queries", json_integer(nodes.n_queries));
    json_object_set_new(document, "keys", json_integer(nodes.n_keys));
    json_object_set_new(document, "nodes", json_integer(nodes.n));
    json_object_set_new(document, "levels", json_array());
    json_object_set_new(document, "relations", json_array());
    TRY(list_levels(f->graph, json_object_get(document, "levels")));
    TRY(list_relations(a, f->graph, json_object_get(document, "relations")));
    TRY(add_bytes(a, f, document));
    if (!f->text) goto done;
    TRY(add_coverage(a, f, causal, document));
    TRY(add_causality(a, f, document));
    TRY(add_layers(a, f, causal, document));
done:
    return status;
}

/* what the order gains that was asked for */
static int add_order(const arguments *a, json_t *document)
{
    char *text;
    int status = ordered_gain(&a->source.built, &text);
    if (text && json_object_set_new(document, "order", json_string(text)) != 0)
        status = complain(CLI_OUTSIDE, "out of memory");
    free(text);
    return status;
}

/* One row, a drawing, or the whole graph: what was asked for. */
static int fill(const arguments *a, const graph_file *f, json_t *document)
{
    json_t *part = NULL;
    int status = CLI_GOOD;
    json_object_set_new(document, "graph", json_string(a->path));
    if ((a->has_row || a->draws) && !f->text)
        TRY(complain(CLI_DATA, "%s: has no program, so nothing is known of who sees whom (%s)", a->path, f->lacks));
    if (a->has_row) {
        TRY(row_document(f, &a->row, &part));
        json_object_set_new(document, "row", part);
    }
    if (a->draws) {
        TRY(ascii_draw(f->graph, &f->program, a->width, a->path, &part));
        json_object_set_new(document, "ascii", part);
    }
    if (!a->has_row && !a->draws) TRY(look(a, f, document));
    TRY(add_order(a, document));
done:
    return status;
}

static int print_text(const arguments *a, const json_t *document)
{
    int status = CLI_GOOD;
    if (a->has_row) TRY(row_print(json_object_get(document, "row")));
    if (a->has_row && a->draws) puts("");
    if (a->draws) ascii_print(json_object_get(document, "ascii"));
    if (!a->has_row && !a->draws) TRY(look_print(document));
done:
    return status;
}

/* ---- the command ---- */

static int check(void *input)
{
    const arguments *a = input;
    const row_wish *r = &a->row;
    const char *query = r->by.tensors.query;
    if (query && !a->has_row && !routed_is(&a->source.typed))
        return complain(CLI_USAGE, "--query: which token? --row TOKEN is missing");
    if (r->sort && !query) return complain(CLI_USAGE, "--sort: there are no weights without --query and --key");
    return CLI_GOOD;
}

static int read_row(const char *text, void *input)
{
    arguments *a = input;
    a->has_row = 1;
    return row_wish_read(text, &a->row);
}

static int read_ascii(const char *text, void *input)
{
    arguments *a = input;
    a->draws = 1, a->width = ASCII_WIDTH;
    return text ? read_id("--ascii", text, 1, ASCII_MOST, &a->width) : CLI_GOOD;
}

static const option_row options[] = {
    {"causal", FLAG(arguments, causal), NULL, 0,
     "count pairs of a token and itself or an earlier one (default: only if the graph claims to be causal)", 1},
    {"layers", FLAG(arguments, all_layers), NULL, 0,
     "count layers without a time limit, some minutes at most (default: at most a second on irregular graphs)", 1},
    {"row", READ(read_row), "TOKEN", 0,
     "instead: what this query token, a number or a name, attends to, by node and level", 2},
    {"sort", FLAG(arguments, row.sort), NULL, 0, "with --row: heaviest first (default: by node)", 2},
    {"ascii", READ(read_ascii), "WIDTH", OPTION_ARG_OPTIONAL,
     "instead: the attention pattern, at most WIDTH characters wide and high (default: 64)", 3},
    {"json", FLAG(arguments, json), NULL, 0, "as JSON", 9},
    {0},
};

int run_inspect(int argc, char **argv)
{
    const option_part parts[] = {
        {&shape_list, offsetof(arguments, shape), NULL, 0},
        {&machine_list, offsetof(arguments, options), NULL, 0},
        {&graph_list, offsetof(arguments, source), NULL, 0},
        {&weighing_list, offsetof(arguments, row.by), NULL, 0},
        {&chosen_head_list, offsetof(arguments, source.chosen), NULL, 0},
        {call_list(CALL_WHOLE), offsetof(arguments, row.by.call), "With --query and --key:", 10},
        {0}};
    const option_list line = {.rows = options,
                              .parts = parts,
                              .check = check,
                              .words = "GRAPH|VARIANT",
                              .says = "What a graph is: nodes, edges, degrees, bytes, and which pairs of tokens its "
                                      "program covers, by which levels, in how many layers."};
    arguments a = {0};
    graph_file f = {0};
    json_t *document = json_object();
    int status = CLI_GOOD;
    a.source.typed.takes_order = 1;
    a.shape = (hga_shape){.n_heads = DEFAULT_HEADS, .dim = DEFAULT_DIM};
    TRY(arguments_parse(&line, argc, argv, &a));
    weighing_chooses(&a.row.by, &a.source.chosen);
    a.source.has_tensors = 1, a.source.which = CHOSEN_FIRST;
    TRY(graph_argument_read(&a.source, &f));
    weighing_of(&a.source.built, &a.row.by);
    a.path = a.row.path = a.source.title;
    TRY(fill(&a, &f, document));
    if (a.json)
        TRY(json_print(stdout, json_incref(document)));
    else
        TRY(print_text(&a, document));
done:
    json_decref(document);
    graph_file_clear(&f);
    graph_argument_clear(&a.source);
    return status;
}
