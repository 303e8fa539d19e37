/* attend.c: hga attend, attention on tensors from .npy files. */
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "attend.h"
#include "command.h"
#include "ordered.h"
#include "variant.h"
#include "world.h"

/* ---- the command line ---- */

/* Edge values and their sums need each other, and every output needs a file of its own. */
static int check_arguments(void *input)
{
    const typed_attend *a = input;
    outfile_wish wish[N_TARGETS];
    MUST(tensors_check(&a->tensors));
    const char *features = a->call.text[HGA_TABLE_EDGE_VALUE], *sums = a->tensors.paths.edge_out;
    if (!features != !sums)
        MUST(
            complain(CLI_USAGE, "--edge-%s FILE needs --edge-%s FILE", sums ? "out" : "value", sums ? "value" : "out"));
    MUST(gradients_check(&a->gradients, &a->tensors.paths, &a->call));
    attend_targets(a, wish);
    return outfiles_distinct(wish, N_TARGETS);
}

static const option_row options[] = {
    {"choice", TEXT(typed_attend, chosen.choice), "FILE", ARGUMENTS_MORE,
     "for routed: write the blocks that were chosen, int32 [choosers][query blocks][slots], -1 after a row's last; of "
     "a batch with its axis in front, as --block-weights and --block-scores",
     3},
    {"block-weights", TEXT(typed_attend, chosen.weights), "FILE", ARGUMENTS_MORE,
     "for routed: write what each chosen block weighs, [heads][tokens][slots]", 3},
    {"block-scores", TEXT(typed_attend, chosen.scores), "FILE", ARGUMENTS_MORE,
     "for routed with -p score=given: read the scores of blocks, [choosers][query blocks][blocks]", 3},
    {"edge-out", TEXT(typed_attend, tensors.paths.edge_out), "FILE", ARGUMENTS_MORE,
     "where the sums of --edge-value go, [rows][heads][features]", 3},
    {"node-map", TEXT(typed_attend, node_map), "FILE", ARGUMENTS_MORE,
     "write [nodes] int32: the caller's id of each node, for hsa with parent", 3},
    {0},
};

/* ---- the work ---- */

/* Runs one call of the library, forward, in the order of nodes that the model runs in. */
static int execute(const model *m, const hga_options *o, const attend_io *a)
{
    ordered_call c;
    int status = ordered_open(m, &a->shape, &a->io, NULL, &c);
    if (!status) status = model_complain_of(hga_attention(ordered_graph(m), &m->program, &a->shape, o, &c.io), m);
    if (!status) ordered_return(&c);
    ordered_close(&c);
    return status;
}

/* The results of all samples: [samples][rows][heads][columns], without columns where these are 0. */
typedef struct results {
    hga_id rows;
    int64_t columns[N_MADE];
    float *of[N_MADE];
} results;

/* Routing and choosing read a sample's own tensors; otherwise samples of equal length share one graph. */
static int build_for(const typed_attend *a, const attend_io *one, const choosing *how, model *m)
{
    const hga_variant *v = hga_variant_named(a->variant.name);
    model_tensors tensors = attend_io_tensors(one);
    if (m->graph && !(v && v->can & (HGA_NEEDS_LEAVES | HGA_NEEDS_CHOICE))) return CLI_GOOD;
    tensors.choosing = how;
    model_clear(m);
    return model_build(&a->variant, &tensors, m);
}

typedef struct targets {
    outfile file[N_TARGETS];
    chosen_files chosen;
} targets;

/* Opens all files before anything is computed, so that a path that cannot be written is known at once. */
static int open_targets(const typed_attend *a, targets *t)
{
    outfile_wish wish[N_TARGETS];
    attend_targets(a, wish);
    for (int i = 0; i < N_TARGETS; i++)
        if (wish[i].path) MUST(outfile_open(wish[i].path, &t->file[i]));
    return CLI_GOOD;
}

/* Copies [rows][heads of the part][columns] into [rows][all heads][columns]. */
static void part_put(const head_part *p, int64_t rows, int64_t columns, const float *x, float *all)
{
    for (int64_t r = 0; r < rows; r++)
        memcpy(all + (r * p->of + p->first) * columns, x + r * p->n * columns, (size_t)(p->n * columns) * sizeof *all);
}

