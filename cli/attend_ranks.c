/* attend_ranks.c: a call whose tokens the ranks share out in ranges of equal length. The plan says which rows of
   each tensor are a rank's; these alone are read, held and written. */
#include "attend_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "ordered.h"
#include "rank_rows.h"
#include "shared_file.h"
#include "world.h"

typedef struct shared_call {
    const typed_attend *typed;
    attend_io io; /* its tensors hold the rank's rows */
    model model;
    ordered_call tables; /* those of nodes and edges, brought to the model's order */
    hga_plan *plan;
    hga_workspace *workspace;
    row_list query, key, value, out;
    float *made, *lse; /* [samples][rows of out][heads][columns], [samples][rows of out][heads] */
    outfile out_file, lse_file;
} shared_call;

/* ---- what can be shared ---- */

static int check_typed(const typed_attend *a)
{
    const hga_variant *v = hga_variant_named(a->variant.name);
    if (gradients_wanted(&a->gradients))
        return complain(CLI_USAGE, "--grad-..: gradients are computed in one process, and mpirun has started %d",
                        world_ranks());
    if (v && v->can & HGA_NEEDS_LEAVES)
        return complain(CLI_USAGE, "%s: routes any token anywhere, which is done in one process", v->name);
    for (int i = 0; i < 3; i++) {
        const char *path = i == 0 ? a->tensors.paths.query : i == 1 ? a->tensors.paths.key : a->tensors.paths.value;
        if (strcmp(path, "-") == 0) return complain(CLI_USAGE, "-: ranks read tensors from files, each its rows");
    }
    return CLI_GOOD;
}

static int check_model(const model *m)
{
    if (m->tree_heads > 1)
        return complain(CLI_USAGE, "%s: has a tree for each head, which one process computes", m->title);
    return CLI_GOOD;
}

/* ---- the plan ---- */

static int prepare(shared_call *c)
{
    const typed_attend *a = c->typed;
    attend_io *io = &c->io;
    int status = CLI_GOOD;
    TRY(check_typed(a));
    TRY(attend_io_read_sizes(&a->tensors.paths, a->tensors.layout, io));
    model_tensors tensors = attend_io_tensors(io);
    TRY(model_build(&a->variant, &tensors, &c->model));
    TRY(check_model(&c->model));
    TRY(modifiers_put(&a->modifiers, &c->model));
    TRY(attend_io_bind_inputs(&a->tensors.paths, &c->model, a->tensors.has_scale ? &a->tensors.scale : NULL, io));
    TRY(modifiers_bind(&a->modifiers, io));
    TRY(gradients_bind_dropout(&a->gradients, &c->model, io));
    TRY(ordered_open(&c->model, &io->shape, &io->io, NULL, &c->tables));
    if (world_speaks() && !a->tensors.quiet) tensor_file_say(&io->query);
    if (world_speaks() && !a->tensors.quiet) TRY(ordered_say(&c->model));
    if (world_speaks() && a->node_map) TRY(model_write_node_map(&c->model, a->node_map));
done:
    return status;
}

static int make_plan(shared_call *c)
{
    hga_options options = c->typed->options;
    const hga_graph *graph = ordered_graph(&c->model);
    hga_id *cuts = NULL;
    int status = CLI_GOOD;
    TRY(world_agree(rank_cuts(graph, world_ranks(), &cuts)));
    hga_ranks shared = {.exchange = world_exchange(), .cuts = cuts};
    options.ranks = &shared;
    options.threads = world_threads(options.threads);
    options.edge_bias = c->io.io.edge_bias != NULL;
    options.modifiers = modifiers_planned(&c->typed->modifiers);
    hga_status st = hga_plan_create(graph, &c->model.program, &c->io.shape, &options, &c->plan);
    if (!st) st = hga_workspace_create(c->plan, &c->workspace);
    TRY(world_agree(complain_of(st, c->model.from_file ? CLI_DATA : CLI_USAGE, c->model.title)));
done:
    free(cuts);
    return status;
}

/* ---- the tensors ---- */

static int find_rows(const shared_call *c, hga_binding binding, row_list *list)
{
    int status = rank_rows(c->plan, &c->model.program, binding, list);
    return status ? status : rank_rows_of_user(&c->model, binding, list);
}

static int read_rows(const char *path, const row_list *rows, tensor_file *t)
{
    return rows->exists ? tensor_file_read_rows(path, rows->interval, rows->n, t) : CLI_GOOD;
}

