/* goals.c: the table of goals, bench/goals.json, measured. A goal is a figure of a measurement's row, perhaps over the
   same figure of another measurement; bench/README.md has the members. All goals are measured, and then all of them
   once more: what the machine does for some minutes is seen as a difference. */
#include "goals.h"

#include <stdlib.h>
#include <string.h>

#include "goals_page.h"
#include "json_file.h"
#include "progress.h"
#include "routed.h"

enum { PASSES = 2 };
static const double apart = 0.05; /* figures of two passes that differ by more are not to be relied on */

/* What a goal came to in a pass. */
typedef struct finding {
    double reached; /* NaN: `note` says why */
    double goal;
    const json_t *peer; /* the row of the best one, NULL without */
    const char *note, *benchmark;
    int64_t bytes; /* the most any of its measurements needs */
    double busy;   /* the least of its measurements' processor time over wall time; NaN: none */
    int beyond;    /* one did more than the machine was found to allow */
} finding;

/* ---- members ---- */

static hga_id id_of(const json_t *goal, const char *key, hga_id otherwise)
{
    const json_t *value = json_object_get(goal, key);
    return value ? (hga_id)json_integer_value(value) : otherwise;
}

static int is_at_least(const json_t *goal) { return json_object_get(goal, "at_least") != NULL; }
static const json_t *bound_of(const json_t *goal)
{
    return json_object_get(goal, is_at_least(goal) ? "at_least" : "at_most");
}
static int is_set(const json_t *goal, const char *key) { return json_is_true(json_object_get(goal, key)); }

/* *out, which goes, becomes the goal with some of its members replaced. */
static int goal_with(json_t *goal, json_t *others, json_t **out)
{
    json_decref(*out), *out = json_copy(goal);
    return *out && others && json_object_update(*out, others) == 0 ? CLI_GOOD : complain(CLI_OUTSIDE, "out of memory");
}

/* ---- measurements ---- */

/* What is to be measured for a goal. */
static bench_place place_of(const goals_run *r, const json_t *goal)
{
    bench_place p = r->place;
    const char *precision = text_of(goal, "precision");
    p.tokens = id_of(goal, "tokens", 0);
    if (r->most_tokens && p.tokens > r->most_tokens) p.tokens = r->most_tokens;
    p.shape = (hga_shape){.n_heads = id_of(goal, "heads", 8),
                          .n_kv_heads = id_of(goal, "kv_heads", 0),
                          .dim = id_of(goal, "dim", 64),
                          .dim_v = id_of(goal, "dim_v", 0)};
    p.options.threads = id_of(goal, "threads", p.options.threads);
    if (precision) p.options.precision = strcmp(precision, "bf16") == 0 ? HGA_PRECISION_BF16 : HGA_PRECISION_F32;
    p.relative = is_set(goal, "rel_key"), p.gradient = is_set(goal, "gradient"),
    p.by_memory = is_set(goal, "by_memory");
    p.peers = !r->pass && is_set(goal, "peers") && p.options.precision == HGA_PRECISION_F32 ? ~0u : 0;
    return p;
}

/* "bpt:k=4" is the row's variant and parameters. */
static int is_variant(const json_t *row, const char *variant)
{
    const char *name = text_of(row, "variant"), *parameters = text_of(row, "parameters");
    size_t n = strlen(name);
    return strncmp(variant, name, n) == 0 && strcmp(variant + n + (variant[n] == ':'), parameters) == 0;
}

static int same_sizes(const json_t *row, const bench_place *p)
{
    const hga_shape *s = &p->shape;
    return id_of(row, "tokens", 0) == p->tokens && id_of(row, "threads", 0) == p->options.threads &&
           id_of(row, "heads", 0) == s->n_heads && id_of(row, "dim", 0) == s->dim &&
           id_of(row, "dim_v", 0) == (s->dim_v ? s->dim_v : s->dim) &&
           id_of(row, "kv_heads", 0) == (s->n_kv_heads ? s->n_kv_heads : s->n_heads);
}

static int same_way(const json_t *row, const bench_place *p)
{
    return (strcmp(text_of(row, "precision"), "bf16") == 0) == (p->options.precision == HGA_PRECISION_BF16) &&
           is_set(row, "rel_key") == p->relative && strcmp(text_of(row, "isa"), p->options.isa) == 0 &&
           (!p->by_memory || p->dry_run || json_is_number(json_object_get(row, "peak_gbytes")));
}

