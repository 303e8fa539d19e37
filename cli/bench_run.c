/* bench_run.c: a case and the peers beside it, measured. */
#include "bench_run.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "arguments.h"
#include "backward.h"
#include "bursts.h"
#include "measured.h"
#include "memory.h"
#include "ordered.h"
#include "race.h"
#include "variant.h"

/* ---- names ---- */

/* the end of the item that starts here: a comma before something that is no number */
static size_t item_length(const char *list)
{
    size_t n = strcspn(list, ",");
    while (list[n] == ',' && isdigit((unsigned char)list[n + 1])) n += 1 + strcspn(list + n + 1, ",");
    return n;
}

/* the text of rows and results: the variant's own name, colons between the settings */
static void write_text(bench_variant *v)
{
    size_t used = (size_t)snprintf(v->text, sizeof v->text, "%s", v->typed.name);
    for (int i = 0; i < v->typed.n && used < sizeof v->text; i++)
        used += (size_t)snprintf(v->text + used, sizeof v->text - used, ":%s", v->typed.setting[i]);
    const char *colon = strchr(v->text, ':');
    v->parameters = colon ? colon + 1 : "";
}

/* The same with blanks, for the measuring library. */
static void words_of(const bench_variant *v, char words[static sizeof v->text])
{
    strcpy(words, v->text);
    for (char *c = words; *c; c++)
        if (*c == ':') *c = ' ';
}

/* name:parameter=value:.. */
static int read_variant(const char *item, size_t length, bench_variant *v)
{
    char words[sizeof v->text];
    *v = (bench_variant){0};
    if (length == 0 || length >= sizeof v->parts)
        return complain(CLI_USAGE, "--variants: '%.*s' is not a variant", (int)length, item);
    memcpy(v->parts, item, length);
    int status = variant_cut(v->parts, MAX_PARAMETERS - 1, &v->typed);
    if (status) return status;
    const hga_variant *row = hga_variant_named(v->typed.name);
    if (row) v->typed.name = row->name;
    write_text(v);
    v->typed.takes_order = 1;
    v->file = strncmp(v->typed.name, "graph=", 6) == 0;
    words_of(v, words);
    status = complain_of(bench_case_by_chance(words, &v->by_chance), CLI_USAGE, "--variants");
    if (status || v->by_chance) return status;
    settings s;
    status = variant_settings(&v->typed, &s, &row); /* a wrong name or value is known before anything runs */
    if (status == CLI_GOOD) settings_clear(&s);
    return status;
}

int bench_variant_add(const char *item, size_t length, bench_variant *out, int *n)
{
    if (*n == MAX_LIST) return complain(CLI_USAGE, "--variants: more than %d", MAX_LIST);
    return read_variant(item, length, &out[(*n)++]);
}

int bench_variants_read(const char *list, bench_variant *out, int *n)
{
    *n = 0;
    while (1) {
        size_t length = item_length(list);
        MUST(bench_variant_add(list, length, out, n));
        if (!list[length]) return CLI_GOOD;
        list += length + 1;
    }
}

/* ---- graphs ---- */

/* makes a case of the measuring library of the graph */
static int build_typed(const bench_variant *v, hga_id tokens, bench_case *out)
{
    char text[16];
    model m = {0};
    typed_variant typed = v->typed;
    snprintf(text, sizeof text, "%d", tokens);
    if (!v->file) typed.tokens = text;
    int status = model_build(&typed, NULL, &m);
    if (status == CLI_GOOD) status = ordered_say(&m);
    if (status) {
        model_clear(&m);
        return status;
    }
    out->graph = hga_graph_retain(ordered_graph(&m));
    out->program = m.program;
    out->type_scale = m.alpha, m.alpha = NULL;
    out->n_type_scale = m.n_alpha;
    model_clear(&m);
    return CLI_GOOD;
}

/* Routes each head by itself, with the numbers that it attends with. */
static int build_routed(const bench_variant *v, hga_id tokens, const hga_shape *shape, bench_case *out)
{
    settings s = {0};
    const hga_variant *row;
    hga_routed p;
    int status = CLI_GOOD;
    TRY(variant_settings(&v->typed, &s, &row));
    if (setting_is_set(&s, "choice")) TRY(complain(CLI_USAGE, "%s: made-up tensors make their own choice", v->text));
    TRY(settings_fill(&s, row, &p));
    p.n_tokens = tokens;
    TRY(complain_of(bench_make_routed(&p, shape, out), CLI_USAGE, v->text));
done:
    settings_clear(&s);
    return status;
}