static int read_tensors(shared_call *c)
{
    const attend_paths *paths = &c->typed->tensors.paths;
    attend_io *io = &c->io;
    int status = CLI_GOOD;
    TRY(find_rows(c, HGA_IO_QUERY, &c->query));
    TRY(find_rows(c, HGA_IO_KEY, &c->key));
    TRY(find_rows(c, HGA_IO_VALUE, &c->value));
    TRY(find_rows(c, HGA_IO_OUT, &c->out));
    TRY(read_rows(paths->query, &c->query, &io->query));
    TRY(read_rows(paths->key, &c->key, &io->key));
    TRY(read_rows(paths->value, &c->value, &io->value));
    int64_t rows = io->query.samples * c->out.rows * io->query.heads;
    TRY(take(rows * io->value.columns + 1, sizeof *c->made, &c->made));
    if (paths->lse) TRY(take(rows + 1, sizeof *c->lse, &c->lse));
done:
    return status;
}

/* A rank that has no rows brings a tensor that has none. */
static hga_tensor rows_of_sample(const tensor_file *t, const row_list *rows, hga_id sample)
{
    static float nothing[1];
    if (!rows->exists) return (hga_tensor){0};
    float *data = t->array.real ? t->array.real + sample * t->array.count : nothing;
    return (hga_tensor){.data = data, .rows = rows->rows};
}

static int execute(shared_call *c)
{
    attend_io *a = &c->io;
    int64_t rows = c->out.rows * a->query.heads;
    int status = CLI_GOOD;
    for (hga_id s = 0; s < a->query.samples; s++) {
        hga_io io = c->tables.io;
        io.query = rows_of_sample(&a->query, &c->query, s);
        io.key = rows_of_sample(&a->key, &c->key, s);
        io.value = rows_of_sample(&a->value, &c->value, s);
        io.out = (hga_tensor){.data = c->made + s * rows * a->value.columns, .rows = c->out.rows};
        if (c->lse) io.lse = (hga_tensor){.data = c->lse + s * rows, .rows = c->out.rows};
        TRY(world_agree(complain_of(hga_plan_execute(c->plan, c->workspace, &io),
                                    c->model.from_file ? CLI_DATA : CLI_USAGE, c->model.title)));
    }
done:
    return status;
}

/* ---- the files ---- */

static int write_rows(const shared_call *c, outfile *out, int64_t columns, const float *data)
{
    element type = tensors_out_type(&c->typed->tensors, &c->io.query);
    return world_agree(tensor_file_write_rows(out, &c->io.query, c->io.out_rows, columns, type, c->out.interval,
                                              c->out.n, world_rank() == 0, data));
}

static int open_files(shared_call *c)
{
    const attend_paths *paths = &c->typed->tensors.paths;
    int status = shared_file_open(paths->out, &c->out_file);
    return status || !paths->lse ? status : shared_file_open(paths->lse, &c->lse_file);
}

/* all files appear, or none */
static int write_files(shared_call *c)
{
    int status = CLI_GOOD;
    TRY(write_rows(c, &c->out_file, c->io.value.columns, c->made));
    if (c->lse) TRY(write_rows(c, &c->lse_file, 0, c->lse));
    TRY(shared_file_flush(&c->out_file));
    if (c->lse) TRY(shared_file_flush(&c->lse_file));
    if (c->lse) TRY(shared_file_keep(&c->lse_file));
    TRY(shared_file_keep(&c->out_file));
done:
    return status;
}

static void clear(shared_call *c)
{
    hga_workspace_destroy(c->workspace);
    hga_plan_destroy(c->plan);
    outfile_drop(&c->lse_file);
    outfile_drop(&c->out_file);
    free(c->query.interval);
    free(c->key.interval);
    free(c->value.interval);
    free(c->out.interval);
    free(c->made);
    free(c->lse);
    ordered_close(&c->tables);
    attend_io_clear(&c->io);
    model_clear(&c->model);
}

int attend_ranks(const typed_attend *a)
{
    shared_call c = {.typed = a};
    int status = CLI_GOOD;
    TRY(world_agree(prepare(&c)));
    TRY(open_files(&c));
    TRY(make_plan(&c));
    TRY(world_agree(read_tensors(&c)));
    TRY(execute(&c));
    TRY(write_files(&c));
done:
    clear(&c);
    return status;
}