/* The row of a measurement that was made before in this pass; two goals that want the same share it. */
static json_t *find(const goals_run *r, const bench_place *p, const char *variant)
{
    size_t i;
    json_t *row;
    json_array_foreach(r->pass_rows, i, row)
    {
        if (is_variant(row, variant) && same_sizes(row, p) && same_way(row, p)) return row;
    }
    return NULL;
}

/* The fastest of the peers beside a measurement. */
static const json_t *best_peer(const goals_run *r, const bench_place *p, const char *variant)
{
    const json_t *best = NULL;
    size_t i;
    json_t *row;
    json_array_foreach(r->pass_rows, i, row)
    {
        int beside =
            strncmp(text_of(row, "variant"), "peer:", 5) == 0 && strcmp(text_of(row, "parameters"), variant) == 0;
        if (!beside || !same_sizes(row, p)) continue;
        if (!best || number_of(row, "seconds") < number_of(best, "seconds")) best = row;
    }
    return best;
}

/* Forward and the way back in turns; of the two rows only the second is shown, as others may have the first. */
static int measure_backward(goals_run *r, const bench_place *p, finding *f, json_t **row)
{
    json_t *both = json_array();
    int status = bench_run(p, both, &r->failed);
    if (status == CLI_GOOD) {
        f->busy = fmin(f->busy, number_of(json_array_get(both, 0), "cpu_over_wall"));
        *row = json_array_get(both, 1);
        json_array_append(r->pass_rows, *row);
    }
    json_decref(both);
    return status;
}

/* Treeformer routed anew, by trees of so many levels; its row is shown nowhere. */
static int measure_trees(goals_run *r, const bench_place *p, hga_id height, json_t **row)
{
    bench_measurement m = {.time.seconds = NAN, .time.busy = NAN};
    routed_times t = {.part = {[ROUTED_EXECUTE] = NAN}};
    hga_status st =
        p->dry_run ? HGA_OK
                   : measure_routed(p->tokens, p->shape.n_heads, p->shape.dim, height, &p->options, &p->rules, &m, &t);
    if (st) return complain_of(st, CLI_OUTSIDE, "treeformer");
    *row = json_pack("{s:o, s:o, s:f, s:f, s:o, s:I}", "seconds", json_number(m.time.seconds), "cpu_over_wall",
                     json_number(m.time.busy), "build_seconds", t.part[ROUTED_BUILD], "update_seconds",
                     t.part[ROUTED_UPDATE], "execute_seconds", json_number(t.part[ROUTED_EXECUTE]), "bytes",
                     (json_int_t)p->tokens * p->shape.n_heads * p->shape.dim * 16);
    return json_array_append_new(r->hidden, *row) == 0 ? CLI_GOOD : complain(CLI_OUTSIDE, "out of memory");
}

/* The row that the goal's figure is of, and the best peer's where the goal has peers. */
static int measure(goals_run *r, const json_t *goal, finding *f, json_t **row)
{
    bench_place p = place_of(r, goal);
    bench_variant variant;
    const char *words = text_of(goal, "variant");
    int n, status = CLI_GOOD;
    if (words) TRY(bench_variants_read(words, &variant, &n));
    p.variant = &variant;
    if (!words)
        TRY(measure_trees(r, &p, id_of(goal, "routed", 0), row));
    else if (p.gradient)
        TRY(measure_backward(r, &p, f, row));
    else if (!(*row = find(r, &p, words))) {
        TRY(bench_run(&p, r->pass_rows, &r->failed));
        *row = find(r, &p, words);
    }
    f->bytes = (int64_t)fmax((double)f->bytes, number_of(*row, "bytes"));
    f->busy = fmin(f->busy, number_of(*row, "cpu_over_wall")); /* of NaN and a number: the number */
    f->beyond |= is_set(*row, "limit_disturbed");
    f->benchmark = text_of(*row, "name");
    f->peer = is_set(goal, "peers") ? best_peer(r, &p, words) : NULL;
done:
    return status;
}

/* ---- figures ---- */

/* A key's number, or the sum of several keys' (of none said: seconds), divided by another's and times the goal's
   factor. */
static double figure_of(const json_t *goal, const json_t *row)
{
    const json_t *key = json_object_get(goal, "key"), *one;
    const char *by = text_of(goal, "by");
    double sum = json_is_array(key) ? 0 : number_of(row, key ? json_string_value(key) : "seconds");
    size_t i;
    if (json_is_array(key)) json_array_foreach(key, i, one) sum += number_of(row, json_string_value(one));
    if (!by) return sum;
    if (strcmp(by, "tokens log tokens") != 0) return sum / number_of(row, by);
    return sum / (number_of(row, "tokens") * log2(number_of(row, "tokens")));
}

