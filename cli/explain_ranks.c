/* explain_ranks.c: rows, messages and bytes a rank, from hga_halo, and what they cost beside the computing, whose rate
   is measured here and now. Beyond what one machine can build, the same ranks are counted on fewer tokens, and rows
   grow on as they did between two lengths. */
#include "explain_ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "cases.h"
#include "drawing.h"
#include "ordered.h"
#include "rank_rows.h"
#include "ranks_plot.h"
#include "table.h"

enum { MOST_EXACT = 1 << 24, MOST_ESTIMATED_FROM = MOST_EXACT / 4, MEASURED_TOKENS = 8192 };

/* One row of the table before times are put to it. */
typedef struct rank_count {
    rank_work now, quarter; /* with all tokens, and with a quarter of them; quarter.edges 0: there is no such graph */
    double built_edges;     /* of the graph that was built, which has all tokens where that is exact */
    int exact;
} rank_count;

/* What goes through all of it. */
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

/* A gather of P ranks takes the time of log2 P messages. */
static void busiest(const hga_halo_list *list, rank_work *out)
{
    *out = (rank_work){0};
    for (hga_id r = 0; r < list->n_ranks; r++) {
        const hga_rank_load *x = &list->load[r];
        int64_t rows = x->rows_in > x->rows_out ? x->rows_in : x->rows_out;
        int64_t bytes = x->bytes_in > x->bytes_out ? x->bytes_in : x->bytes_out;
        int64_t messages = x->messages_in > x->messages_out ? x->messages_in : x->messages_out;
        out->edges = fmax(out->edges, (double)x->n_edges), out->rows = fmax(out->rows, (double)rows);
        out->bytes = fmax(out->bytes, (double)bytes), out->messages = fmax(out->messages, (double)messages);
    }
    out->messages += list->n_gathers * ceil(log2(list->n_ranks));
}

