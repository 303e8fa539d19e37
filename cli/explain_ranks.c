/* explain_ranks.c: rows, messages and bytes of a rank, from hga_halo, and their time beside the computing, whose
   rate is measured here and now. For more tokens than one machine can build, the same ranks are counted on fewer
   tokens, and rows are extrapolated as they grew between two lengths. */
#include "explain_ranks.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "row_charts.h"
#include "rank_rows.h"
#include "table.h"

enum { MOST_EXACT = 1 << 24, MOST_ESTIMATED_FROM = MOST_EXACT / 4, MEASURED_TOKENS = 8192 };

/* One row of the table before times are added. */
typedef struct rank_count {
    rank_work now, quarter; /* with all tokens, and with a quarter of them; quarter.edges 0: there is no such graph */
    double built_edges;     /* of the graph that was built, which has all tokens where that is exact */
    int exact;
} rank_count;

/* The arguments and rates of an estimate. */
typedef struct estimate {
    const typed_variant *typed;
    const hga_shape *shape;
    const hga_options *options;
    const rank_question *question;
    double tokens, edge_seconds; /* of one edge and all heads, on one thread */
    double dense_edge_seconds;
    int whole; /* the graph is a file's, with the tokens that it has */
} estimate;

/* ---- the counts ---- */

static int build_at(const estimate *e, int64_t tokens, model *m)
{
    char text[32];
    typed_variant typed = *e->typed;
    snprintf(text, sizeof text, "%lld", (long long)tokens);
    if (!e->whole) typed.tokens = text;
    return model_build(&typed, NULL, m);
}

static int count_at(const estimate *e, int64_t tokens, hga_id ranks, rank_work *out)
{
    model m = {0};
    int status = CLI_GOOD;
    TRY(build_at(e, tokens, &m));
    TRY(ranks_count(&m, e->shape, ranks, out));
done:
    model_clear(&m);
    return status;
}

/* Extrapolates from `small` to `large` tokens as from a quarter of `small` to it, since trees of two and of four
   children are cut alike there: what grew nearly as much as the tokens grows in proportion to the tokens, what grew
   by an amount grows by half of it with every doubling, what grew as the square of the tokens grows as their square.
   What became less, as with trees that are cut otherwise, stays. */
static double grown(double now, double quarter, double small, double large)
{
    double more = fmax(0, now - quarter);
    if (now > 8 * quarter) return now * (large / small) * (large / small);
    if (now > 2.5 * quarter) return now + more * (large - small) / (0.75 * small);
    return now + more * log2(large / small) / 2;
}

static rank_work work_grown(const rank_count *c, double small, double large)
{
    const rank_work *now = &c->now, *quarter = &c->quarter;
    return (rank_work){grown(now->edges, quarter->edges, small, large), grown(now->rows, quarter->rows, small, large),
                       grown(now->messages, quarter->messages, small, large),
                       grown(now->bytes, quarter->bytes, small, large)};
}

/* A rank's edges, of few tokens, may be most those that all ranks have: its share of the growth of all edges is
   more. */
static void share_edges(const rank_count *one, hga_id ranks, rank_count *out)
{
    out->now.edges = out->built_edges + (one->now.edges - one->built_edges) / ranks;
    out->quarter.edges = out->built_edges + (one->quarter.edges - one->built_edges) / ranks;
}

/* Counts the ranks with as many tokens as can be built soon, and extrapolates to all of them; `one` is one rank
   alone, or NULL for itself. */
static int count_ranks(const estimate *e, hga_id ranks, const rank_count *one, rank_count *out)
{
    double built = e->tokens;
    out->exact = e->tokens <= MOST_EXACT;
    while (!out->exact && built > MOST_ESTIMATED_FROM) built /= 2;
    MUST(count_at(e, (int64_t)built, ranks, &out->now));
    if (!e->whole && built >= 8 * (double)ranks) MUST(count_at(e, (int64_t)(built / 4), ranks, &out->quarter));
    out->built_edges = out->now.edges;
    if (!out->exact) {
        rank_work now = work_grown(out, built, e->tokens), quarter = work_grown(out, built, e->tokens / 4);
        out->now = now, out->quarter = quarter;
        if (one) share_edges(one, ranks, out);
    }
    return CLI_GOOD;
}

/* ---- the rate ---- */