/* The greatest over the least of the figures at some lengths. */
static int spread(goals_run *r, json_t *goal, finding *f, double *value)
{
    double least = INFINITY, most = 0;
    json_t *length, *row, *at = NULL;
    size_t i;
    int status = CLI_GOOD;
    json_array_foreach(json_object_get(goal, "lengths"), i, length)
    {
        TRY(goal_with(goal, goal, &at));
        json_object_set(at, "tokens", length);
        TRY(measure(r, at, f, &row));
        double x = figure_of(goal, row);
        least = fmin(least, x), most = fmax(most, x);
    }
    *value = most / least;
done:
    json_decref(at);
    return status;
}

/* A goal that hangs on what is measured: a sum of its figures, each times so much. */
static double goal_of(const json_t *parts, const json_t *row)
{
    double sum = 0;
    const char *key;
    json_t *factor;
    json_object_foreach((json_t *)parts, key, factor) sum += json_number_value(factor) * number_of(row, key);
    return sum;
}

/* One figure, or one over another, or a spread. */
static int evaluate(goals_run *r, json_t *goal, finding *f, double *value)
{
    json_t *row, *below_row, *over = json_object_get(goal, "over"), *below = NULL;
    double factor = json_object_get(goal, "times") ? number_of(goal, "times") : 1;
    int status = CLI_GOOD;
    if (json_object_get(goal, "lengths")) return spread(r, goal, f, value);
    if (over) {
        TRY(goal_with(goal, over, &below));
        TRY(measure(r, below, f, &below_row));
        factor /= figure_of(below, below_row);
    }
    TRY(measure(r, goal, f, &row));
    *value = factor * figure_of(goal, row);
    if (json_is_object(bound_of(goal))) f->goal = goal_of(bound_of(goal), row);
done:
    json_decref(below);
    return status;
}

/* The worst of several, whose name is noted. */
static int evaluate_each(goals_run *r, json_t *goal, finding *f)
{
    int at_least = is_at_least(goal), status = CLI_GOOD;
    json_t *others, *one = NULL;
    size_t i;
    f->reached = at_least ? INFINITY : 0;
    json_array_foreach(json_object_get(goal, "each"), i, others)
    {
        double x;
        TRY(goal_with(goal, others, &one));
        TRY(evaluate(r, one, f, &x));
        if (!(at_least ? x < f->reached : x > f->reached)) continue;
        f->reached = x, f->note = text_of(others, text_of(others, "note") ? "note" : "variant");
    }
    f->benchmark = NULL; /* of several */
done:
    json_decref(one);
    return status;
}

static int reach(goals_run *r, json_t *goal, finding *f)
{
    int status = CLI_GOOD;
    if (is_set(goal, "needs_pairs") && !r->place.dry_run && !(r->place.peaks.bf16_gflops > 0)) {
        f->note = "no products of bf16 pairs here";
        return CLI_GOOD;
    }
    TRY(json_object_get(goal, "each") ? evaluate_each(r, goal, f) : evaluate(r, goal, f, &f->reached));
done:
    return status;
}

/* ---- rows ---- */

static json_t *peer_part(const json_t *goal, const finding *f)
{
    double factor = json_object_get(goal, "times") ? number_of(goal, "times") : 1,
           value = f->peer ? factor * figure_of(goal, f->peer) : NAN; /* of another precision's peak it has no share */
    return json_pack("{s:s?, s:o}", "peer", isfinite(value) ? text_of(f->peer, "variant") + strlen("peer:") : NULL,
                     "peer_value", json_number(value));
}

static int is_better(const json_t *goal, double a, double b) { return is_at_least(goal) ? a > b : a < b; }

/* Both passes as one: the better figure that there is, what disturbed either, and the peer's of the first. */
static finding best_of(const json_t *goal, const finding f[PASSES])
{
    finding best = f[isnan(f[0].reached) || is_better(goal, f[1].reached, f[0].reached)];
    best.peer = f[0].peer, best.busy = fmin(f[0].busy, f[1].busy), best.beyond = f[0].beyond || f[1].beyond;
    return best;
}

static int are_apart(const finding f[PASSES])
{
    double a = f[0].reached, b = f[1].reached;
    return fabs(a - b) > apart * fmax(fabs(a), fabs(b));
}

static int is_met(const json_t *goal, const finding *f) { return !is_better(goal, f->goal, f->reached); }

