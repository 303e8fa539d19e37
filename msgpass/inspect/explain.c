/* explain.c: a plan in words, like SQL's EXPLAIN, and as JSON. */
#define _POSIX_C_SOURCE 200809L
#include "counted.h"
#include "explain_back.h"
#include "explain_parts.h"
#include "explain_solvers.h"
#include "plan.h"
#include "stage_kernel.h"
#include "thread_binding.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *stage_relation_name(const hga_plan *plan, hga_id stage)
{
    hga_id r = plan->program.stage[stage].relation;
    return r == HGA_TREE_UP ? "tree up" : r == HGA_TREE_DOWN ? "tree down" : plan->stage[stage].relation.name;
}

static const char *order_name(hga_order order)
{
    static const char *const names[HGA_LEVELS_DOWN + 1] = {"flat", "levels up", "levels down"};
    return names[order];
}

static int64_t stage_phases(const hga_plan *plan, hga_id stage)
{
    int64_t n = 0;
    for (int64_t i = 0; i < plan->phases.n; i++) {
        const phase *ph = &plan->phases.list[i];
        n += runs_stage(ph, stage) || (ph->stage == stage && (ph->job == JOB_SPLITS || ph->job == JOB_MERGE));
    }
    return n;
}

/* One stage: kind, relation, kernel, rows and how its pairs are computed. */
static json_t *stage_json(const hga_plan *plan, hga_id s, const pair_solvers *solvers)
{
    const stage_plan *sp = &plan->stage[s];
    const stage_kernel *kernel = plan_kernel(plan, s);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:f, s:I, s:I, s:I, s:I, s:i, s:i, s:i, s:o}", "name",
                     plan->program.stage[s].name, "kind", program_stage_kind(&plan->program.stage[s]), "relation",
                     stage_relation_name(plan, s), "order", order_name(plan->program.stage[s].order), "kernel",
                     kernel->name, "isa", stage_is_fused(plan, s) ? plan->machine.kernels->isa : "none", "edges",
                     sp->edges, "blocks", (json_int_t)sp->relation.n_blocks, "explicit_edges",
                     (json_int_t)sp->relation.n_explicit, "panels", (json_int_t)sp->panels, "phases",
                     (json_int_t)stage_phases(plan, s), "wide_rows", (int)sp->n_long, "pieces", (int)sp->n_splits,
                     "cut_level", (int)sp->cut_level, "pairs", solvers_json(plan, s, solvers));
}

static json_t *threads_json(const hga_plan *plan)
{
    json_t *threads = json_array();
    for (hga_id t = 0; threads && t < plan->team.n; t++)
        json_array_append_new(
            threads, json_pack("{s:i, s:i}", "domain", (int)plan->team.domain[t], "pu", (int)plan->team.pu[t]));
    return threads;
}

/* Pools of recycled rows. */
static json_t *pools_json(const hga_plan *plan)
{
    json_t *pools = json_array();
    for (hga_id i = 0; pools && i < plan->fields.n_pools; i++)
        json_array_append_new(pools, json_pack("{s:I, s:I, s:I}", "floats", (json_int_t)plan->fields.pool[i].floats,
                                               "rows", (json_int_t)plan->fields.pool[i].rows, "nodes",
                                               (json_int_t)plan->fields.pool[i].nodes));
    return pools;
}

static json_t *waves_json(const hga_plan *plan)
{
    const wave_order *o = &plan->waves;
    return json_pack("{s:I, s:i, s:f, s:b}", "panels", (json_int_t)o->n_items, "waves", (int)o->n, "longest_shares",
                     waves_longest_shares(plan), "one_thread", plan->team.n == 1 || o->alone);
}

static const char *binding_name(const hga_plan *plan)
{
    static const char *const names[BIND_BY_OPENMP + 1] = {"not bound", "bound for the call", "bound by OpenMP"};
    return names[plan->team.binding];
}

