/* inspect_look.c: what hga inspect shows of a whole graph, as a document, and in tables and lines. */
#include "inspect_look.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"
#include "terminal.h"

enum { MOST_LAYERS = INT32_MAX };

/* What following the layers of an irregular graph may take without --layers: about a second. */
enum { BRIEF_WORK = 1 << 23 };

static int put(json_t *to, const char *key, json_t *value)
{
    return json_object_set_new(to, key, value) == 0 ? CLI_GOOD : complain(CLI_OUTSIDE, "out of memory");
}

/* ---- degrees ---- */
/* statistics and their histogram by powers of two */

enum { BUCKETS = 64, NAME = 32 };

static int by_size(const void *a, const void *b)
{
    hga_pos x = *(const hga_pos *)a, y = *(const hga_pos *)b;
    return (x > y) - (x < y);
}

/* Sorts the degrees and drops zeros; sets *n to how many are left. */
static void sort_degrees(hga_pos *degree, hga_id nodes, hga_id *n)
{
    *n = 0;
    for (hga_id v = 0; v < nodes; v++)
        if (degree[v] > 0) degree[(*n)++] = degree[v];
    qsort(degree, (size_t)*n, sizeof *degree, by_size);
}

/* Counts nodes by powers of two of their degree. */
static json_t *histogram(const hga_pos *degree, hga_id n)
{
    json_t *list = json_array();
    for (hga_id i = 0; i < n;) {
        int bits = 0;
        while (bits + 1 < BUCKETS - 1 && degree[i] >> (bits + 1)) bits++;
        hga_id first = i;
        while (i < n && degree[i] >> bits == 1) i++;
        json_array_append_new(list, json_pack("{s:I, s:I, s:i}", "from", (json_int_t)1 << bits, "to",
                                              ((json_int_t)2 << bits) - 1, "nodes", i - first));
    }
    return list;
}

static double mean_of(const hga_pos *degree, hga_id n)
{
    double sum = 0;
    for (hga_id i = 0; i < n; i++) sum += (double)degree[i];
    return n ? sum / n : 0;
}

static double median_of(const hga_pos *degree, hga_id n)
{
    return n ? ((double)degree[(n - 1) / 2] + (double)degree[n / 2]) / 2 : 0;
}

static int set_member(json_t *row, const char *prefix, const char *name, json_t *value)
{
    char key[NAME];
    snprintf(key, sizeof key, "%s_%s", prefix, name);
    return put(row, key, value);
}

/* The in-degrees of a relation over the nodes that have edges: members PREFIX_nodes, _min, _mean, _median, _max and
   _histogram, a list of {from, to, nodes}. */
static int add_degrees(const hga_graph *g, hga_id relation, const char *prefix, json_t *row)
{
    hga_id nodes = hga_graph_nodes(g).n, n;
    hga_pos *degree = NULL;
    int status = CLI_GOOD;
    TRY(take(nodes, sizeof *degree, &degree));
    hga_graph_degrees(g, relation, 0, nodes, degree);
    sort_degrees(degree, nodes, &n);
    TRY(set_member(row, prefix, "nodes", json_integer(n)));
    TRY(set_member(row, prefix, "min", json_integer(n ? degree[0] : 0)));
    TRY(set_member(row, prefix, "mean", json_real(mean_of(degree, n))));
    TRY(set_member(row, prefix, "median", json_real(median_of(degree, n))));
    TRY(set_member(row, prefix, "max", json_integer(n ? degree[n - 1] : 0)));
    TRY(set_member(row, prefix, "histogram", histogram(degree, n)));
done:
    free(degree);
    return status;
}

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
static int list_relations(const look_wish *a, const hga_graph *g, json_t *rows)
{
    hga_graph *transposed = NULL;
    int status = CLI_GOOD;
    TRY(complain_of(hga_graph_transpose(g, &transposed), CLI_DATA, a->path));
    for (hga_id i = 0; i < hga_graph_nodes(g).n_relations; i++) {
        hga_relation r = hga_graph_relation(g, i);
        json_t *row = json_pack("{s:s, s:I, s:I, s:I, s:I, s:i, s:b}", "name", r.name, "edges", (json_int_t)r.n_edges,
                                "twice", (json_int_t)hga_graph_repeated(g, i), "blocks", (json_int_t)r.n_blocks,
                                "explicit", (json_int_t)r.n_explicit, "types", r.n_types, "weighted", r.weighted);
        TRY(row_append(rows, row));
        TRY(add_degrees(g, i, "in", row));
        TRY(add_degrees(transposed, i, "out", row));
    }
done:
    hga_graph_destroy(transposed);
    return status;
}