/* Why a figure is not judged, NULL: it is. */
static const char *refusal_of(const json_t *goal, const finding f[PASSES])
{
    if (is_set(goal, "scaling") && fmin(f[0].busy, f[1].busy) < BENCH_TRUSTED_SCALING)
        return "no verdict below 0.95 of the processor";
    return are_apart(f) && is_met(goal, &f[0]) != is_met(goal, &f[1]) ? "no verdict: met in one of two passes" : NULL;
}

static json_t *trust_part(const finding f[PASSES], const finding *best, int done)
{
    int disturbed = best->beyond || (done && best->busy < BENCH_TRUSTED), differs = done && are_apart(f);
    return json_pack("{s:o, s:b, s:b, s:s, s:[o, o]}", "cpu_over_wall", json_number(done ? best->busy : NAN),
                     "disturbed", disturbed, "differs", differs, "mark", disturbed || differs ? "!" : "",
                     "reached_in_passes", json_number(done ? f[0].reached : NAN),
                     json_number(done ? f[1].reached : NAN));
}

static json_t *goal_row(const goals_run *r, const json_t *goal, const finding f[PASSES])
{
    /* goals are for their own lengths; a ratio of disturbed times says nothing */
    finding best = best_of(goal, f);
    int done = isfinite(best.reached) && !r->place.dry_run;
    const char *refusal = done ? refusal_of(goal, f) : NULL;
    json_t *met = done && !r->most_tokens && !refusal ? json_boolean(is_met(goal, &best)) : json_null();
    json_t *row =
        json_pack("{s:O, s:f, s:b, s:O, s:o, s:o, s:s?, s:s?, s:I}", "case", json_object_get(goal, "case"), "goal",
                  best.goal, "at_least", is_at_least(goal), "unit", json_object_get(goal, "unit"), "reached",
                  json_number(done ? best.reached : NAN), "met", met, "note", refusal ? refusal : best.note,
                  "benchmark", best.benchmark, "bytes", (json_int_t)best.bytes);
    return json_joined(json_joined(row, peer_part(goal, &best)), trust_part(f, &best, done));
}

/* ---- passes ---- */

static int is_asked(const goals_run *r, const json_t *goal)
{
    return !r->only || strstr(text_of(goal, "case"), r->only);
}

/* f[i] is what goal i came to. */
static int run_pass(goals_run *r, json_t *table, progress *bar, finding *f)
{
    json_t *goal;
    size_t i, n = json_array_size(table);
    int status = CLI_GOOD;
    r->pass_rows = json_array();
    json_array_foreach(table, i, goal)
    {
        progress_show(((double)r->pass + (double)i / (double)n) / PASSES, bar);
        f[i] = (finding){.goal = json_number_value(bound_of(goal)), .note = text_of(goal, "note")};
        f[i].reached = f[i].busy = NAN;
        if (is_asked(r, goal)) TRY(reach(r, goal, &f[i]));
    }
    if (json_array_extend(r->rows, r->pass_rows) != 0) TRY(complain(CLI_OUTSIDE, "out of memory"));
done:
    json_decref(r->pass_rows), r->pass_rows = NULL; /* r->rows has them */
    return status;
}

static int tell_goals(goals_run *r, const json_t *table, const finding *f)
{
    size_t i, n = json_array_size(table);
    json_t *goal;
    json_array_foreach(table, i, goal)
    {
        finding both[PASSES] = {f[i], f[r->place.dry_run ? i : n + i]};
        if (is_asked(r, goal) && json_array_append_new(r->goals, goal_row(r, goal, both)) != 0)
            return complain(CLI_OUTSIDE, "out of memory");
    }
    return json_array_size(r->goals) ? CLI_GOOD : complain(CLI_USAGE, "--case: no case has '%s' in its name", r->only);
}

int goals_measure(goals_run *r)
{
    json_t *table = NULL;
    finding *f = NULL;
    int status = CLI_GOOD;
    progress bar = progress_start("goals");
    r->hidden = json_array();
    TRY(json_file_parse("goals.json", goals_page, strlen(goals_page), 0, &table));
    size_t n = json_array_size(table);
    f = malloc(PASSES * n * sizeof *f);
    if (!f) TRY(complain(CLI_OUTSIDE, "out of memory"));
    for (r->pass = 0; r->pass < (r->place.dry_run ? 1 : PASSES); r->pass++)
        TRY(run_pass(r, table, &bar, f + (size_t)r->pass * n));
    TRY(tell_goals(r, table, f));
done:
    progress_end(&bar);
    free(f);
    json_decref(table), json_decref(r->hidden);
    return status;
}