/* The whole plan, without its backward pass. */
static json_t *plan_json(const hga_plan *plan, const pair_solvers *solvers)
{
    json_t *stages = json_array();
    for (hga_id s = 0; stages && s < plan->program.n_stages; s++)
        json_array_append_new(stages, stage_json(plan, s, &solvers[s]));
    hga_cost cost = hga_plan_cost(plan);
    return json_pack(
        "{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:i, s:i, s:i, s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:f, "
        "s:f, s:o, s:o, s:o, s:o, s:o}",
        "schema", 1, "nodes", (int)plan->nodes.n, "levels", (int)plan->nodes.n_levels, "heads",
        (int)plan->shape.n_heads, "kv_heads", (int)plan->shape.n_kv_heads, "dim", (int)plan->shape.dim, "dim_v",
        (int)plan->shape.dim_v, "isa", plan->machine.kernels->isa, "precision",
        plan->options.precision == HGA_PRECISION_BF16 ? "bf16" : "f32", "key_bits", plan->fields.bf16_rows ? 16 : 32,
        "threads", (int)plan->team.n, "domains", (int)topology_domains(plan->machine.topology), "partition",
        plan->team.cyclic ? "cyclic" : "contiguous", "cut_edges", (json_int_t)plan->options.cut_edges, "binding",
        binding_name(plan), "binding_failures", (json_int_t)binding_failed(plan, NULL), "graph_bytes",
        (json_int_t)hga_graph_bytes(plan->graph), "plan_bytes", (json_int_t)hga_plan_bytes(plan), "workspace_bytes",
        (json_int_t)hga_plan_workspace_bytes(plan), "flops", cost.flops, "bytes_min", cost.bytes_min, "stages", stages,
        "schedule", waves_json(plan), "placement", threads_json(plan), "shared_rows", pools_json(plan), "tuning",
        tuned_json(&plan->machine.tuning));
}

/* Returns text that hga_text_free releases. */
static hga_status hand_over(char *text, char **out)
{
    *out = text;
    return text ? HGA_OK : hga_fail(HGA_ENOMEM, "cannot allocate the plan's text");
}