/* Adds the bytes of the graph and, if it has a program, of a plan and a workspace of it. */
static int add_bytes(const look_wish *a, const graph_file *f, json_t *document)
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
    status = put(document, "bytes", bytes);
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

/* Adds how many pairs are covered, how often, and by which sets of levels. */
static int add_coverage(const look_wish *a, const graph_file *f, int causal, json_t *document)
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
    status = put(document, "coverage", coverage);
done:
    json_decref(sets);
    hga_levels_count_clear(&levels);
    return status;
}

/* The node by which a token sees a later one: a source that holds some, else a destination whose query is made of
   them. */
typedef struct leak {
    hga_nodes nodes;
    hga_id token, sees;
    hga_id source, query; /* nodes, -1 unknown */
    int exact;            /* the source holds the token that is seen */
} leak;

static hga_status find_path(const hga_seen *e, void *context)
{
    leak *k = context;
    int holds = e->key_first <= k->sees && k->sees <= e->key_last;
    if ((k->source < 0 && e->key_last > k->token) || (holds && !k->exact)) k->source = e->source, k->exact = holds;
    if (k->query < 0 && k->nodes.span_last[e->destination] - k->nodes.query_first > k->token) k->query = e->destination;
    return HGA_OK;
}

/* Adds the first token whose output depends on a later one, and the node by which it does. */
static int add_causality(const look_wish *a, const graph_file *f, json_t *document)
{
    hga_id token, sees;
    json_t *causality = json_null();
    hga_status st = hga_program_influence(&f->program, f->graph, &token, &sees);
    leak k = {.nodes = hga_graph_nodes(f->graph), .token = token, .sees = sees, .source = -1, .query = -1};
    if (st != HGA_EUNSUPPORTED) {
        MUST(complain_of(st, CLI_DATA, a->path));
        if (token >= 0)
            MUST(complain_of(hga_program_row(&f->program, f->graph, token, find_path, &k), CLI_DATA, a->path));
        hga_id node = k.source >= 0 ? k.source : k.query;
        causality = json_pack("{s:b, s:i, s:i, s:i, s:s?, s:i}", "causal", token < 0, "token", token, "sees", sees,
                              "node", node, "side",
                              k.source >= 0  ? "key"
                              : k.query >= 0 ? "query"
                                             : NULL,
                              "level", node >= 0 ? hga_graph_level(f->graph, node) : -1);
    }
    return put(document, "causality", causality);
}

/* Are there pairs, other than a token and itself, that one layer does not cover? */
static int lacks_pairs(const json_t *document)
{
    const json_t *c = json_object_get(document, "coverage");
    return json_integer_value(json_object_get(c, "none")) > json_integer_value(json_object_get(c, "none_diagonal"));
}

/* null where layers are undefined, or what tokens reach is too irregular to follow */
static int add_layers(const look_wish *a, const graph_file *f, int causal, json_t *document)
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
    int status = put(document, "layers", st ? json_null() : json_integer(layers));
    return put(document, "layers_unknown", why) ? CLI_OUTSIDE : status;
}

/* ---- all of it ---- */