/* Builds a random case, one of blocks that content chooses, or one of a variant as it was typed. */
int bench_build(const bench_setup *p, hga_id tokens, bench_case *out)
{
    const bench_variant *v = p->variant;
    char words[sizeof v->text];
    *out = (bench_case){0};
    words_of(v, words);
    if (v->by_chance)
        MUST(complain_of(bench_case_make(words, tokens, out), CLI_USAGE, v->text));
    else
        MUST(routed_is(&v->typed) ? build_routed(v, tokens, &p->shape, out) : build_typed(v, tokens, out));
    return bench_put(p, out);
}

bench_row bench_row_of(const bench_setup *p)
{
    return (bench_row){.variant = p->variant->typed.name,
                       .parameters = p->variant->parameters,
                       .isa = p->options.isa,
                       .precision = p->options.precision == HGA_PRECISION_BF16 ? "bf16" : "f32",
                       .tokens = p->tokens,
                       .shape = p->shape,
                       .relative = p->relative,
                       .peaks = p->peaks};
}

static int append(json_t *rows, const bench_setup *p, const bench_row *r)
{
    return row_append(rows, p->dry_run ? bench_dry_row_json(r) : bench_row_json(r));
}

/* Would moving the bytes that must move take longer than arithmetic, by the peaks of one thread? */
static int is_limited_by_memory(const bench_setup *p, const hga_cost *cost)
{
    return cost->bytes_min * p->peaks.fma_gflops > cost->flops * p->peaks.dram_gbytes;
}

/* A node's keys, in floats. */
static hga_id key_row(const bench_setup *p)
{
    const hga_shape *s = &p->shape;
    hga_id columns = (s->n_kv_heads ? s->n_kv_heads : s->n_heads) * s->dim;
    return p->options.precision == HGA_PRECISION_BF16 ? (columns + 1) / 2 : columns;
}

/* Opens the limits that are measured in turns with the repeats. */
static hga_status open_limits(bench_setup *p, const hga_cost *cost, bench_asking *a)
{
    *a = (bench_asking){.isa = p->options.isa,
                        .pairs = p->options.precision == HGA_PRECISION_BF16,
                        .memory = p->by_memory || is_limited_by_memory(p, cost),
                        .row = key_row(p)};
    return p->dry_run ? HGA_OK : bench_limits_open(a, &p->rules.limits);
}

int bench_put(const bench_setup *p, bench_case *c)
{
    model m = model_of(c->graph, &c->program, p->variant->text);
    MUST(call_put(p->call, &m));
    c->program = m.program;
    return CLI_GOOD;
}

int bench_bind(const bench_setup *p, bench_case *c, call_files *files)
{
    model m = model_of(c->graph, &c->program, p->variant->text);
    hga_shape shape = p->shape;
    if (p->files) *files = call_files_attach(p->files);
    return p->dry_run ? CLI_GOOD : call_files_bind(p->call, &m, &shape, files, &c->io);
}

/* Plans, executes and times our own attention or, if requested, it and its backward pass in turns. */
static int run_ours(const bench_setup *typed, bench_case *c, bench_row *r, bench_row *back)
{
    bench_setup mine = *typed, *p = &mine;
    mine.shape = bench_case_shape(c, &typed->shape);
    hga_plan *plan = NULL;
    call_files files = {0};
    hga_status st;
    int status = CLI_GOOD;
    bench_asking asking = {0};
    bench_job j = {c->graph, &c->program, p->shape, p->options};
    HGA_TRY(bench_plan(&j, &plan, &r->m));
    HGA_TRY(open_limits(p, &r->m.cost, &asking));
    HGA_TRY(bench_case_tensors(c, &p->shape, !p->dry_run));
    r->tensor_bytes = c->tensor_bytes;
    if (c->choosers > 1) r->m.cost.edges /= c->choosers; /* of one head, as where all have the same */
    if (p->relative) HGA_TRY(bench_case_relative(c, p->shape.dim));
    status = bench_bind(p, c, &files);
    if (status) goto done;
    *back = *r;
    if (!p->dry_run)
        HGA_TRY(p->gradient ? bench_backward(c, &j, &p->rules, &r->m, &back->m)
                            : bench_execute(plan, &c->io, &p->rules, &r->m));
    if (p->gradient) back->tensor_bytes += bench_backward_bytes(c, &p->shape);
    r->peak_rss_bytes = back->peak_rss_bytes = bench_peak_resident() - asking.bytes;
done:
    bench_limits_close(&asking);
    hga_plan_destroy(plan);
    call_files_clear(&files);
    return status ? status : complain_of(st, CLI_USAGE, p->variant->text);
}

/* ---- before anything runs ---- */

enum { SMALL_TOKENS = 1024 };

/* The seconds of graph, plan and executions. */
static double case_seconds(const bench_rules *rules, const bench_row *r)
{
    return r->graph_seconds + r->m.plan_seconds + measured_expected(rules, r->estimated_seconds);
}

