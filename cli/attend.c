/* attend.c: hga attend, attention on tensors from .npy files. */
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "attend_ranks.h"
#include "command.h"
#include "attend_parts.h"
#include "ordered.h"
#include "outfile.h"
#include "variant_routed.h"
#include "world.h"

/* ---- the command line ---- */

/* Edge values and their sums go together, and every output needs a file of its own. */
static int check_arguments(void *input)
{
    const typed_attend *a = input;
    const outfile_wish more[MORE_FILES] = {{"--node-map", a->node_map},
                                           {"--choice", a->chosen.choice},
                                           {"--block-weights", a->chosen.weights},
                                           {"--edge-out", a->tensors.paths.edge_out}};
    int status = tensors_check(&a->tensors);
    const char *features = a->call.text[HGA_TABLE_EDGE_VALUE], *sums = a->tensors.paths.edge_out;
    if (!status && !features != !sums)
        status =
            complain(CLI_USAGE, "--edge-%s FILE needs --edge-%s FILE", sums ? "out" : "value", sums ? "value" : "out");
    return status ? status : gradients_check(&a->gradients, &a->tensors.paths, &a->call, more);
}

static const option_row options[] = {
    {"choice", TEXT(typed_attend, chosen.choice), "FILE", ARGUMENTS_MORE,
     "of routed: write the blocks that were chosen, int32 [choosers][query blocks][slots], -1 behind a row's last; of "
     "a batch with its axis in front, as --block-weights and --block-scores",
     3},
    {"block-weights", TEXT(typed_attend, chosen.weights), "FILE", ARGUMENTS_MORE,
     "of routed: write what each chosen block weighs, [heads][tokens][slots]", 3},
    {"block-scores", TEXT(typed_attend, chosen.scores), "FILE", ARGUMENTS_MORE,
     "of routed with -p score=given: read the scores of blocks, [choosers][query blocks][blocks]", 3},
    {"edge-out", TEXT(typed_attend, tensors.paths.edge_out), "FILE", ARGUMENTS_MORE,
     "where the sums of --edge-value go, [rows][heads][features]", 3},
    {"node-map", TEXT(typed_attend, node_map), "FILE", ARGUMENTS_MORE,
     "write [nodes] int32: the caller's id of each node, for hsa with parent", 3},
    {0},
};

/* ---- the work ---- */

/* One call of the library, forward, in the order of nodes that the model runs in. */
static int execute(const model *m, const hga_options *o, const attend_io *a)
{
    ordered_call c;
    int status = ordered_open(m, &a->shape, &a->io, NULL, &c);
    if (!status)
        status = complain_of(hga_attention(ordered_graph(m), &m->program, &a->shape, o, &c.io),
                             m->from_file ? CLI_DATA : CLI_USAGE, m->title);
    if (!status) ordered_return(&c);
    ordered_close(&c);
    return status;
}

/* What all samples give: [samples][rows][heads][columns] and [samples][rows][heads]. */
typedef struct results {
    hga_id rows, features; /* features: columns of edge_out */
    float *out, *lse, *edge_out;
} results;

/* Routing and choosing look at a sample's own tensors; everything else is one graph for samples that are equally
   long. */
static int build_for(const typed_attend *a, const attend_io *one, const choosing *how, model *m)
{
    const hga_variant *v = hga_variant_named(a->variant.name);
    model_tensors tensors = attend_io_tensors(one);
    if (m->graph && !(v && v->can & (HGA_NEEDS_LEAVES | HGA_NEEDS_CHOICE))) return CLI_GOOD;
    tensors.choosing = how;
    model_clear(m);
    return model_build(&a->variant, &tensors, m);
}

/* Where results go, opened before anything is computed, so that a path that cannot be written is known at once. */
enum { TO_OUT, TO_LSE, TO_EDGE_OUT, TO_NODE_MAP, N_TARGETS };
typedef struct targets {
    outfile file[N_TARGETS];
    chosen_files chosen;
} targets;

