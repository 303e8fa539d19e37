/* attend.c: hga attend, attention on tensors from .npy files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "attend_ranks.h"
#include "command.h"
#include "ordered.h"
#include "outfile.h"
#include "world.h"

/* ---- the command line ---- */

static int check_arguments(const typed_attend *a)
{
    if (!a->variant.name) return complain(CLI_USAGE, "attend: VARIANT is missing");
    int status = tensors_check(&a->tensors);
    return status ? status : gradients_check(&a->gradients, &a->tensors.paths, &a->call, a->node_map);
}

static error_t parse(int key, char *value, struct argp_state *state)
{
    typed_attend *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &a->variant;
        state->child_inputs[1] = &a->options;
        state->child_inputs[2] = &a->gradients;
        state->child_inputs[3] = &a->call;
        state->child_inputs[4] = &a->tensors;
        return 0;
    case ARGP_KEY_END: return arguments_said(check_arguments(a));
    default: return arguments_put(key, value, a);
    }
}

static const struct argp_option options[] = {
    {"node-map", TEXT(typed_attend, node_map), "FILE", ARGUMENTS_MORE,
     "write [nodes] int32: the caller's id of each node, for hsa with parent", 3},
    {0},
};

/* ---- the work ---- */

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
    hga_id rows;
    float *out, *lse;
} results;

/* Routing looks at a sample's own tensors; everything else is one graph for samples that are equally long. */
static int build_for(const typed_attend *a, const attend_io *one, model *m)
{
    const hga_variant *v = hga_variant_named(a->variant.name);
    model_tensors tensors = attend_io_tensors(one);
    if (m->graph && !(v && v->can & HGA_NEEDS_LEAVES)) return CLI_GOOD;
    model_clear(m);
    return model_build(&a->variant, &tensors, m);
}

/* Where results go, opened before anything is computed, so that a path that cannot be written is known at once. */
typedef struct targets {
    outfile out, lse, node_map;
} targets;

static int targets_open(const typed_attend *a, targets *t, attend_gradients *g)
{
    const attend_paths *paths = &a->tensors.paths;
    int status = CLI_GOOD;
    for (int i = 0; i < N_GRADIENTS; i++)
        if (a->gradients.wanted[i]) TRY(outfile_open(a->gradients.wanted[i], &g->file[i]));
    TRY(outfile_open(paths->out, &t->out));
    if (paths->lse) TRY(outfile_open(paths->lse, &t->lse));
    if (a->node_map) TRY(outfile_open(a->node_map, &t->node_map));
done:
    return status;
}

/* One sample: its model, its execution, its rows of the results. */
static int run_sample(const typed_attend *a, const attend_io *all, hga_id sample, model *m, attend_gradients *g,
                      results *r, targets *t)
{
    attend_io one = attend_io_sample(all, sample);
    int status = CLI_GOOD;
    TRY(build_for(a, &one, m));
    TRY(call_put(&a->call, m));
    TRY(attend_io_bind(&a->tensors.paths, &a->call, m, &one));
    if (sample == 0 && !a->tensors.quiet) tensor_file_say(&all->query);
    if (sample == 0 && !a->tensors.quiet) TRY(ordered_say(m));
    TRY(gradients_bind_dropout(&a->gradients, m, &one));
    TRY(gradients_wanted(&a->gradients) ? gradients_run(m, &a->options, all, sample, &one, g)
                                        : execute(m, &a->options, &one));
    if (sample == 0 && a->node_map) TRY(node_ids_put(&m->map, m->graph, &t->node_map)); /* all samples have one graph */
    int64_t heads = (int64_t)one.out_rows * all->query.heads, columns = all->value.columns;
    r->rows = one.out_rows;
    if (!r->out) TRY(take(all->query.samples * heads * columns, sizeof *r->out, &r->out));
    if (!r->lse && one.lse) TRY(take(all->query.samples * heads, sizeof *r->lse, &r->lse));
    memcpy(r->out + sample * heads * columns, one.out, (size_t)(heads * columns) * sizeof *one.out);
    if (one.lse) memcpy(r->lse + sample * heads, one.lse, (size_t)heads * sizeof *one.lse);
done:
    attend_io_clear(&one);
    return status;
}

/* all files appear, or none */
static int write_results(const typed_attend *a, const attend_io *all, const results *r, attend_gradients *g, targets *t)
{
    element type = tensors_out_type(&a->tensors, &all->query);
    int status = CLI_GOOD;
    TRY(tensor_file_write(&t->out, &all->query, r->rows, all->value.columns, type, r->out));
    TRY(outfile_flush(&t->out));
    TRY(gradients_flush(all, type, g));
    if (a->tensors.paths.lse) {
        TRY(tensor_file_write(&t->lse, &all->query, r->rows, 0, type, r->lse));
        TRY(outfile_flush(&t->lse));
    }
    TRY(outfile_keep(&t->node_map));
    TRY(outfile_keep(&t->lse));
    TRY(gradients_keep(g));
    TRY(outfile_keep(&t->out));
done:
    return status;
}

int run_attend(int argc, char **argv)
{
    struct argp_child children[] = {
        {&variant_argp, 0, NULL, 0},   {&machine_argp, 0, NULL, 0},
        {gradient_argp(), 0, NULL, 0}, {call_argp(CALL_WHOLE), 0, "What is done with scores:", 4},
        {&tensors_argp, 0, NULL, 0},   {0}};
    struct argp argp = {
        options,
        parse,
        "VARIANT",
        "Attention on tensors from .npy files.\vUnder mpirun, of a build with -DHGA_WITH_MPI=ON, the "
        "processes share one call: each reads, computes and writes its rows, and the files are those of "
        "one process, gradients too. Threads are then by default the machine's processors over its processes.",
        children,
        NULL,
        NULL};
    typed_attend a = {0};
    attend_io all = {0};
    results r = {0};
    targets t = {0};
    attend_gradients g = {0};
    model m = {0};
    int status = CLI_GOOD;
    a.variant.takes_order = 1;
    TRY(arguments_parse(&argp, argc, argv, &a));
    a.options.dropout = (float)a.gradients.dropout;
    call_plan(&a.call, &a.options);
    if (world_ranks() > 1) return attend_ranks(&a);
    TRY(attend_io_read(&a.tensors.paths, &a.call, a.tensors.layout, tensor_file_read, &all));
    TRY(gradients_open(&a.gradients, &a.variant, &all, tensor_file_read, &g));
    TRY(targets_open(&a, &t, &g));
    for (hga_id s = 0; s < all.query.samples; s++) TRY(run_sample(&a, &all, s, &m, &g, &r, &t));
    TRY(write_results(&a, &all, &r, &g, &t));
done:
    model_clear(&m);
    gradients_clear(&g);
    outfile_drop(&t.node_map);
    outfile_drop(&t.lse);
    outfile_drop(&t.out);
    free(r.out);
    free(r.lse);
    attend_io_clear(&all);
    return status;
}
