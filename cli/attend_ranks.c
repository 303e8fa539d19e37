/* attend_ranks.c: a call whose tokens are divided among the ranks in ranges of equal length. The plan says which
   rows of each tensor are a rank's; only these are read, held and written. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attend.h"
#include "complain.h"
#include "ordered.h"
#include "outfile.h"
#include "rank_rows.h"
#include "world.h"

typedef struct shared_call {
    const typed_attend *typed;
    attend_io io; /* its tensors hold the rank's rows */
    model model;
    ordered_call tables; /* those of nodes and edges, moved to the model's order */
    hga_plan *plan;
    hga_workspace *workspace;
    rank_rows mine;
    float *made[N_MADE]; /* [samples][rows of out][heads][columns], without columns where these are 0 */
    char *tape;
    attend_gradients gradients;
    hga_id rows[3]; /* of query, key and value, of all ranks, as rank_rows and gradient_of number them */
    outfile_wish wish[N_TARGETS];
    outfile file[N_TARGETS]; /* that of nodes' ids with the rank that prints */
} shared_call;

/* ---- files that all ranks write ---- */

typedef char file_path[HGA_PATH_BYTES];

/* Opening a pipe without a reader would block for ever. */
static int is_pipe(const char *path)
{
    struct stat there;
    return stat(path, &there) == 0 && S_ISFIFO(there.st_mode);
}

/* What rank 0 sends about its file, and the others about whether they have found it. */
typedef struct offer {
    file_path name;
    dev_t device;
    ino_t number;
    int found;
} offer;

/* Rank 0 offers its descriptor: until the file is kept it needs no name, which a killed rank 0 would leave. */
static int create(const char *path, outfile *out, offer *mine)
{
    struct stat there;
    if (is_pipe(path)) return complain(CLI_USAGE, "%s: is written as it comes, which several ranks cannot do", path);
    MUST(outfile_open(path, out));
    if (out->whole.in_place)
        return complain(CLI_USAGE, "%s: is written as it comes, which several ranks cannot do", out->whole.path);
    int fd = fileno(out->file);
    if (fstat(fd, &there) != 0) return complain(CLI_OUTSIDE, "cannot write %s: %s", path, strerror(errno));
    snprintf(mine->name, sizeof mine->name, "/proc/%ld/fd/%d", (long)getpid(), fd);
    mine->device = there.st_dev, mine->number = there.st_ino, mine->found = 1;
    return CLI_GOOD;
}

/* Opens the file that rank 0 has created; another machine, or another container, has another file there, or none. */
static int find(const offer *of, outfile *out)
{
    struct stat there;
    if (stat(of->name, &there) != 0 || there.st_dev != of->device || there.st_ino != of->number) return 0;
    out->file = out->whole.stream = fopen(of->name, "r+b");
    return out->file != NULL;
}

static int name_it(const char *path, outfile *out, file_path name)
{
    MUST(complain_of(hga_file_share(&out->whole), CLI_OUTSIDE, path));
    memcpy(name, out->whole.temporary, sizeof(file_path));
    return CLI_GOOD;
}

static int join(const char *path, const file_path name, outfile *out)
{
    if (out->file) return CLI_GOOD; /* already open */
    out->file = out->whole.stream = fopen(name, "r+b");
    if (out->file) return CLI_GOOD;
    return complain(CLI_OUTSIDE, "%s: rank %d cannot open what rank 0 has made of it, %s: %s", path, world_rank(), name,
                    strerror(errno));
}

static int all_found(const offer *of)
{
    int found = 1;
    for (hga_id r = 0; r < world_ranks(); r++) found &= of[r].found;
    return found;
}

/* Refuses ranks whose paths differ. */
static int check_name(const char *path, const char *first)
{
    if (strncmp(first, path, sizeof(file_path) - 1) == 0) return CLI_GOOD;
    return complain(CLI_USAGE, "ranks write one file: rank 0 writes '%s', and rank %d '%s'", first, world_rank(), path);
}

/* Rank 0 creates the file. It gets a temporary name only if a rank does not find it without one. */
static int open_shared(const char *path, outfile *out)
{
    offer mine = {0}, *all = NULL;
    int status = CLI_GOOD, speaks = world_rank() == 0;
    *out = (outfile){0};
    TRY(world_agree(take(world_ranks(), sizeof *all, &all)));
    snprintf(mine.name, sizeof mine.name, "%s", path);
    TRY(world_gather(&mine, sizeof mine, all));
    TRY(world_agree(check_name(path, all[0].name)));
    TRY(world_agree(speaks ? create(path, out, &mine) : CLI_GOOD));
    TRY(world_gather(&mine, sizeof mine, all));
    if (!speaks) snprintf(out->whole.path, sizeof out->whole.path, "%s", path);
    if (!speaks) mine.found = find(&all[0], out);
    TRY(world_gather(&mine, sizeof mine, all));
    if (all_found(all)) goto done;
    TRY(world_agree(speaks ? name_it(path, out, mine.name) : CLI_GOOD));
    TRY(world_gather(&mine, sizeof mine, all));
    TRY(world_agree(speaks ? CLI_GOOD : join(path, all[0].name, out)));
done:
    free(all);
    return status;
}