/* Opens all files that will be written before anything is computed. */
static int targets_open(const typed_attend *a, targets *t, attend_gradients *g)
{
    const attend_paths *p = &a->tensors.paths;
    const char *const path[N_TARGETS] = {p->out, p->lse, p->edge_out, a->node_map};
    int status = CLI_GOOD;
    for (int i = 0; i < N_GRADIENTS; i++)
        if (a->gradients.wanted[i]) TRY(outfile_open(a->gradients.wanted[i], &g->file[i]));
    for (int i = 0; i < N_TARGETS; i++)
        if (path[i]) TRY(outfile_open(path[i], &t->file[i]));
done:
    return status;
}

/* The way there, and back where gradients are wanted. */
static int run_part(const typed_attend *a, const attend_io *all, hga_id sample, const head_part *p, const model *m,
                    attend_io *one, attend_gradients *g)
{
    attend_gradients mine = {0};
    int status = CLI_GOOD;
    if (!gradients_wanted(&a->gradients)) return execute(m, &a->options, one);
    if (p->n == p->of) return gradients_run(m, &a->options, all, sample, one, g);
    TRY(part_gradients(g, all, sample, p, &mine));
    TRY(gradients_run(m, &a->options, one, 0, one, &mine));
    TRY(part_add_gradients(all, sample, p, &mine, g));
done:
    gradients_clear(&mine);
    return status;
}

/* What an execution of some heads gives goes to its place among all. */
static int put_results(const attend_io *all, hga_id sample, const head_part *p, const attend_io *one, results *r)
{
    int64_t heads = (int64_t)one->out_rows * p->of, columns = all->value.columns;
    int status = CLI_GOOD;
    r->rows = one->out_rows;
    if (!r->out) TRY(take(all->query.samples * heads * columns, sizeof *r->out, &r->out));
    if (!r->lse && one->lse) TRY(take(all->query.samples * heads, sizeof *r->lse, &r->lse));
    r->features = one->io.edge_value.columns;
    const int64_t features = heads * r->features;
    if (!r->edge_out && one->edge_out) TRY(take(all->query.samples * features, sizeof *r->edge_out, &r->edge_out));
    part_put(p, r->rows, columns, one->out, r->out + sample * heads * columns);
    if (one->lse) part_put(p, r->rows, 1, one->lse, r->lse + sample * heads);
    if (one->edge_out) part_put(p, r->rows, r->features, one->edge_out, r->edge_out + sample * features);
done:
    return status;
}

/* Tables of edges are of one graph. */
static int check_parts(const typed_call *call, hga_id choosers)
{
    for (const hga_call_row *row = hga_call_tables(); row < hga_call_tables() + HGA_N_TABLES; row++)
        if (row->rows == HGA_EXTENT_EDGES && call->text[row - hga_call_tables()])
            return complain(CLI_USAGE, "--%s: each of %d choosers has edges of its own", row->option, choosers);
    return CLI_GOOD;
}

/* One chooser of a sample, of most variants all heads: its model, its execution, its part of the results. */
static int run_sample(const typed_attend *a, const attend_io *all, hga_id sample, hga_id chooser, model *m,
                      attend_gradients *g, results *r, targets *t)
{
    const int first = sample == 0 && chooser == 0;
    head_part p = part_of(all, chooser, t->chosen.choosers);
    choosing how = {
        .chooser = chooser, .choosers = t->chosen.choosers, .sample = sample, .samples = all->query.samples};
    attend_io one;
    int status = CLI_GOOD;
    if (t->chosen.scores.path) how.scores = &t->chosen.scores;
    how.precision = a->options.precision, how.threads = a->options.threads, how.isa = a->options.isa;
    if (a->call.text[HGA_TABLE_SCALE]) how.scale = &a->call.number[HGA_TABLE_SCALE];
    TRY(part_take(all, sample, &p, &one));
    if (p.n < p.of) TRY(check_parts(&a->call, t->chosen.choosers));
    TRY(build_for(a, &one, &how, m));
    TRY(call_put(&a->call, m));
    TRY(attend_io_bind(&a->tensors.paths, &a->call, m, &one));
    if (first && !a->tensors.quiet) tensor_file_say(&all->query);
    if (first && !a->tensors.quiet) TRY(ordered_say(m));
    TRY(gradients_bind_dropout(&a->gradients, m, &one));
    one.io.first_head = p.first;
    TRY(run_part(a, all, sample, &p, m, &one, g));
    if (first && a->node_map)
        TRY(node_ids_put(&m->map, m->graph, &t->file[TO_NODE_MAP])); /* all samples have one graph */
    TRY(put_results(all, sample, &p, &one, r));
    if (m->chosen.block) TRY(chosen_keep(&p, sample, chooser, m, &a->options, &one, &t->chosen));
done:
    part_clear(all, &p, &one);
    return status;
}

