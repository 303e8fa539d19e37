/* inspect.c: hga inspect, what a graph is and which tokens attend to which. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counted.h"
#include "arguments.h"
#include "ascii.h"
#include "command.h"
#include "graph_argument.h"
#include "graph_file.h"
#include "inspect_look.h"
#include "ordered.h"
#include "row_weights.h"
#include "table.h"
#include "variant.h"

/* ---- one token ---- */

typedef struct row_wish {
    const char *path; /* of the graph, for complaints */
    const char *name; /* of the token; NULL: by its number */
    hga_id token;
    weighing by; /* without a query there are no weights */
    int sort;    /* heaviest first */
} row_wish;

/* "12", "12-15", or NULL where the node's tokens are no interval */
static json_t *tokens_of(const hga_seen *e)
{
    char text[32];
    if (e->key_first > e->key_last) return json_null();
    if (e->key_first == e->key_last)
        snprintf(text, sizeof text, "%d", e->key_first);
    else
        snprintf(text, sizeof text, "%d-%d", e->key_first, e->key_last);
    return json_string(text);
}

/* The name of the node that is seen, else of its first and last token; null: none. */
static json_t *name_of(const hga_graph *g, const hga_seen *e)
{
    hga_id keys = hga_graph_nodes(g).key_first;
    const char *own = hga_graph_name(g, e->source);
    if (own) return json_string(own);
    if (e->key_first > e->key_last) return json_null();
    const char *first = hga_graph_name(g, keys + e->key_first), *last = hga_graph_name(g, keys + e->key_last);
    return first && last ? json_sprintf("%s .. %s", first, last) : json_null();
}

/* `weight` is the mean over heads, `weights` each head's. */
static int add_weights(json_t *row, const double *weight, hga_id heads)
{
    json_t *list = json_array();
    double sum = 0;
    for (hga_id h = 0; h < heads; h++) {
        sum += weight[h];
        json_array_append_new(list, json_number(weight[h]));
    }
    int failed = json_object_set_new(row, "weight", json_number(sum / heads)) != 0;
    failed |= json_object_set_new(row, "weights", list) != 0;
    return failed ? complain(CLI_OUTSIDE, "out of memory") : CLI_GOOD;
}

static json_t *edge_row(const graph_file *f, const hga_seen *e)
{
    int interval = e->key_first <= e->key_last;
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:o, s:o, s:o, s:o}", "stage", f->program.stage[e->stage].name,
                     "destination", e->destination, "level", e->level, "source", e->source, "source_level",
                     e->source_level, "type", e->type, "tokens", tokens_of(e), "name", name_of(f->graph, e),
                     "key_first", interval ? json_integer(e->key_first) : json_null(), "key_last",
                     interval ? json_integer(e->key_last) : json_null());
}

typedef struct ranked {
    double weight;
    int64_t edge;
} ranked;

/* Heaviest first, the order of the edges among equals. */
static int by_weight(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->weight > y->weight || x->weight < y->weight) return x->weight > y->weight ? -1 : 1;
    return (x->edge > y->edge) - (x->edge < y->edge);
}

static int rank_edges(const row_wish *wish, const double *weight, hga_id heads, int64_t n, ranked **out)
{
    MUST(take(n, sizeof **out, out));
    for (int64_t i = 0; i < n; i++) {
        (*out)[i].edge = i;
        for (hga_id h = 0; h < heads && weight; h++) (*out)[i].weight += weight[i * heads + h];
    }
    if (n && wish->sort) qsort(*out, (size_t)n, sizeof **out, by_weight);
    return CLI_GOOD;
}

/* Lists a row for each edge with the weights of its heads, the heaviest first if requested. */
static int list_edges(const graph_file *f, const row_wish *wish, const row_edge_list *list, json_t *rows)
{
    ranked *order = NULL;
    int status = CLI_GOOD;
    TRY(rank_edges(wish, list->weight, list->heads, list->n, &order));
    for (int64_t i = 0; i < list->n; i++) {
        json_t *row = edge_row(f, &list->seen[order[i].edge]);
        TRY(row_append(rows, row));
        if (list->weight) TRY(add_weights(row, list->weight + order[i].edge * list->heads, list->heads));
    }
done:
    free(order);
    return status;
}

