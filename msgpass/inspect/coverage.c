/* coverage.c: counts how often each pair of tokens is covered, list by list. */
#include "coverage.h"

/* ---- counting ---- */

/* Prefix sums once[i] and more[i]: the tokens that intervals before index i cover once, and more often. */
static hga_status add_coverage(coverage_count *s, const interval *list, int64_t n)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_grow(NULL, &s->once, &s->capacity[0], 0, n, sizeof *s->once));
    HGA_TRY(hga_grow(NULL, &s->more, &s->capacity[1], 0, n, sizeof *s->more));
    for (int64_t i = 0, once = 0, more = 0; i < n; i++) {
        s->once[i] = once, s->more[i] = more;
        *(list[i].times == 1 ? &once : &more) += list[i].last - list[i].first + 1;
    }
done:
    return st;
}

/* For a list: tokens before `end` covered once and more often, and whether token end - 1 is covered. */
static void count_before(const coverage_count *s, const interval *list, int64_t n, hga_id end, int64_t *once,
                         int64_t *more, int *last_is_covered)
{
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (list[mid].first < end)
            lo = mid + 1;
        else
            hi = mid;
    }
    *once = *more = *last_is_covered = 0;
    if (lo == 0) return;
    interval c = list[lo - 1];
    hga_id inside = (c.last < end ? c.last + 1 : end) - c.first;
    *once = s->once[lo - 1] + (c.times == 1 ? inside : 0);
    *more = s->more[lo - 1] + (c.times == 1 ? 0 : inside);
    *last_is_covered = end > c.first && end <= c.last + 1;
}

/* The first token below `end` covered more than once, -1 without. */
static hga_id first_more(const interval *list, int64_t n, hga_id end)
{
    for (int64_t i = 0; i < n && list[i].first < end; i++)
        if (list[i].times > 1) return list[i].first;
    return -1;
}

/* The first token below `end` other than `except` that is not covered, -1 without. */
static hga_id first_none(const interval *list, int64_t n, hga_id end, hga_id except)
{
    hga_id next = 0;
    for (int64_t i = 0; i <= n; i++) {
        hga_id gap_end = i < n && list[i].first < end ? list[i].first : end;
        if (next == except && next < gap_end) next++;
        if (next < gap_end) return next;
        if (i < n) next = list[i].last + 1;
    }
    return -1;
}

static int is_earlier(hga_id i, hga_id seen) { return seen < 0 || i < seen; }

/* Counts a node's list if the node is a query token. Query tokens come in any order. */
hga_status coverage_row(const interval *list, int64_t n, int same, hga_id v, void *context)
{
    coverage_count *s = context;
    hga_id i = v - s->nodes.query_first, n_keys = s->nodes.n_keys, earlier = i < n_keys ? i + 1 : n_keys,
           end = s->causal ? earlier : n_keys;
    if (v < s->nodes.query_first || i >= s->nodes.n_queries) return HGA_OK;
    int64_t once_early, more_early, once_all, more_all;
    int self, unused;
    hga_status st = same ? HGA_OK : add_coverage(s, list, n);
    if (st) return st;
    count_before(s, list, n, earlier, &once_early, &more_early, &self);
    count_before(s, list, n, n_keys, &once_all, &more_all, &unused);
    int64_t once = s->causal ? once_early : once_all, more = s->causal ? more_early : more_all,
            none = end - once - more;
    int lacks_self = s->nodes.query_first == s->nodes.key_first && i < n_keys && !self;
    hga_coverage *c = s->count;
    coverage_examples *seen = &s->seen;
    c->pairs += end, c->none += none, c->once += once, c->more += more, c->none_diagonal += lacks_self;
    c->later += once_all + more_all - once_early - more_early;
    if (more && is_earlier(i, seen->more[0])) seen->more[0] = i, seen->more[1] = first_more(list, n, end);
    if (none > lacks_self && is_earlier(i, seen->none[0]))
        seen->none[0] = i, seen->none[1] = first_none(list, n, end, lacks_self ? i : -1);
    if (lacks_self && is_earlier(i, seen->diagonal)) seen->diagonal = i;
    return HGA_OK;
}

/* Chooses the pair to show: one covered more than once, else one never covered, a token and itself last. */
static void choose_example(const coverage_examples *seen, hga_coverage *c)
{
    if (seen->more[0] >= 0)
        c->token = seen->more[0], c->other = seen->more[1];
    else if (seen->none[0] >= 0)
        c->token = seen->none[0], c->other = seen->none[1];
    else
        c->token = c->other = seen->diagonal;
}

hga_status coverage_begin(coverage_count *s, const hga_graph *g, int causal, hga_coverage *out)
{
    *s = (coverage_count){.causal = causal, .count = out, .seen = {{-1, -1}, {-1, -1}, -1}};
    if (!out) return hga_fail(HGA_EINVAL, "coverage: nowhere to put the result");
    *out = (hga_coverage){.token = -1, .other = -1};
    s->nodes = hga_graph_nodes(g);
    return HGA_OK;
}

void coverage_end(coverage_count *s)
{
    if (s->count) choose_example(&s->seen, s->count);
    hga_delete(NULL, s->once, s->capacity[0], sizeof *s->once);
    hga_delete(NULL, s->more, s->capacity[1], sizeof *s->more);
}

hga_status hga_program_coverage(const hga_program *p, const hga_graph *g, int causal, hga_coverage *out)
{
    coverage_count s;
    hga_status st = HGA_OK;
    HGA_TRY(coverage_begin(&s, g, causal, out));
    HGA_TRY(flow_rows(p, g, &(flow_wish){.row = coverage_row, .context = &s}));
done:
    coverage_end(&s);
    return st;
}