/* The others close theirs here, so that a file on another machine is whole before rank 0 names it. */
static int flush_shared(const char *path, outfile *out)
{
    int status = outfile_flush(out);
    if (world_rank() > 0) {
        if (!status && fclose(out->file))
            status = complain(CLI_OUTSIDE, "cannot write %s: %s", path, strerror(errno));
        else if (status)
            fclose(out->file);
        *out = (outfile){0};
    }
    return world_agree(status);
}

static int keep_shared(const char *path, outfile *out)
{
    (void)path;
    return world_agree(world_rank() == 0 ? outfile_keep(out) : CLI_GOOD);
}

/* ---- what can be shared ---- */

static int is_stdin(const char *path) { return path && strcmp(path, "-") == 0; }

/* What ranks cannot share: variants that route or choose, edges' sums, and tensors from pipes. */
static int check_typed(const typed_attend *a)
{
    const hga_variant *v = hga_variant_named(a->variant.name);
    if (v && v->can & (HGA_NEEDS_LEAVES | HGA_NEEDS_CHOICE))
        return complain(CLI_USAGE, "%s: routes any token anywhere, which is done in one process", v->name);
    if (a->chosen.choice || a->chosen.weights || a->chosen.scores)
        return complain(CLI_USAGE, "%s chooses no blocks, which --choice and --block-.. are for", a->variant.name);
    const attend_paths *p = &a->tensors.paths;
    const char *const read[] = {p->query, p->key, p->value, a->gradients.out, a->gradients.lse};
    int piped = 0;
    for (size_t i = 0; i < sizeof read / sizeof *read; i++) piped |= is_stdin(read[i]);
    for (int t = 0; t < HGA_N_TABLES; t++) piped |= is_stdin(a->call.text[t]);
    if (p->edge_out) return complain(CLI_USAGE, "--edge-out: is of one process");
    return piped ? complain(CLI_USAGE, "-: ranks read tensors from files, each what it needs") : CLI_GOOD;
}

/* ---- the plan ---- */

static hga_binding binding_of(gradient_of of)
{
    return of == GRADIENT_QUERY ? HGA_IO_QUERY : of == GRADIENT_KEY ? HGA_IO_KEY : HGA_IO_VALUE;
}

static int check_gradients(const shared_call *c)
{
    MUST(gradients_check_inputs(&c->gradients, &c->model, &c->io));
    for (gradient_of i = GRADIENT_QUERY; i <= GRADIENT_VALUE; i++)
        if (c->typed->gradients.requested[i] && !hga_program_field(&c->model.program, binding_of(i)))
            return complain(CLI_USAGE, "%s: has no such tensor, of which ranks would have rows: '%s'", c->model.title,
                            c->typed->gradients.requested[i]);
    return CLI_GOOD;
}

/* Reads the sizes of tensors, builds the model and checks all of it before any rank reads its rows. */
static int prepare(shared_call *c)
{
    const typed_attend *a = c->typed;
    attend_io *io = &c->io;
    MUST(check_typed(a));
    MUST(attend_io_read(&a->tensors.paths, &a->call, a->tensors.layout, tensor_file_read_sizes, io));
    model_tensors tensors = attend_io_tensors(io);
    MUST(model_build(&a->variant, &tensors, &c->model));
    if (c->model.tree_heads > 1)
        return complain(CLI_USAGE, "%s: has a tree for each head, which one process computes", c->model.title);
    MUST(call_put(&a->call, &c->model));
    MUST(attend_io_bind_inputs(&a->tensors.paths, &a->call, &c->model, io));
    MUST(gradients_bind_dropout(&a->gradients, &c->model, io));
    MUST(ordered_open(&c->model, &io->shape, &io->io, NULL, &c->tables));
    MUST(gradients_open(&a->gradients, io, tensor_file_read_sizes, &c->gradients));
    if (a->gradients.out) MUST(check_gradients(c));
    if (world_speaks() && !a->tensors.quiet) tensor_file_say(&io->query);
    if (world_speaks() && !a->tensors.quiet) MUST(ordered_say(&c->model));
    if (world_speaks() && a->node_map) MUST(outfile_open(a->node_map, &c->file[TO_NODE_MAP]));
    if (world_speaks() && a->node_map) MUST(node_ids_put(&c->model.map, c->model.graph, &c->file[TO_NODE_MAP]));
    return CLI_GOOD;
}