static int write_result(const typed_attend *a, const attend_io *all, hga_id rows, int64_t columns, const float *data,
                        outfile *to)
{
    int status = tensor_file_write(to, &all->query, rows, columns, tensors_out_type(&a->tensors, &all->query), data);
    return status ? status : outfile_flush(to);
}

/* all files appear, or none */
static int write_results(const typed_attend *a, const attend_io *all, const results *r, attend_gradients *g, targets *t)
{
    const attend_paths *p = &a->tensors.paths;
    int status = CLI_GOOD;
    TRY(write_result(a, all, r->rows, all->value.columns, r->out, &t->file[TO_OUT]));
    TRY(gradients_flush(all, tensors_out_type(&a->tensors, &all->query), g));
    TRY(chosen_flush(&all->query, &t->chosen));
    if (p->lse) TRY(write_result(a, all, r->rows, 0, r->lse, &t->file[TO_LSE]));
    if (p->edge_out) TRY(write_result(a, all, r->rows, r->features, r->edge_out, &t->file[TO_EDGE_OUT]));
    for (int i = N_TARGETS - 1; i > TO_OUT; i--) TRY(outfile_keep(&t->file[i]));
    TRY(chosen_name(&t->chosen));
    TRY(gradients_keep(g));
    TRY(outfile_keep(&t->file[TO_OUT]));
done:
    return status;
}

int run_attend(int argc, char **argv)
{
    const option_part parts[] = {
        {&variant_list, offsetof(typed_attend, variant), NULL, 0},
        {&machine_list, offsetof(typed_attend, options), NULL, 0},
        {gradient_list(), offsetof(typed_attend, gradients), NULL, 0},
        {call_list(CALL_WITH_SUMS), offsetof(typed_attend, call), "What is done with scores:", 4},
        {&tensors_list, offsetof(typed_attend, tensors), NULL, 0},
        {0}};
    const option_list line = {
        .rows = options,
        .parts = parts,
        .check = check_arguments,
        .words = "VARIANT",
        .says =
            "Attention on tensors from .npy files.\vUnder mpirun, in a build with -DHGA_WITH_MPI=ON, the processes "
            "share one call: each reads, computes and writes its rows. The files, also those of gradients, equal those "
            "of one process. The default of --threads is then the machine's processors divided by its processes."};
    typed_attend a = {0};
    attend_io all = {0};
    results r = {0};
    targets t = {0};
    attend_gradients g = {0};
    model m = {0};
    hga_id choosers = 1;
    int status = CLI_GOOD;
    a.variant.takes_order = 1;
    TRY(arguments_parse(&line, argc, argv, &a));
    a.options.dropout = (float)a.gradients.dropout;
    call_plan(&a.call, &a.options);
    if (world_ranks() > 1) return attend_ranks(&a);
    TRY(attend_io_read(&a.tensors.paths, &a.call, a.tensors.layout, tensor_file_read, &all));
    TRY(gradients_open(&a.gradients, &all, tensor_file_read, &g));
    TRY(targets_open(&a, &t, &g));
    TRY(routed_choosers(&a.variant, all.query.heads, all.key.heads, &choosers));
    TRY(chosen_open(&a.chosen, &a.variant, &all, choosers, &t.chosen));
    for (hga_id s = 0; s < all.query.samples; s++)
        for (hga_id c = 0; c < choosers; c++) TRY(run_sample(&a, &all, s, c, &m, &g, &r, &t));
    TRY(write_results(&a, &all, &r, &g, &t));
done:
    model_clear(&m);
    gradients_clear(&g);
    chosen_clear(&t.chosen);
    for (int i = 0; i < N_TARGETS; i++) outfile_drop(&t.file[i]);
    free(r.out);
    free(r.lse);
    free(r.edge_out);
    attend_io_clear(&all);
    return status;
}