int ranks_count(const model *m, const hga_shape *shape, hga_id ranks, rank_work *out)
{
    hga_halo_list list = {0};
    const hga_graph *graph = ordered_graph(m);
    hga_id *cuts = NULL;
    int status = CLI_GOOD;
    TRY(rank_cuts(graph, ranks, &cuts));
    TRY(complain_of(hga_halo(graph, &m->program, shape, cuts, ranks, &list), CLI_USAGE, m->title));
    busiest(&list, out);
done:
    hga_halo_clear(&list);
    free(cuts);
    return status;
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

/* From `small` on to `large` tokens as from a quarter of `small` on to it, since trees of two and of four children are
   cut alike there: what has grown nearly as much as the tokens goes on so for every token more, what has grown by an
   amount grows by half of it with every doubling, what has grown as the square of the tokens goes on so. What has
   become less, as with trees that are cut otherwise, stays. */
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

/* A rank's edges, of few tokens, may be most those that all ranks have: its share of what all edges grow by is more. */
static void share_edges(const rank_count *one, hga_id ranks, rank_count *out)
{
    out->now.edges = out->built_edges + (one->now.edges - one->built_edges) / ranks;
    out->quarter.edges = out->built_edges + (one->quarter.edges - one->built_edges) / ranks;
}

/* The ranks with as many tokens as can be built soon, and what that becomes with all of them; `one` is one rank alone,
   or NULL for itself. */
static int count_ranks(const estimate *e, hga_id ranks, const rank_count *one, rank_count *out)
{
    double built = e->tokens;
    int status = CLI_GOOD;
    out->exact = e->tokens <= MOST_EXACT;
    while (!out->exact && built > MOST_ESTIMATED_FROM) built /= 2;
    TRY(count_at(e, (int64_t)built, ranks, &out->now));
    if (!e->whole && built >= 8 * (double)ranks) TRY(count_at(e, (int64_t)(built / 4), ranks, &out->quarter));
    out->built_edges = out->now.edges;
    if (!out->exact) {
        rank_work now = work_grown(out, built, e->tokens), quarter = work_grown(out, built, e->tokens / 4);
        out->now = now, out->quarter = quarter;
        if (one) share_edges(one, ranks, out);
    }
done:
    return status;
}

/* ---- the rate ---- */

/* The processor time of one thread, divided by the edges that it attends. */
int ranks_rate(const model *m, const hga_shape *shape, const hga_options *given, double *edge_seconds)
{
    bench_case c = {.graph = hga_graph_retain(ordered_graph(m)), .program = m->program};
    bench_rules rules = {.budget = 1};
    bench_timing time;
    hga_options options = *given;
    rank_work one;
    int status = CLI_GOOD;
    options.threads = 1;
    TRY(ranks_count(m, shape, 1, &one));
    TRY(complain_of(bench_case_ready(&c, shape, &options), CLI_USAGE, m->title));
    TRY(complain_of(bench_case_time(&c, &rules, &time), CLI_OUTSIDE, m->title));
    *edge_seconds = time.processor_least / one.edges;
done:
    bench_case_clear(&c);
    return status;
}

/* The time of an edge of the variant, on no more tokens than are quickly measured, and of dense attention. */
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

/* The tokens, of all ranks, from which on sending takes at most a ninth of computing: what one rank's share takes grows
   with it, what it sends grows as from a quarter of it. 0: not within 2^60. */
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

/* A row of the table; `total`: seconds of one rank that does it all. */
static json_t *row_of(const estimate *e, const char *way, hga_id ranks, const rank_work *w, double compute,
                      double total)
{
    double send = sending(e, w), apart = compute + send, together = fmax(compute, send);
    return json_pack("{s:s, s:i, s:f, s:f, s:f, s:f, s:o, s:f, s:o, s:o}", "way", way, "ranks", ranks, "rows", w->rows,
                     "messages", w->messages, "bytes", w->bytes, "edges", w->edges, "compute_seconds",
                     json_number(compute), "exchange_seconds", send, "efficiency", json_number(total / (ranks * apart)),
                     "efficiency_overlapped", json_number(total / (ranks * together)));
}

/* A row of the variant on so many ranks, and on how many tokens for each rank the exchange is a tenth. */
static int add_counted(const estimate *e, json_t *rows, hga_id ranks, const rank_count *one)
{
    rank_count c = {0};
    int status = CLI_GOOD;
    TRY(count_ranks(e, ranks, one, &c));
    double compute = computing(e, c.now.edges, e->edge_seconds), weak = weak_tokens(e, &c);
    json_t *row = row_of(e, "halo", ranks, &c.now, compute, computing(e, one->now.edges, e->edge_seconds));
    if (row) {
        json_object_set_new(row, "weak_tokens", weak > 0 ? json_number(weak) : json_null());
        json_object_set_new(row, "exact", json_boolean(c.exact));
    }
    TRY(row_append(rows, row));
done:
    return status;
}

static double row_bytes(const hga_shape *s) { return 4.0 * s->dim * (s->n_kv_heads ? s->n_kv_heads : s->n_heads); }

/* What dense attention would cost in the same place: keys and values of all others come by, each rank in turn; or
   everybody's queries, keys, values and outputs change hands, so that a rank has some heads of all tokens. And what
   routing costs that may send any token anywhere. */
static int add_others(const estimate *e, json_t *rows, hga_id ranks)
{
    int status = CLI_GOOD;
    double n = e->tokens, share = n / ranks, away = (ranks - 1.0) / ranks, row = row_bytes(e->shape);
    double total = computing(e, n * n, e->dense_edge_seconds);
    rank_work ring = {n * share, 2 * n * away, ranks - 1.0, 2 * n * away * row};
    rank_work heads = {n * share, 4 * share * away, 4 * (ranks - 1.0), 4 * share * away * row};
    hga_id kv_heads = e->shape->n_kv_heads ? e->shape->n_kv_heads : e->shape->n_heads;
    TRY(row_append(rows, row_of(e, "dense, ring", ranks, &ring, total / ranks, total)));
    if (ranks <= kv_heads) TRY(row_append(rows, row_of(e, "dense, heads", ranks, &heads, total / ranks, total)));
    heads.edges = 0;
    TRY(row_append(rows, row_of(e, "routed, all-to-all", ranks, &heads, NAN, NAN)));
done:
    return status;
}

/* For each number of ranks the variant, and beside it other ways to share the work. */
static int fill(const estimate *e, json_t *rows)
{
    int status = CLI_GOOD;
    rank_count one = {0};
    TRY(count_ranks(e, 1, NULL, &one));
    for (int i = 0; i < e->question->n; i++) {
        TRY(add_counted(e, rows, e->question->ranks[i], &one));
        if (e->question->ranks[i] > 1) TRY(add_others(e, rows, e->question->ranks[i]));
    }
done:
    return status;
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
    int status = CLI_GOOD;
    printf("%s, %.0f tokens: what the busiest rank receives or sends in one forward pass, whichever is more\n", title,
           e->tokens);
    TRY(table_print(stdout, rows, columns));
    printf("measured here: %.3g ns an edge of all heads on one thread; a rank has %d thread%s, a message takes %g us, "
           "a link has %g Gbit/s\n",
           1e9 * e->edge_seconds, q->threads, q->threads > 1 ? "s" : "", q->latency_us, q->gbits);
    puts("overlapped: the exchange while the rows that need nothing of it are computed; tokens for 90 %: from so many "
         "tokens on, on as many ranks, the exchange takes at most a tenth of the time");
    if (e->tokens > MOST_EXACT)
        printf("of more than %d tokens, rows and bytes grow on as they did up to %d: they are estimates\n", MOST_EXACT,
               MOST_ESTIMATED_FROM);
done:
    return status;
}

static int print_json(const estimate *e, const char *title, json_t *rows)
{
    const rank_question *q = e->question;
    return json_print(stdout,
                      json_pack("{s:s, s:f, s:f, s:f, s:i, s:f, s:f, s:O}", "variant", title, "tokens", e->tokens,
                                "edge_seconds", e->edge_seconds, "dense_edge_seconds", e->dense_edge_seconds, "threads",
                                q->threads, "latency_us", q->latency_us, "gbits", q->gbits, "rows", rows));
}

/* ---- the command ---- */

/* The tokens: of --tokens or -p tokens=, which may be more than a graph can have here; a file's are its own. */
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

static int draw(const estimate *e, const char *title, const json_t *rows)
{
    char text[320];
    snprintf(text, sizeof text, "%s, %.0f tokens: one forward pass", title, e->tokens);
    return ranks_plot_write(rows, text, e->question->picture);
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
    if (q.picture) TRY(draw(&e, title, rows));
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