static hga_status explain_json(const hga_plan *plan, const hga_io *io, char **text)
{
    pair_solvers solvers[HGA_MAX_STAGES];
    hga_status st = solvers_find(plan, io, solvers);
    if (st) return st;
    json_t *j = plan_json(plan, solvers), *back = NULL;
    if (j) json_object_set_new(j, "parts", parts_json(plan));
    if (plan->options.gradient) st = back_find(plan, io, &back);
    if (back) json_object_set_new(j, "gradient", back); /* the object takes the reference, even if it fails */
    if (st) json_decref(j);
    if (st) return st;
    char *dump = j ? json_dumps(j, JSON_INDENT(1) | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(j);
    return hand_over(dump, text);
}

/* One stage in words: two lines, and the solvers of its pairs. */
static void say_stage(FILE *f, const hga_plan *plan, hga_id s, const pair_solvers *solvers)
{
    const stage_plan *sp = &plan->stage[s];
    const stage_kernel *kernel = plan_kernel(plan, s);
    fprintf(f, "  %d %-14s %-13s over %-12s %-11s %14.0f edge%s", s + 1, plan->program.stage[s].name,
            program_stage_kind(&plan->program.stage[s]), stage_relation_name(plan, s),
            order_name(plan->program.stage[s].order), sp->edges, sp->edges == 1 ? "" : "s");
    if (sp->relation.n_blocks) fprintf(f, ", %s", counted(sp->relation.n_blocks, "block").text);
    if (sp->relation.n_explicit) fprintf(f, ", %lld explicit", (long long)sp->relation.n_explicit);
    fprintf(f, "\n      kernel: %s", kernel->name);
    if (stage_is_fused(plan, s)) fprintf(f, " (%s)", plan->machine.kernels->isa);
    fprintf(f, ", %s in %s", counted(sp->panels, "panel").text, counted(stage_phases(plan, s), "phase").text);
    if (sp->cut) fprintf(f, ", first below level %d, each subtree by itself", sp->cut_level);
    if (sp->n_long) fprintf(f, ", %s in %s", counted(sp->n_long, "long row").text, counted(sp->n_splits, "split").text);
    fputc('\n', f);
    solvers_say(f, plan, s, solvers);
}

static const char *precision_name(const hga_plan *plan)
{
    if (plan->options.precision == HGA_PRECISION_F32) return "f32";
    if (plan->fields.bf16_rows && !plan->machine.kernels->attend_tile_bf16)
        return "operands rounded to bf16, keys and values read in 16 bits, which tiles widen each time, for no "
               "instruction multiplies them: float32 is faster";
    return plan->fields.bf16_rows
               ? "operands rounded to bf16, keys and values read in 16 bits"
               : "operands rounded to bf16 and kept in 32 bits, for not all that reads them takes 16";
}

/* The plan in words: graph, shape, threads, memory, stages, schedule. */
static void say_plan(FILE *f, const hga_plan *plan, const pair_solvers *solvers)
{
    const hga_shape *s = &plan->shape;
    hga_cost cost = hga_plan_cost(plan);
    fprintf(f, "graph: %s on %s, %.1f kB\n", counted(plan->nodes.n, "node").text,
            counted(plan->nodes.n_levels, "level").text, (double)hga_graph_bytes(plan->graph) / 1e3);
    fprintf(f, "shape: %s (%d key/value), dim %d, dim_v %d, %s\n", counted(s->n_heads, "head").text, s->n_kv_heads,
            s->dim, s->dim_v, precision_name(plan));
    fprintf(f, "threads: %d on %s, %s\n", plan->team.n,
            counted(topology_domains(plan->machine.topology), "domain").text, binding_name(plan));
    if (plan->team.cyclic)
        fprintf(f, "tokens: in blocks of %d, which the threads have in turn\n", plan->team.cyclic);
    else
        fprintf(f, "tokens: in contiguous parts by cost, one for each thread\n");
    fprintf(f, "processor: %s\n", tuned_say(&plan->machine.tuning).text);
    char what[200];
    if (plan->team.binding == BIND_CALLS && binding_failed(plan, what))
        fprintf(f, "threads could not be bound %s; first %s\n", counted(binding_failed(plan, NULL), "time").text, what);
    fprintf(f, "workspace: %.1f kB, plan %.1f kB; rows cut after %s\n", (double)hga_plan_workspace_bytes(plan) / 1e3,
            (double)hga_plan_bytes(plan) / 1e3, counted(plan->options.cut_edges, "edge").text);
    fprintf(f, "useful work: %.4g flops, %.4g bytes at least\nstages:\n", cost.flops, cost.bytes_min);
    for (hga_id i = 0; i < plan->program.n_stages; i++) say_stage(f, plan, i, &solvers[i]);
    parts_say(f, plan);
    fprintf(f, "schedule: %s in %s, whose busiest threads do %.2f of all work%s\n",
            counted(plan->waves.n_items, "panel").text, counted(plan->waves.n, "wave").text, waves_longest_shares(plan),
            plan->waves.alone && plan->team.n > 1 ? "; too little work for more than one thread" : "");
    for (hga_id i = 0; i < plan->fields.n_pools; i++)
        fprintf(f, "%s of %s take%s turns in %s of the workspace\n", counted(plan->fields.pool[i].nodes, "row").text,
                counted(plan->fields.pool[i].floats, "float").text, plan->fields.pool[i].nodes == 1 ? "s" : "",
                counted(plan->fields.pool[i].rows, "slot").text);
}

static hga_status explain_words(const hga_plan *plan, const hga_io *io, char **text)
{
    char *written = NULL;
    size_t bytes = 0;
    pair_solvers solvers[HGA_MAX_STAGES];
    hga_status st = solvers_find(plan, io, solvers);
    if (st) return st;
    FILE *f = open_memstream(&written, &bytes);
    if (!f) return hga_fail(HGA_ENOMEM, "cannot allocate the plan's text");
    say_plan(f, plan, solvers);
    json_t *back = NULL;
    if (plan->options.gradient) st = back_find(plan, io, &back);
    if (back) back_say(f, back);
    json_decref(back);
    int failed = ferror(f) || st;
    if (fclose(f) != 0 || failed) free(written), written = NULL;
    return st ? st : hand_over(written, text);
}

hga_status hga_plan_explain(const hga_plan *plan, const hga_io *io, hga_format format, char **text)
{
    *text = NULL;
    if (!plan) return hga_fail(HGA_EINVAL, "no plan");
    if (format > HGA_JSON) return hga_fail(HGA_EINVAL, "explain: format %d", (int)format);
    return format == HGA_JSON ? explain_json(plan, io, text) : explain_words(plan, io, text);
}