static int weigh_edges(const graph_file *f, const row_wish *wish, row_edge_list *list)
{
    row_tensors t = {0};
    int status = row_tensors_read(&wish->by, f, wish->path, &t);
    if (status == CLI_GOOD) status = row_weights(f, &t, wish->token, list);
    row_tensors_clear(&t);
    return status;
}

static int find_edges(const graph_file *f, const row_wish *wish, row_edge_list *list)
{
    if (wish->by.tensors.query) return weigh_edges(f, wish, list);
    return complain_of(hga_program_row(&f->program, f->graph, wish->token, row_edge_add, list), CLI_DATA, wish->path);
}

/* ---- which token ---- */

/* "12", "-3"; a text may well have a token with the name "-" or "3-4". */
static int is_number(const char *text)
{
    const char *digits = text + (*text == '+' || *text == '-');
    return *digits && !digits[strspn(digits, "0123456789")];
}

/* Reads the token's number or name; a name is looked up once the graph is there. */
static int row_wish_read(const char *text, row_wish *wish)
{
    wish->name = NULL;
    if (is_number(text)) return read_id("--row", text, 0, INT32_MAX, &wish->token);
    wish->name = text;
    return *text ? CLI_GOOD : complain(CLI_USAGE, "--row: which token?");
}

/* A name may end with the blanks that a text has after its words. */
static int is_called(const char *name, const char *text)
{
    if (!name) return 0;
    name += strspn(name, " \t\n");
    size_t n = strlen(name);
    while (n && strchr(" \t\n", name[n - 1])) n--;
    return n == strlen(text) && memcmp(name, text, n) == 0;
}

/* Finds the query token of that name, which must be the only one. */
static int find_named(const hga_graph *g, row_wish *wish)
{
    const hga_nodes nodes = hga_graph_nodes(g);
    hga_id n = 0, second = 0;
    for (hga_id token = 0; token < nodes.n_queries; token++) {
        if (!is_called(hga_graph_name(g, nodes.query_first + token), wish->name)) continue;
        if (n++ == 0) wish->token = token;
        if (n == 2) second = token;
    }
    if (n == 0) return complain(CLI_USAGE, "--row: no token of %s is called '%s'", wish->path, wish->name);
    if (n == 1) return CLI_GOOD;
    return complain(CLI_USAGE, "--row: %d tokens of %s are called '%s': %d, %d%s", n, wish->path, wish->name,
                    wish->token, second, n > 2 ? ", .." : "");
}

/* Makes a document of the edges of the token, by its number or its name. */
static int row_document(const graph_file *f, const row_wish *of, json_t **out)
{
    row_edge_list list = {0};
    row_wish wish = *of;
    hga_id n_queries = hga_graph_nodes(f->graph).n_queries;
    json_t *rows = json_array();
    int status = CLI_GOOD;
    *out = NULL;
    if (wish.name) TRY(find_named(f->graph, &wish));
    if (wish.token >= n_queries)
        TRY(complain(CLI_USAGE, "--row: no token %d; there are 0 .. %d", wish.token, n_queries - 1));
    TRY(find_edges(f, &wish, &list));
    TRY(list_edges(f, &wish, &list, rows));
    *out = json_pack("{s:i, s:b, s:i, s:O}", "token", wish.token, "weighed", wish.by.tensors.query != NULL, "heads",
                     list.heads, "edges", rows);
    if (!*out) status = complain(CLI_OUTSIDE, "out of memory");
done:
    json_decref(rows);
    free(list.weight);
    free(list.seen);
    return status;
}

/* Does some row have a value for the column? */
static int has_value(const json_t *rows, const char *key)
{
    size_t i;
    const json_t *row;
    json_array_foreach(rows, i,
                       row) if (json_object_get(row, key) && !json_is_null(json_object_get(row, key))) return 1;
    return 0;
}