/* All that is shown of a whole graph; without a program only what needs none. */
int look_document(const look_wish *a, const graph_file *f, json_t *document)
{
    hga_nodes nodes = hga_graph_nodes(f->graph);
    int causal = (nodes.claims & HGA_CLAIM_CAUSAL) || a->causal;
    json_object_set_new(document, "program", json_boolean(f->text != NULL));
    json_object_set_new(document, "queries", json_integer(nodes.n_queries));
    json_object_set_new(document, "keys", json_integer(nodes.n_keys));
    json_object_set_new(document, "nodes", json_integer(nodes.n));
    json_object_set_new(document, "levels", json_array());
    json_object_set_new(document, "relations", json_array());
    MUST(list_levels(f->graph, json_object_get(document, "levels")));
    MUST(list_relations(a, f->graph, json_object_get(document, "relations")));
    MUST(add_bytes(a, f, document));
    if (!f->text) return CLI_GOOD;
    MUST(add_coverage(a, f, causal, document));
    MUST(add_causality(a, f, document));
    return add_layers(a, f, causal, document);
}

/* ---- as text ---- */

/* "1: 3, 2-3: 40, .." */
static void print_histogram(const json_t *relation, const char *direction)
{
    char key[32];
    size_t i;
    json_t *bar;
    snprintf(key, sizeof key, "%s_histogram", direction);
    printf("%s-degrees of ", direction);
    terminal_text(stdout, json_string_value(json_object_get(relation, "name")));
    fputs(":", stdout);
    json_array_foreach(json_object_get(relation, key), i, bar)
    {
        long long from = row_whole(bar, "from"), to = row_whole(bar, "to");
        if (from == to)
            printf("%s %lld: %lld", i ? "," : "", from, row_whole(bar, "nodes"));
        else
            printf("%s %lld-%lld: %lld", i ? "," : "", from, to, row_whole(bar, "nodes"));
    }
    printf("%s\n", i ? " nodes" : " no edges");
}

static void print_twice(const json_t *relation)
{
    if (row_whole(relation, "twice") == 0) return;
    terminal_text(stdout, json_string_value(json_object_get(relation, "name")));
    printf(": %lld edges repeat another and count once more\n", row_whole(relation, "twice"));
}

/* Bytes in the unit that keeps the number short; "-" where they are not known. */
static void print_amount(const char *what, const json_t *bytes)
{
    double n = (double)json_integer_value(bytes);
    if (json_is_null(bytes))
        printf("%s -", what);
    else if (n < 1e4)
        printf("%s %.0f B", what, n);
    else if (n < 1e7)
        printf("%s %.1f kB", what, n / 1e3);
    else
        printf("%s %.1f MB", what, n / 1e6);
}

static void print_bytes(const json_t *bytes)
{
    print_amount("bytes      graph", json_object_get(bytes, "graph"));
    print_amount(", plan", json_object_get(bytes, "plan"));
    print_amount(", workspace", json_object_get(bytes, "state"));
    printf(" (%lld heads of %lld, %lld threads)\n", row_whole(bytes, "heads"), row_whole(bytes, "dim"),
           row_whole(bytes, "threads"));
}

static void print_levels_of(const json_t *set)
{
    size_t i;
    json_t *level;
    printf("           %14lld by level", row_whole(set, "pairs"));
    json_array_foreach(json_object_get(set, "levels"), i, level)
        printf("%s%lld", i ? " and " : " ", (long long)json_integer_value(level));
    puts("");
}

/* A line of counts, and one for each set of levels. */
static void print_coverage(const json_t *c)
{
    size_t i;
    json_t *set;
    printf("coverage   of %lld pairs%s %lld once, %lld never (%lld of them a token and itself), %lld more than once",
           row_whole(c, "pairs"), row_is(c, "causal") ? " of a token and an earlier one or itself" : "",
           row_whole(c, "once"), row_whole(c, "none"), row_whole(c, "none_diagonal"), row_whole(c, "more"));
    if (row_whole(c, "token") >= 0)
        printf("; first: query %lld and key %lld", row_whole(c, "token"), row_whole(c, "other"));
    puts("");
    json_array_foreach(json_object_get(c, "levels"), i, set) print_levels_of(set);
}