/* Measures the time of an edge of the variant, on no more tokens than are quickly measured, and of dense attention. */
static int measure(estimate *e)
{
    typed_variant dense = {.name = "dense", .tokens = "2048"};
    model m = {0}, d = {0};
    int status = CLI_GOOD;
    TRY(build_at(e, (int64_t)fmin(e->tokens, MEASURED_TOKENS), &m));
    TRY(ranks_rate(&m, e->shape, e->options, &e->edge_seconds));
    TRY(model_build(&dense, NULL, &d));
    TRY(ranks_rate(&d, e->shape, e->options, &e->dense_edge_seconds));
done:
    model_clear(&m);
    model_clear(&d);
    return status;
}

/* ---- the table ---- */

static double computing(const estimate *e, double edges, double edge_seconds)
{
    return edges * edge_seconds / e->question->threads;
}

static double sending(const estimate *e, const rank_work *w)
{
    return w->messages * e->question->latency_us * 1e-6 + w->bytes * 8 / (e->question->gbits * 1e9);
}

/* The tokens, of all ranks, from which on sending takes at most a ninth of computing: the time of one rank's share
   grows in proportion, what it sends as from a quarter of it. 0: not within 2^60. */
static double weak_tokens(const estimate *e, const rank_count *c)
{
    if (c->quarter.edges == 0 || c->now.edges > 8 * c->quarter.edges) return 0;
    for (double scale = pow(2, -30); scale * e->tokens < pow(2, 60); scale *= pow(2, 0.125)) {
        rank_work w = {.edges = c->now.edges * scale};
        w.bytes = fmax(0, grown(c->now.bytes, c->quarter.bytes, e->tokens, e->tokens * scale));
        w.messages = c->now.messages;
        if (computing(e, w.edges, e->edge_seconds) >= 9 * sending(e, &w)) return e->tokens * scale;
    }
    return 0;
}

/* A row of the table; `total`: seconds of one rank that computes it all. */
static json_t *row_of(const estimate *e, const char *way, hga_id ranks, const rank_work *w, double compute,
                      double total)
{
    double send = sending(e, w), in_series = compute + send, together = fmax(compute, send);
    return json_pack("{s:s, s:i, s:f, s:f, s:f, s:f, s:o, s:f, s:o, s:o}", "way", way, "ranks", ranks, "rows", w->rows,
                     "messages", w->messages, "bytes", w->bytes, "edges", w->edges, "compute_seconds",
                     json_number(compute), "exchange_seconds", send, "efficiency",
                     json_number(total / (ranks * in_series)), "efficiency_overlapped",
                     json_number(total / (ranks * together)));
}

/* A row of the variant on so many ranks, and on how many tokens for each rank the exchange is a tenth. */
static int add_counted(const estimate *e, json_t *rows, hga_id ranks, const rank_count *one)
{
    rank_count c = {0};
    MUST(count_ranks(e, ranks, one, &c));
    double compute = computing(e, c.now.edges, e->edge_seconds), weak = weak_tokens(e, &c);
    json_t *row = row_of(e, "halo", ranks, &c.now, compute, computing(e, one->now.edges, e->edge_seconds));
    if (row) {
        json_object_set_new(row, "weak_tokens", weak > 0 ? json_number(weak) : json_null());
        json_object_set_new(row, "exact", json_boolean(c.exact));
    }
    return row_append(rows, row);
}

static double row_bytes(const hga_shape *s) { return 4.0 * s->dim * (s->n_kv_heads ? s->n_kv_heads : s->n_heads); }

/* What dense attention would cost instead: keys and values of all others pass through each rank in turn; or all
   queries, keys, values and outputs are exchanged, so that a rank has some heads of all tokens. And what routing
   costs that may send any token anywhere. */
static int add_others(const estimate *e, json_t *rows, hga_id ranks)
{
    double n = e->tokens, share = n / ranks, away = (ranks - 1.0) / ranks, row = row_bytes(e->shape);
    double total = computing(e, n * n, e->dense_edge_seconds);
    rank_work ring = {n * share, 2 * n * away, ranks - 1.0, 2 * n * away * row};
    rank_work heads = {n * share, 4 * share * away, 4 * (ranks - 1.0), 4 * share * away * row};
    hga_id kv_heads = e->shape->n_kv_heads ? e->shape->n_kv_heads : e->shape->n_heads;
    MUST(row_append(rows, row_of(e, "dense, ring", ranks, &ring, total / ranks, total)));
    if (ranks <= kv_heads) MUST(row_append(rows, row_of(e, "dense, heads", ranks, &heads, total / ranks, total)));
    heads.edges = 0;
    return row_append(rows, row_of(e, "routed, all-to-all", ranks, &heads, NAN, NAN));
}