/* Makes the plan of this rank. */
static int make_plan(shared_call *c)
{
    hga_options options = c->typed->options;
    options.gradient = c->typed->gradients.out != NULL;
    return rank_plan_make(&c->model, &c->io.shape, &options, world_exchange(), &c->plan, &c->workspace);
}

/* ---- the tensors ---- */

/* Copies the rank's rows of the gradients of log-sum-exps, sample by sample. */
static int take_lse_rows(shared_call *c)
{
    const tensor_file *all = &c->gradients.out;
    float *mine, *from = c->gradients.lse.real;
    int64_t n = c->mine.of[RANK_OUT].rows * all->heads;
    if (!from) return CLI_GOOD;
    MUST(take(all->samples * n + 1, sizeof *mine, &mine));
    c->gradients.lse.real = mine;
    for (hga_id s = 0; s < all->samples; s++)
        for (int64_t i = 0; i < c->mine.of[RANK_OUT].n; i++) {
            const hga_interval *x = &c->mine.of[RANK_OUT].interval[i];
            int64_t first = ((int64_t)s * all->rows + x->first) * all->heads, many = (int64_t)x->n * all->heads;
            memcpy(mine, from + first, (size_t)many * sizeof *mine);
            mine += many;
        }
    free(from);
    return CLI_GOOD;
}

static int read_rows(const char *path, const row_list *rows, tensor_file *t)
{
    return rows->exists ? tensor_file_read_rows(path, rows->interval, rows->n, t) : CLI_GOOD;
}

/* Reads the rows that the plan says are this rank's, and allocates their results. */
static int read_tensors(shared_call *c)
{
    const attend_paths *paths = &c->typed->tensors.paths;
    attend_io *io = &c->io;
    const char *const path[] = {paths->query, paths->key, paths->value};
    tensor_file *const tensor[] = {&io->query, &io->key, &io->value};
    MUST(rank_rows_find(c->plan, &c->model, 1, &c->mine));
    for (int i = RANK_QUERY; i <= RANK_VALUE; i++) {
        c->rows[i] = tensor[i]->rows;
        MUST(read_rows(path[i], &c->mine.of[i], tensor[i]));
    }
    int64_t rows = io->query.samples * c->mine.of[RANK_OUT].rows * io->query.heads;
    MUST(take(rows * io->value.columns + 1, sizeof(float), &c->made[MADE_OUT]));
    if (paths->lse) MUST(take(rows + 1, sizeof(float), &c->made[MADE_LSE]));
    if (!c->typed->gradients.out) return CLI_GOOD;
    MUST(take_lse_rows(c));
    MUST(read_rows(c->typed->gradients.out, &c->mine.of[RANK_OUT], &c->gradients.out));
    return take(hga_plan_tape_bytes(c->plan), 1, &c->tape);
}

/* A rank without rows binds a tensor without rows. */
static hga_tensor rows_of_sample(const tensor_file *t, const row_list *rows, hga_id sample)
{
    static float nothing[1];
    if (!rows->exists) return (hga_tensor){0};
    float *data = t->array.real ? t->array.real + sample * t->array.count : nothing;
    return (hga_tensor){.data = data, .rows = rows->rows};
}

/* Binds one sample of the rank's rows. */
static void bind_sample(const shared_call *c, hga_id s, hga_io *io)
{
    const attend_io *a = &c->io;
    int64_t rows = c->mine.of[RANK_OUT].rows * a->query.heads;
    io->query = rows_of_sample(&a->query, &c->mine.of[RANK_QUERY], s);
    io->key = rows_of_sample(&a->key, &c->mine.of[RANK_KEY], s);
    io->value = rows_of_sample(&a->value, &c->mine.of[RANK_VALUE], s);
    io->out.data = c->made[MADE_OUT] + s * rows * a->value.columns;
    if (c->made[MADE_LSE]) io->lse.data = c->made[MADE_LSE] + s * rows;
    io->out.rows = io->lse.rows = c->mine.of[RANK_OUT].rows;
    io->tape = c->tape;
}

static int blame(const shared_call *c, hga_status st) { return world_agree(model_complain_of(st, &c->model)); }

/* Moves the call's tables to the order that it runs in; tensors are read and written in the user's. */
static int order_tables(const shared_call *c, hga_grad_io *grad, ordered_call *tables)
{
    hga_grad_io whole = *grad;
    whole.d_out.data = whole.d_lse.data = whole.d_query.data = whole.d_key.data = whole.d_value.data = NULL;
    MUST(ordered_open(&c->model, &c->io.shape, &c->io.io, &whole, tables));
    memcpy(grad->d_table, tables->grad.d_table, sizeof grad->d_table);
    return CLI_GOOD;
}