/* Runs the case over at most SMALL_TOKENS tokens; time grows with the operations. Arrays of files fit one length. */
static int estimate(const bench_setup *p, bench_row *r, bench_row *back)
{
    bench_setup small = *p;
    bench_case c = {0};
    bench_row few = {0}, few_back = {0};
    int status = CLI_GOOD;
    small.dry_run = 0, small.rules = (bench_rules){.repetitions = 3};
    if (small.tokens > SMALL_TOKENS && !strchr(p->variant->text, '@')) small.tokens = SMALL_TOKENS;
    TRY(bench_build(&small, small.tokens, &c));
    TRY(run_ours(&small, &c, &few, &few_back));
    double more = few.m.cost.flops > 0 ? r->m.cost.flops / few.m.cost.flops : 0;
    r->estimated_seconds = few.m.time.least * more, back->estimated_seconds = few_back.m.time.least * more;
    r->estimated_case_seconds = case_seconds(&p->rules, r);
    back->estimated_case_seconds = p->gradient ? case_seconds(&p->rules, back) : 0;
done:
    bench_case_clear(&c);
    return status;
}

/* ---- peers ---- */

/* a peer's row is ours with its own name, work and times; *failed counts the results that differ from ours */
static int run_peer(const bench_setup *p, const race *shared, const peer *other, const bench_row *ours, json_t *rows,
                    int *failed)
{
    char name[64];
    double distance;
    bench_row r = *ours;
    bench_rules rules = p->rules;
    bench_asking asking = {.isa = p->options.isa, .alone = 1}; /* it may have threads of its own */
    snprintf(name, sizeof name, "peer:%s", other->name);
    r.variant = name;
    r.parameters = p->variant->text;
    r.precision = "f32";
    r.graph_seconds = 0;
    r.tensor_bytes = (int64_t)shared->job.rows * shared->job.heads * shared->job.dim * 16;
    int status = complain_of(bench_limits_open(&asking, &rules.limits), CLI_OUTSIDE, name);
    if (!status) status = complain_of(race_run(shared, other, &rules, &r.m, &distance), CLI_OUTSIDE, name);
    bench_limits_close(&asking);
    if (status) return status;
    r.peak_rss_bytes = bench_peak_resident();
    if (distance <= RACE_TOLERANCE) return append(rows, p, &r);
    ++*failed;
    complain(CLI_FAILED, "peer %s: its result is %g away from ours", other->name, distance);
    return CLI_GOOD;
}

/* Times the peers that can run the case: no modifiers, as many key heads as query heads. */
static int run_peers(const bench_setup *p, const bench_case *c, const bench_row *ours, json_t *rows, int *failed)
{
    race shared = {0};
    hga_options options = p->options;
    hga_id kv_heads = p->shape.n_kv_heads;
    int status = CLI_GOOD;
    if (p->dry_run || !p->peers || p->relative || call_typed(p->call) || (kv_heads && kv_heads != p->shape.n_heads) ||
        !race_possible(c->graph, &c->program))
        return CLI_GOOD;
    options.threads = ours->m.threads;
    TRY(complain_of(race_start(c->graph, &c->program, &p->shape, &options, &shared), CLI_OUTSIDE, "peers"));
    for (int i = 0; peers[i]; i++)
        if (p->peers >> i & 1 && peers[i]->can(&shared.job)) TRY(run_peer(p, &shared, peers[i], ours, rows, failed));
done:
    race_clear(&shared);
    return status;
}

/* Appends the row of the backward pass: ours under another name, with its time over forward's. */
static int append_gradient(const bench_setup *p, const bench_row *forward, bench_row *r, json_t *rows)
{
    char name[64];
    snprintf(name, sizeof name, "gradient:%s", p->variant->typed.name);
    r->variant = name;
    r->graph_seconds = 0;
    r->over_forward = p->dry_run ? 0 : r->m.time.seconds / forward->m.time.seconds;
    return append(rows, p, r);
}

int bench_run(const bench_setup *p, json_t *rows, int *failed)
{
    bench_case c = {0};
    bench_row r = bench_row_of(p), back = {0};
    int status = CLI_GOOD;
    bench_reset_peak_resident();
    double start = bench_seconds();
    TRY(bench_build(p, p->tokens, &c));
    r.graph_seconds = bench_seconds() - start;
    r.nodes = hga_graph_nodes(c.graph).n;
    if (p->variant->file) r.tokens = hga_graph_nodes(c.graph).n_queries;
    TRY(run_ours(p, &c, &r, &back));
    if (p->dry_run) TRY(estimate(p, &r, &back));
    TRY(append(rows, p, &r));
    if (p->gradient) TRY(append_gradient(p, &r, &back, rows));
    TRY(run_peers(p, &c, &r, rows, failed));
done:
    bench_case_clear(&c);
    return status;
}