/* Fills for each number of ranks the variant, and beside it other ways to divide the work. */
static int fill(const estimate *e, json_t *rows)
{
    rank_count one = {0};
    MUST(count_ranks(e, 1, NULL, &one));
    for (int i = 0; i < e->question->n; i++) {
        MUST(add_counted(e, rows, e->question->ranks[i], &one));
        if (e->question->ranks[i] > 1) MUST(add_others(e, rows, e->question->ranks[i]));
    }
    return CLI_GOOD;
}

static const column columns[] = {
    {"ranks", "ranks", NULL, 0},
    {"way", "way", NULL, 0},
    {"rows", "rows", "%.0f", 0},
    {"messages", "messages", "%.0f", 0},
    {"bytes", "MB", "%.3f", 1e-6},
    {"compute_seconds", "compute ms", "%.3f", 1e3},
    {"exchange_seconds", "exchange ms", "%.3f", 1e3},
    {"efficiency", "efficiency", "%.3f", 0},
    {"efficiency_overlapped", "overlapped", "%.3f", 0},
    {"weak_tokens", "tokens for 90 %", "%.0f", 0},
    {NULL, NULL, NULL, 0},
};

/* The table, and how to read it. */
static int print_text(const estimate *e, const char *title, const json_t *rows)
{
    const rank_question *q = e->question;
    printf("%s, %.0f tokens: what the busiest rank receives or sends in one forward pass, whichever is more\n", title,
           e->tokens);
    MUST(table_print(stdout, rows, columns));
    printf("measured here: %.3g ns an edge of all heads on one thread; a rank has %d thread%s, a message takes %g us, "
           "a link has %g Gbit/s\n",
           1e9 * e->edge_seconds, q->threads, q->threads > 1 ? "s" : "", q->latency_us, q->gbits);
    puts("overlapped: the exchange while the rows that need nothing of it are computed; tokens for 90 %: from so many "
         "tokens on, on as many ranks, the exchange takes at most a tenth of the time");
    if (e->tokens > MOST_EXACT)
        printf("of more than %d tokens, rows and bytes grow on as they did up to %d: they are estimates\n", MOST_EXACT,
               MOST_ESTIMATED_FROM);
    return CLI_GOOD;
}

static int print_json(const estimate *e, const char *title, json_t *rows)
{
    const rank_question *q = e->question;
    return json_print(stdout,
                      json_pack("{s:s, s:f, s:f, s:f, s:i, s:f, s:f, s:O}", "variant", title, "tokens", e->tokens,
                                "edge_seconds", e->edge_seconds, "dense_edge_seconds", e->dense_edge_seconds, "threads",
                                q->threads, "latency_us", q->latency_us, "gbits", q->gbits, "rows", rows));
}

/* ---- milliseconds against ranks, a line for each way ---- */

/* A line: a figure of the rows of one `way`. */
static const struct line_of {
    const char *way, *key, *name;
    uint32_t rgb; /* 0: ink */
    int dashed;
} lines[] = {
    {"halo", "compute_seconds", "computing, the busiest rank", 0x2f6db5, 0},
    {"halo", "exchange_seconds", "its exchange", 0xc8553d, 0},
    {"dense, ring", "exchange_seconds", "exchange of dense, ring", 0, 1},
    {"dense, heads", "exchange_seconds", "exchange of dense, heads", 0x6b8e23, 1},
    {"routed, all-to-all", "exchange_seconds", "exchange of routed, all-to-all", 0x8a6bbf, 1},
};

/* Adds the milliseconds of one way by ranks, of rows that have any: one rank exchanges nothing. */
static void add_line(const json_t *rows, const struct line_of *l, series_chart *c)
{
    series *line = &c->of[c->n];
    size_t i;
    json_t *row;
    line->ink = chart_paint(l->rgb, 1), line->dashed = l->dashed, line->width = l->dashed ? 1.5 : 2.5;
    snprintf(line->name, sizeof line->name, "%s", l->name);
    json_array_foreach(rows, i, row)
    {
        double ms = 1e3 * row_number(row, l->key);
        if (strcmp(row_text(row, "way"), l->way) == 0 && ms > 0)
            series_put(line, (series_point){.x = row_number(row, "ranks"), .y = ms});
    }
    c->n += line->n > 0;
}