/* Runs one sample backward, on all ranks together. */
static int go_back(shared_call *c, const attend_io *one, hga_id sample)
{
    static float nothing[1];
    sample_gradients s = {0};
    ordered_call tables = {0};
    hga_grad_io grad;
    int status = CLI_GOOD;
    TRY(world_agree(gradients_open_sample(&c->model, &c->io, one, sample, &c->gradients, &s, &grad)));
    if (!c->gradients.out.array.real) grad.d_out.data = nothing;
    TRY(world_agree(order_tables(c, &grad, &tables)));
    TRY(blame(c, hga_plan_gradient(c->plan, c->workspace, &one->io, &grad)));
    ordered_return(&tables);
    gradients_add_sample(&c->model, &c->io, one, sample, &s, &c->gradients);
done:
    ordered_close(&tables);
    gradients_close_sample(&s);
    return status;
}

/* Runs the samples in order, forward and, if gradients are required, backward. */
static int execute(shared_call *c)
{
    for (hga_id s = 0; s < c->io.query.samples; s++) {
        attend_io one = c->io;
        one.io = c->tables.io;
        bind_sample(c, s, &one.io);
        MUST(blame(c, hga_plan_execute(c->plan, c->workspace, &one.io)));
        if (c->tape) MUST(go_back(c, &one, s));
    }
    return CLI_GOOD;
}

/* ---- the files ---- */

/* Calls `act` for each requested file, on all ranks; rank 0 alone has nodes' ids. */
static int each_file(shared_call *c, int (*act)(const char *path, outfile *file))
{
    for (int i = N_TARGETS - 1; i >= 0; i--)
        if (c->wish[i].path && i != TO_NODE_MAP) MUST(act(c->wish[i].path, &c->file[i]));
    return CLI_GOOD;
}

static int write_rows(shared_call *c, const tensor_file *like, hga_id rows, int64_t columns, const row_list *mine,
                      const float *data, outfile *to)
{
    return tensor_file_write_rows(to, like, rows, columns, tensors_out_type(&c->typed->tensors, &c->io.query),
                                  mine->interval, mine->n, world_rank() == 0, data);
}

/* Writes a rank's rows; the first rank writes what all ranks have. */
static int write_gradient(shared_call *c, gradient_of of)
{
    const npy *sum = &c->gradients.sum[of];
    const tensor_file *t = gradient_tensor(&c->io, of);
    outfile *to = &c->file[TO_GRADIENTS + of];
    if (t) return write_rows(c, t, c->rows[of], t->columns, &c->mine.of[of], sum->real, to);
    if (world_rank() > 0) return CLI_GOOD;
    return npy_write_as(to, tensors_out_type(&c->typed->tensors, &c->io.query), sum->real, sum->n_dims, sum->dim);
}

/* all files appear, or none */
static int write_files(shared_call *c)
{
    for (int i = 0; i < N_MADE; i++)
        if (c->made[i])
            MUST(world_agree(write_rows(c, &c->io.query, c->io.out_rows, attend_io_columns(&c->io, i),
                                        &c->mine.of[RANK_OUT], c->made[i], &c->file[TO_MADE + i])));
    for (gradient_of i = 0; i < N_GRADIENTS; i++)
        if (c->typed->gradients.requested[i]) MUST(world_agree(write_gradient(c, i)));
    MUST(each_file(c, flush_shared));
    MUST(keep_shared(NULL, &c->file[TO_NODE_MAP]));
    return each_file(c, keep_shared);
}

/* Frees all of the call, at whatever step it ended. */
static void clear(shared_call *c)
{
    hga_workspace_destroy(c->workspace);
    hga_plan_destroy(c->plan);
    for (int i = 0; i < N_TARGETS; i++) outfile_drop(&c->file[i]);
    rank_rows_clear(&c->mine);
    for (int i = 0; i < N_MADE; i++) free(c->made[i]);
    ordered_close(&c->tables);
    free(c->tape);
    gradients_clear(&c->gradients);
    attend_io_clear(&c->io);
    model_clear(&c->model);
}

/* Ranks agree after each step that one of them may fail in, so that none waits for another. */
int attend_ranks(const typed_attend *a)
{
    shared_call c = {.typed = a};
    int status = CLI_GOOD;
    attend_targets(a, c.wish);
    TRY(world_agree(prepare(&c)));
    TRY(each_file(&c, open_shared));
    TRY(make_plan(&c));
    TRY(world_agree(read_tensors(&c)));
    TRY(execute(&c));
    TRY(write_files(&c));
done:
    clear(&c);
    return status;
}