/* Copies the results of some heads into those of all. */
static int put_results(const attend_io *all, hga_id sample, const attend_io *one, results *r)
{
    const head_part *p = &one->part;
    r->rows = one->out_rows;
    for (int i = 0; i < N_MADE; i++) {
        if (!one->made[i]) continue;
        r->columns[i] = attend_io_columns(one, i);
        const int64_t columns = r->columns[i] ? r->columns[i] : 1, n = (int64_t)r->rows * p->of * columns;
        if (!r->of[i]) MUST(take(all->query.samples * n, sizeof *r->of[i], &r->of[i]));
        part_put(p, r->rows, columns, one->made[i], r->of[i] + sample * n);
    }
    return CLI_GOOD;
}

/* Tables of edges are of one graph: refuses them where heads have several. */
static int check_parts(const typed_call *call, hga_id choosers)
{
    for (const hga_call_row *row = hga_call_tables(); row < hga_call_tables() + HGA_N_TABLES; row++)
        if (row->rows == HGA_EXTENT_EDGES && call->text[row - hga_call_tables()])
            return complain(CLI_USAGE, "--%s: each of %d choosers has edges of its own", row->option, choosers);
    return CLI_GOOD;
}

/* Runs one chooser of a sample, of most variants all heads: its model, its execution, its heads' results. */
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
    TRY(attend_io_part(all, sample, &p, &one));
    if (p.n < p.of) TRY(check_parts(&a->call, t->chosen.choosers));
    TRY(build_for(a, &one, &how, m));
    TRY(call_put(&a->call, m));
    TRY(attend_io_bind(&a->tensors.paths, &a->call, m, &one));
    if (first && !a->tensors.quiet) tensor_file_say(&all->query);
    if (first && !a->tensors.quiet) TRY(ordered_say(m));
    TRY(gradients_bind_dropout(&a->gradients, m, &one));
    one.io.first_head = p.first;
    TRY(gradients_requested(&a->gradients) ? gradients_run(m, &a->options, all, sample, &one, g)
                                           : execute(m, &a->options, &one));
    if (first && a->node_map)
        TRY(node_ids_put(&m->map, m->graph, &t->file[TO_NODE_MAP])); /* all samples have one graph */
    TRY(put_results(all, sample, &one, r));
    if (m->chosen.block) TRY(chosen_keep(sample, chooser, m, &a->options, &one, &t->chosen));
done:
    attend_io_part_clear(all, &one);
    return status;
}

/* all files appear, or none */
static int write_results(const typed_attend *a, const attend_io *all, const results *r, const attend_gradients *g,
                         targets *t)
{
    const element type = tensors_out_type(&a->tensors, &all->query);
    for (int i = 0; i < N_MADE; i++) {
        if (!r->of[i]) continue;
        MUST(tensor_file_write(&t->file[TO_MADE + i], &all->query, r->rows, r->columns[i], type, r->of[i]));
    }
    MUST(gradients_write(all, type, g, t->file + TO_GRADIENTS));
    MUST(chosen_write(&all->query, &t->chosen, &t->file[TO_CHOICE], &t->file[TO_WEIGHTS]));
    for (int i = 0; i < N_TARGETS; i++)
        if (t->file[i].file) MUST(outfile_flush(&t->file[i]));
    for (int i = N_TARGETS - 1; i >= 0; i--) MUST(outfile_keep(&t->file[i]));
    return CLI_GOOD;
}

int run_attend(int argc, char **argv)
{
    const option_part parts[] = {{&variant_list, offsetof(typed_attend, variant), NULL, 0},
                                 {&machine_list, offsetof(typed_attend, options), NULL, 0},
                                 {gradient_list(), offsetof(typed_attend, gradients), NULL, 0},
                                 {call_list(CALL_WITH_SUMS), offsetof(typed_attend, call), "Scores:", 4},
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
    TRY(open_targets(&a, &t));
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
    for (int i = 0; i < N_MADE; i++) free(r.of[i]);
    attend_io_clear(&all);
    return status;
}