/* Milliseconds of the busiest rank against the number of ranks, both logarithmic: computing the hierarchy, its
   exchange, and the exchanges beside it. `rows` are explain_ranks' table; `title` says of what. */
static int write_plot(const estimate *e, const char *title, const json_t *rows)
{
    char text[320];
    series_chart *c = NULL;
    MUST(take(1, sizeof *c, &c));
    snprintf(text, sizeof text, "%s, %.0f tokens: one forward pass", title, e->tokens);
    c->title = text, c->shows_title = 1;
    c->x = (chart_shown){"ranks", "ranks", "ranks", 1, 1}, c->y = chart_milliseconds;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) add_line(rows, &lines[i], c);
    series_chart_fit(c, 0, 0);
    const drawing drawn = series_chart_drawing(c);
    const int status = drawing_write(&drawn, e->question->picture);
    free(c);
    return status;
}

/* ---- the command ---- */

/* Reads the tokens: of --tokens or -p tokens=, which may be more than a graph can have here; a file has its own. */
static int read_tokens(estimate *e)
{
    const char *text = e->typed->tokens;
    model m = {0};
    int64_t tokens = 0;
    int status = CLI_GOOD;
    for (int i = 0; i < e->typed->n; i++)
        if (strncmp(e->typed->setting[i], "tokens=", 7) == 0)
            return complain(CLI_USAGE, "explain: with --ranks, tokens are given by --tokens");
    if (text) {
        TRY(read_whole("--tokens", text, 1, (int64_t)1 << 40, &tokens));
    } else {
        TRY(model_build(e->typed, NULL, &m));
        tokens = hga_graph_nodes(m.graph).level_ptr[1];
        e->whole = 1;
    }
    e->tokens = (double)tokens;
done:
    model_clear(&m);
    return status;
}

/* Latency and bandwidth have defaults; more ranks than tokens are refused. */
int explain_ranks(const typed_variant *typed, const hga_shape *shape, const hga_options *options,
                  const rank_question *question, int json)
{
    rank_question q = *question;
    typed_variant bare = *typed;
    char *title = NULL;
    estimate e = {.typed = typed, .shape = shape, .options = options, .question = &q};
    json_t *rows = json_array();
    int status = CLI_GOOD;
    if (q.latency_us == 0) q.latency_us = 5;
    if (q.gbits == 0) q.gbits = 10;
    q.threads = options->threads > 0 ? options->threads : 1;
    if (q.picture) TRY(drawing_check_path("-o", q.picture));
    TRY(read_tokens(&e));
    for (int i = 0; i < q.n; i++)
        if (q.ranks[i] > e.tokens) TRY(complain(CLI_USAGE, "--ranks: %d ranks for %.0f tokens", q.ranks[i], e.tokens));
    TRY(measure(&e));
    TRY(fill(&e, rows));
    bare.tokens = NULL;
    TRY(variant_title(&bare, &title));
    if (q.picture) TRY(write_plot(&e, title, rows));
    TRY(json ? print_json(&e, title, rows) : print_text(&e, title, rows));
done:
    free(title);
    json_decref(rows);
    return status;
}

/* ---- arguments ---- */

static int read_ranks(const char *text, void *input)
{
    rank_question *q = input;
    return read_list("--ranks", text, 1, MAX_RANKS, MAX_RANK_COUNTS, &q->n, q->ranks);
}

static const option_row options[] = {
    {"ranks", READ(read_ranks), "P[,P..]", 0,
     "instead: what a run on P machines would send and cost, from this machine's measured rate", 10},
    {"latency", ABOVE_0(rank_question, latency_us), "US", 0, "with --ranks: microseconds a message takes (default: 5)",
     10},
    {"gbits", ABOVE_0(rank_question, gbits), "G", 0,
     "with --ranks: gigabits a second that a rank's link has (default: 10)", 10},
    {"output,o", TEXT(rank_question, picture), "FILE", 0, "with --ranks: the times as a plot, FILE.svg or FILE.png",
     10},
    {0},
};

const option_list ranks_list = {.rows = options};
