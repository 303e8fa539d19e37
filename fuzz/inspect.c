/* inspect.c: three answers about one pattern, which must count the same pairs. */
#include "fuzz.h"

#include <stdlib.h>

enum { MOST_NODES = 600, MOST_EDGES = 40000 };

int fuzz_is_small(const hga_graph *g)
{
    hga_nodes nodes = hga_graph_nodes(g);
    hga_pos edges = 0;
    for (hga_id r = 0; r < nodes.n_relations; r++) {
        hga_relation x = hga_graph_relation(g, r);
        if (x.n_edges > MOST_EDGES || x.n_blocks > MOST_EDGES) return 0;
        edges += x.n_edges;
    }
    return nodes.n <= MOST_NODES && edges <= MOST_EDGES;
}

/* How often each pair of a query and a key token is covered, by the pattern's rectangles. */
typedef struct times {
    hga_id n_queries, n_keys;
    hga_pos *of;
} times;

static hga_status count(const hga_patch *x, void *context)
{
    times *t = context;
    if (x->query < 0 || x->query + x->n_queries > t->n_queries || x->key < 0 || x->key + x->n_keys > t->n_keys)
        fuzz_fail("a rectangle leaves the tokens");
    for (hga_id q = x->query; q < x->query + x->n_queries; q++)
        for (hga_id k = x->key; k < x->key + x->n_keys; k++) t->of[(int64_t)q * t->n_keys + k] += x->times;
    return HGA_OK;
}

static int attends(const hga_program *p)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].message == HGA_SCORE) return 1;
    return 0;
}

static void compare(const times *t, const hga_coverage *c, const hga_levels_count *levels)
{
    int64_t none = 0, once = 0, more = 0, by_levels = 0;
    for (int64_t i = 0; i < (int64_t)t->n_queries * t->n_keys; i++) {
        none += t->of[i] == 0;
        once += t->of[i] == 1;
        more += t->of[i] > 1;
    }
    if (none != c->none || once != c->once || more != c->more)
        fuzz_fail("the pattern covers %lld, %lld, %lld never, once, more often; coverage says %lld, %lld, %lld",
                  (long long)none, (long long)once, (long long)more, (long long)c->none, (long long)c->once,
                  (long long)c->more);
    for (hga_id i = 0; levels && i < levels->n; i++) by_levels += levels->levels[i] ? levels->pairs[i] : 0;
    if (levels && by_levels != once + more)
        fuzz_fail("levels cover %lld pairs, the pattern %lld", (long long)by_levels, (long long)(once + more));
}

void fuzz_inspect(const hga_graph *g, const hga_program *p)
{
    hga_nodes nodes = hga_graph_nodes(g);
    hga_coverage coverage;
    hga_levels_count levels = {0};
    hga_id token, sees;
    times t = {nodes.n_queries, nodes.n_keys, calloc((size_t)nodes.n_queries * (size_t)nodes.n_keys + 1, sizeof *t.of)};
    if (!t.of) fuzz_fail("no memory");
    hga_status pattern = hga_program_pattern(p, g, count, &t), covered = hga_program_coverage(p, g, 0, &coverage);
    hga_status by_level = hga_program_levels(p, g, &levels);
    hga_program_influence(p, g, &token, &sees);
    if (attends(p) && !pattern && !covered) compare(&t, &coverage, by_level ? NULL : &levels);
    hga_levels_count_clear(&levels);
    free(t.of);
}
