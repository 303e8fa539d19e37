/* levels.c: how many pairs each set of levels covers. */
#include "coverage.h"

#include <string.h>

/* Pairs covered by exactly these levels. */
typedef struct level_set {
    uint64_t levels;
    int64_t pairs;
} level_set;

typedef struct level_census {
    hga_nodes nodes;
    coverage_count *coverage; /* NULL: not requested */
    level_set *set;           /* ascending */
    int64_t n, capacity;
} level_census;

/* The index where a set is or belongs. */
static int64_t set_position(const level_census *s, uint64_t levels)
{
    int64_t lo = 0, hi = s->n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (s->set[mid].levels < levels)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Adds pairs to a set of levels; sets stay sorted. */
static hga_status count_pairs(level_census *s, uint64_t levels, int64_t pairs)
{
    hga_status st = HGA_OK;
    int64_t at = set_position(s, levels);
    if (at == s->n || s->set[at].levels != levels) {
        HGA_TRY(hga_grow(NULL, &s->set, &s->capacity, s->n, s->n + 1, sizeof *s->set));
        memmove(s->set + at + 1, s->set + at, (size_t)(s->n - at) * sizeof *s->set);
        s->set[at] = (level_set){.levels = levels};
        s->n++;
    }
    s->set[at].pairs += pairs;
done:
    return st;
}

static hga_status count_levels_of(const interval *list, int64_t n, int same, hga_id v, void *context)
{
    level_census *s = context;
    hga_status st = HGA_OK;
    if (s->coverage) HGA_TRY(coverage_row(list, n, same, v, s->coverage));
    if (v < s->nodes.query_first || v - s->nodes.query_first >= s->nodes.n_queries) return HGA_OK;
    for (int64_t i = 0; i < n; i++) HGA_TRY(count_pairs(s, list[i].tags, (int64_t)list[i].last - list[i].first + 1));
done:
    return st;
}

/* Copies the census to the caller's arrays, which hga_levels_count_clear frees. */
static hga_status hand_over(const level_census *s, hga_levels_count *out)
{
    hga_status st = HGA_OK;
    if (s->n > INT32_MAX) return hga_fail(HGA_EOVERFLOW, "levels: %lld sets of levels", (long long)s->n);
    out->n = (hga_id)s->n;
    HGA_TRY(hga_new(NULL, s->n, sizeof *out->levels, &out->levels));
    HGA_TRY(hga_new(NULL, s->n, sizeof *out->pairs, &out->pairs));
    for (int64_t i = 0; i < s->n; i++) out->levels[i] = s->set[i].levels, out->pairs[i] = s->set[i].pairs;
done:
    if (st) hga_levels_count_clear(out);
    return st;
}

/* Counts pairs by sets of levels, and in the same walk how often each is covered, if requested. */
static hga_status count_levels(const hga_program *p, const hga_graph *g, coverage_count *coverage,
                               hga_levels_count *out)
{
    level_census s = {.nodes = hga_graph_nodes(g), .coverage = coverage};
    hga_status st = HGA_OK;
    if (!out) return hga_fail(HGA_EINVAL, "levels: nowhere to put the result");
    *out = (hga_levels_count){0};
    HGA_TRY(flow_rows(p, g, &(flow_wish){.by_level = 1, .row = count_levels_of, .context = &s}));
    HGA_TRY(hand_over(&s, out));
done:
    hga_delete(NULL, s.set, s.capacity, sizeof *s.set);
    return st;
}

hga_status hga_program_levels(const hga_program *p, const hga_graph *g, hga_levels_count *out)
{
    return count_levels(p, g, NULL, out);
}

hga_status hga_program_coverage_levels(const hga_program *p, const hga_graph *g, int causal, hga_coverage *coverage,
                                       hga_levels_count *out)
{
    coverage_count s;
    hga_status st = HGA_OK;
    HGA_TRY(coverage_begin(&s, g, causal, coverage));
    HGA_TRY(count_levels(p, g, &s, out));
done:
    coverage_end(&s);
    return st;
}

void hga_levels_count_clear(hga_levels_count *c)
{
    if (!c) return;
    hga_delete(NULL, c->levels, c->n, sizeof *c->levels);
    hga_delete(NULL, c->pairs, c->n, sizeof *c->pairs);
    *c = (hga_levels_count){0};
}
