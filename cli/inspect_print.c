/* inspect_print.c: what hga inspect found of a whole graph, in tables and lines. */
#include "inspect_print.h"

#include <stdio.h>
#include <string.h>

#include "complain.h"
#include "table.h"
#include "terminal.h"

static long long number_of(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

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
        long long from = number_of(bar, "from"), to = number_of(bar, "to");
        if (from == to)
            printf("%s %lld: %lld", i ? "," : "", from, number_of(bar, "nodes"));
        else
            printf("%s %lld-%lld: %lld", i ? "," : "", from, to, number_of(bar, "nodes"));
    }
    printf("%s\n", i ? " nodes" : " no edges");
}

static void print_twice(const json_t *relation)
{
    if (number_of(relation, "twice") == 0) return;
    terminal_text(stdout, json_string_value(json_object_get(relation, "name")));
    printf(": %lld edges repeat another and count once more\n", number_of(relation, "twice"));
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
    printf(" (%lld heads of %lld, %lld threads)\n", number_of(bytes, "heads"), number_of(bytes, "dim"),
           number_of(bytes, "threads"));
}

static void print_levels_of(const json_t *set)
{
    size_t i;
    json_t *level;
    printf("           %14lld by level", number_of(set, "pairs"));
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
           number_of(c, "pairs"), row_is(c, "causal") ? " of a token and an earlier one or itself" : "",
           number_of(c, "once"), number_of(c, "none"), number_of(c, "none_diagonal"), number_of(c, "more"));
    if (number_of(c, "token") >= 0)
        printf("; first: query %lld and key %lld", number_of(c, "token"), number_of(c, "other"));
    puts("");
    json_array_foreach(json_object_get(c, "levels"), i, set) print_levels_of(set);
}

/* Does any token attend to a later one, and by way of which node? */
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
               number_of(coverage, "later"), number_of(c, "token"), number_of(c, "sees"));
    if (side)
        printf(strcmp(side, "key") == 0 ? ", by way of node %lld of level %lld"
                                        : ", by the query of node %lld of level %lld",
               number_of(c, "node"), number_of(c, "level"));
    puts("");
}

/* How many layers it takes until every token is reached by all that may reach it. */
static void print_layers(const json_t *document)
{
    const json_t *layers = json_object_get(document, "layers");
    const char *whom = row_is(json_object_get(document, "coverage"), "causal") ? "every earlier one" : "every other";
    if (json_is_null(layers))
        printf("layers     unknown: %s\n", json_string_value(json_object_get(document, "layers_unknown")));
    else if (json_integer_value(layers) < 0)
        printf("layers     some tokens are never reached by %s\n", whom);
    else
        printf("layers     %lld until every token is reached by %s\n", number_of(document, "layers"), whom);
}

/* Levels, and relations where there are any. */
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
    int status = CLI_GOOD;
    TRY(table_print(stdout, json_object_get(document, "levels"), levels));
    if (json_array_size(json_object_get(document, "relations")) == 0) goto done;
    puts("");
    TRY(table_print(stdout, json_object_get(document, "relations"), relations));
done:
    return status;
}

int look_print(const json_t *document)
{
    size_t i;
    json_t *relation;
    int status = CLI_GOOD;
    terminal_text(stdout, json_string_value(json_object_get(document, "graph")));
    printf(": %lld query tokens, %lld key tokens, %lld nodes\n\n", number_of(document, "queries"),
           number_of(document, "keys"), number_of(document, "nodes"));
    TRY(print_tables(document));
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
done:
    return status;
}