/* Prints whether any token attends to a later one, and through which node. */
static void print_causality(const json_t *c, const json_t *coverage)
{
    const char *side = json_string_value(json_object_get(c, "side"));
    printf("order      ");
    if (json_is_null(c))
        printf("queries and keys are different tokens, without an order between them");
    else if (row_is(c, "causal"))
        printf("no output depends on a later token");
    else
        printf("%lld pairs where a token attends to a later one; the output of token %lld depends on token %lld",
               row_whole(coverage, "later"), row_whole(c, "token"), row_whole(c, "sees"));
    if (side)
        printf(strcmp(side, "key") == 0 ? ", by way of node %lld of level %lld"
                                        : ", by the query of node %lld of level %lld",
               row_whole(c, "node"), row_whole(c, "level"));
    puts("");
}

/* Prints how many layers it takes until every token is reached by all that may reach it. */
static void print_layers(const json_t *document)
{
    const json_t *layers = json_object_get(document, "layers");
    const char *whom = row_is(json_object_get(document, "coverage"), "causal") ? "every earlier one" : "every other";
    if (json_is_null(layers))
        printf("layers     unknown: %s\n", json_string_value(json_object_get(document, "layers_unknown")));
    else if (json_integer_value(layers) < 0)
        printf("layers     some tokens are never reached by %s\n", whom);
    else
        printf("layers     %lld until every token is reached by %s\n", row_whole(document, "layers"), whom);
}

/* Prints levels, and relations if there are any. */
static int print_tables(const json_t *document)
{
    static const column levels[] = {
        {"level", "level", NULL, 0},      {"nodes", "nodes", NULL, 0},  {"both", "both sides", NULL, 0},
        {"query", "query side", NULL, 0}, {"key", "key side", NULL, 0}, {0},
    };
    static const column relations[] = {
        {"name", "relation", NULL, 0},      {"edges", "edges", NULL, 0},
        {"blocks", "blocks", NULL, 0},      {"explicit", "explicit", NULL, 0},
        {"types", "types", NULL, 0},        {"in_nodes", "rows", NULL, 0},
        {"in_min", "in min", NULL, 0},      {"in_mean", "mean", "%.1f", 0},
        {"in_median", "median", "%.1f", 0}, {"in_max", "max", NULL, 0},
        {"out_nodes", "sources", NULL, 0},  {"out_min", "out min", NULL, 0},
        {"out_mean", "mean", "%.1f", 0},    {"out_median", "median", "%.1f", 0},
        {"out_max", "max", NULL, 0},        {0},
    };
    MUST(table_print(stdout, json_object_get(document, "levels"), levels));
    if (json_array_size(json_object_get(document, "relations")) == 0) return CLI_GOOD;
    puts("");
    return table_print(stdout, json_object_get(document, "relations"), relations);
}

/* Prints the document in words, member by member. */
int look_print(const json_t *document)
{
    size_t i;
    json_t *relation;
    terminal_text(stdout, json_string_value(json_object_get(document, "graph")));
    printf(": %lld query tokens, %lld key tokens, %lld nodes\n\n", row_whole(document, "queries"),
           row_whole(document, "keys"), row_whole(document, "nodes"));
    MUST(print_tables(document));
    puts("");
    json_array_foreach(json_object_get(document, "relations"), i, relation)
    {
        print_histogram(relation, "in");
        print_histogram(relation, "out");
        print_twice(relation);
    }
    puts("");
    print_bytes(json_object_get(document, "bytes"));
    const char *order = json_string_value(json_object_get(document, "order"));
    if (order) printf("order      %s\n", order);
    if (!row_is(document, "program")) {
        printf("the graph has no program: who sees whom is not known\n");
        return CLI_GOOD;
    }
    print_coverage(json_object_get(document, "coverage"));
    print_causality(json_object_get(document, "causality"), json_object_get(document, "coverage"));
    print_layers(document);
    return CLI_GOOD;
}