/* Columns without any value are left out. */
static int row_print(const json_t *row)
{
    static const column all[] = {
        {"stage", "stage", NULL, 0},           {"destination", "node", NULL, 0},
        {"level", "level", NULL, 0},           {"source", "sees node", NULL, 0},
        {"source_level", "of level", NULL, 0}, {"type", "type", NULL, 0},
        {"tokens", "tokens", NULL, 0},         {"name", "name", NULL, 0},
        {"weight", "weight", "%.6g", 0},
    };
    enum { N_COLUMNS = sizeof all / sizeof *all, FIRST_OPTIONAL = 7 };
    column shown[N_COLUMNS + 1] = {0};
    const json_t *edges = json_object_get(row, "edges");
    const size_t n_edges = json_array_size(edges);
    printf("token %lld attends to %s\n", row_whole(row, "token"), counted((int64_t)n_edges, "node").text);
    if (n_edges == 0) return CLI_GOOD;
    for (int c = 0, n = 0; c < N_COLUMNS; c++)
        if (c < FIRST_OPTIONAL || has_value(edges, all[c].key)) shown[n++] = all[c];
    return table_print(stdout, edges, shown);
}

typedef struct arguments {
    graph_argument source;
    look_wish look;
    row_wish row;
    hga_id width;
    int json, has_row, draws;
} arguments;

/* ---- the document ---- */

/* adds what the requested order gains */
static int add_order(const arguments *a, json_t *document)
{
    char *text;
    int status = ordered_gain(&a->source.built, &text);
    if (text && json_object_set_new(document, "order", json_string(text)) != 0)
        status = complain(CLI_OUTSIDE, "out of memory");
    free(text);
    return status;
}

/* Fills in one row, a drawing, or the whole graph, as requested. */
static int fill(const arguments *a, const graph_file *f, json_t *document)
{
    json_t *part = NULL;
    json_object_set_new(document, "graph", json_string(a->look.path));
    if ((a->has_row || a->draws) && !f->text)
        return complain(CLI_DATA, "%s: has no program, so nothing is known of who sees whom (%s)", a->look.path,
                        f->lacks);
    if (a->has_row) {
        MUST(row_document(f, &a->row, &part));
        json_object_set_new(document, "row", part);
    }
    if (a->draws) {
        MUST(ascii_draw(f->graph, &f->program, a->width, a->look.path, &part));
        json_object_set_new(document, "ascii", part);
    }
    if (!a->has_row && !a->draws) MUST(look_document(&a->look, f, document));
    return add_order(a, document);
}

static int print_text(const arguments *a, const json_t *document)
{
    if (a->has_row) MUST(row_print(json_object_get(document, "row")));
    if (a->has_row && a->draws) puts("");
    if (a->draws) ascii_print(json_object_get(document, "ascii"));
    if (!a->has_row && !a->draws) MUST(look_print(document));
    return CLI_GOOD;
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
    {"causal", FLAG(arguments, look.causal), NULL, 0,
     "count only pairs in which a token sees itself or an earlier one (default: if the graph's builder promised "
     "causality)",
     1},
    {"layers", FLAG(arguments, look.all_layers), NULL, 0,
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
        {&shape_list, offsetof(arguments, look.shape), NULL, 0},
        {&machine_list, offsetof(arguments, look.options), NULL, 0},
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
    json_t *document = json_object();
    int status = CLI_GOOD;
    a.source.typed.takes_order = 1;
    a.look.shape = (hga_shape){.n_heads = DEFAULT_HEADS, .dim = DEFAULT_DIM};
    TRY(arguments_parse(&line, argc, argv, &a));
    weighing_chooses(&a.row.by, &a.source.chosen);
    a.source.has_tensors = 1, a.source.which = CHOSEN_FIRST;
    TRY(graph_argument_read(&a.source));
    weighing_of(&a.source.built, &a.row.by);
    a.look.path = a.row.path = a.source.title;
    TRY(fill(&a, &a.source.file, document));
    if (a.json)
        TRY(json_print(stdout, json_incref(document)));
    else
        TRY(print_text(&a, document));
done:
    json_decref(document);
    graph_argument_clear(&a.source);
    return status;
}
