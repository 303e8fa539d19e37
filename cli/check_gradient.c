/* check_gradient.c: hga check --gradient. Compares the gradients that the library defines in double with central
   differences of its loss in double; and the engine's with those. */
#include "attend.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numbers.h"
#include "table.h"
#include "variant.h"

/* Errors are relative to the input's largest gradient, but at least to this share of the largest of all: differences
   in double have fewer digits of what is smaller, and what cancels leaves the engine's rounding, in float32. */
static const double least_plain = 1e-6, least_engine = 0.01;
static const double most_plain = 1e-5, most_engine = 1e-4;

/* Inputs are numbered as gradients are. */
enum { RANDOM_TOKENS = 24, RANDOM_HEADS = 2, RANDOM_DIM = 4, POS_DIM = 2 };

/* A problem, and its gradients in two ways. */
typedef struct trial {
    model m;
    attend_io all, files; /* files are of the heads that choose together; of most variants all */
    head_part part;
    hga_shape shape;
    hga_io io;
    hga_plan *plain, *engine;
    float *owned[8 + HGA_N_TABLES], *d_out, *d_lse;
    int n_owned;
    float *by_plain[N_GRADIENTS], *by_engine[N_GRADIENTS];
    int64_t n[N_GRADIENTS];
} trial;

/* ---- tensors ---- */

/* n random numbers, owned by the trial. */
static int random_floats(trial *t, int64_t seed, int64_t n, float **out)
{
    MUST(take(n, sizeof **out, out));
    t->owned[t->n_owned] = *out;
    numbers_fill((uint64_t)seed + 1000003u * (uint64_t)++t->n_owned, 1, n, *out);
    return CLI_GOOD;
}

/* A random tensor of the rows that the program has for a binding; none if it has no rows. */
static int random_tensor(trial *t, int64_t seed, hga_binding binding, hga_id heads, hga_tensor *x)
{
    hga_id first, n = 0;
    float *data;
    MUST(complain_of(hga_program_rows(&t->m.program, t->m.graph, hga_program_field(&t->m.program, binding), &first, &n),
                     CLI_USAGE, t->m.title));
    x->rows = n;
    if (n == 0) return CLI_GOOD;
    MUST(random_floats(t, seed, (int64_t)n * heads * t->shape.dim, &data));
    x->data = data;
    return CLI_GOOD;
}

/* The rows of a random table: by type, by type of scores where there are several, by node; 0: none is needed. */
static hga_id random_rows(const trial *t, const hga_call_row *row)
{
    hga_id types = call_types(&t->m, row);
    if (row->is & (HGA_CALL_IS_REFUSED | HGA_CALL_OF_GRAPH | HGA_CALL_IS_PLAIN) || types == 0) return 0;
    if (row->rows == HGA_EXTENT_NODES) return hga_graph_nodes(t->m.graph).n;
    return row->rows == HGA_EXTENT_TYPES && (types > 1 || row->is & HGA_CALL_NEEDS_SUMS) ? types : 0;
}

/* Fills each table that the program can have and the user has not named with random numbers. */
static int random_tables(trial *t, int64_t seed)
{
    if (!t->shape.pos_dim) t->shape.pos_dim = POS_DIM;
    for (hga_call_table i = 0; i < HGA_N_TABLES; i++) {
        hga_id rows = t->io.table[i].data ? 0 : random_rows(t, &hga_call_tables()[i]);
        float *x;
        if (!rows) continue;
        t->io.table[i].rows = rows;
        MUST(random_floats(t, seed, call_entries(&t->m, &t->shape, &t->io, i), &x));
        t->io.table[i].data = x;
    }
    return CLI_GOOD;
}

/* Does an argument determine how many tokens there are? */
static int tells_tokens(const typed_variant *typed)
{
    static const char *const telling[] = {"tokens=", "parent=", "query-leaf=", "query-segment=", "shape="};
    int is_typed = typed->tokens || strncmp(typed->name, "graph=", 6) == 0;
    for (int i = 0; i < typed->n; i++)
        for (size_t j = 0; j < sizeof telling / sizeof telling[0]; j++)
            is_typed |= strncmp(typed->setting[i], telling[j], strlen(telling[j])) == 0;
    return is_typed;
}

/* The random tensors of a variant, and whether it is built by them: routed is, and trees of hyperplanes are. */
typedef struct random_shape {
    hga_id heads, dim;
    int builds;
} random_shape;

/* As many heads as k has numbers, or trees; as many columns as hyperplanes have; else a few. */
static int find_shape(const typed_variant *typed, random_shape *x)
{
    settings s = {0};
    const hga_variant *v = hga_variant_named(typed->name);
    *x = (random_shape){RANDOM_HEADS, RANDOM_DIM, routed_is(typed)};
    if (!x->builds && !(v && v->can & HGA_NEEDS_LEAVES)) return CLI_GOOD;
    MUST(variant_settings(typed, &s, &v));
    const npy *k = setting_array(&s, "k"), *planes = setting_array(&s, "weights");
    if (k && k->count >= 1 && k->count <= MAX_HEADS) x->heads = (hga_id)k->count;
    if (planes && planes->n_dims >= 2 && planes->dim[planes->n_dims - 1] <= MAX_DIM) {
        x->dim = (hga_id)planes->dim[planes->n_dims - 1], x->builds = 1;
        if (planes->n_dims == 3 && planes->dim[0] <= MAX_HEADS) x->heads = (hga_id)planes->dim[0];
    }
    settings_clear(&s);
    return CLI_GOOD;
}

/* Random heads choose blocks together, the first of so many choosers, or leaves; their choice then stays. */
static int build_chosen(const typed_variant *typed, int64_t seed, const random_shape *as, hga_id choosers, trial *t)
{
    const choosing together = {.choosers = choosers};
    char name[] = "random tensors";
    npy x[2];
    settings s = {0};
    const hga_variant *v;
    hga_id n = 0;
    int status = CLI_GOOD;
    TRY(variant_settings(typed, &s, &v));
    if (setting_array(&s, "tokens")) TRY(complain(CLI_USAGE, "tokens: one sample is needed here"));
    n = setting_id(&s, "tokens");
    for (int i = 0; i < 2; i++) {
        x[i] =
            (npy){.n_dims = 3, .dim = {n, as->heads, as->dim}, .count = (int64_t)n * as->heads * as->dim, .path = name};
        TRY(random_floats(t, seed, x[i].count, &x[i].real));
    }
    const model_tensors tensors = {&x[0], &x[1], as->heads, as->heads, as->dim, &together, {0}};
    TRY(model_build(typed, &tensors, &t->m));
done:
    settings_clear(&s);
    return status;
}

/* Builds the variant with random tensors and tables, small unless an argument determines the tokens. */
static int open_random(const gradient_check *c, trial *t)
{
    typed_variant typed = *c->typed;
    char tokens[16];
    snprintf(tokens, sizeof tokens, "%d", (int)RANDOM_TOKENS);
    if (!tells_tokens(&typed)) typed.tokens = tokens;
    random_shape as;
    hga_id choosers;
    MUST(find_shape(&typed, &as));
    MUST(routed_choosers(&typed, as.heads, as.heads, &choosers));
    as.heads /= choosers;
    MUST(as.builds ? build_chosen(&typed, c->seed, &as, choosers, t) : model_build(&typed, NULL, &t->m));
    MUST(call_put(c->call, &t->m));
    hga_id heads = t->m.tree_heads > 1 ? 1 : as.heads;
    t->shape = (hga_shape){.n_heads = heads, .n_kv_heads = heads, .dim = as.dim, .dim_v = as.dim};
    MUST(random_tensor(t, c->seed, HGA_IO_QUERY, heads, &t->io.query));
    MUST(random_tensor(t, c->seed, HGA_IO_KEY, heads, &t->io.key));
    MUST(random_tensor(t, c->seed, HGA_IO_VALUE, heads, &t->io.value));
    MUST(random_tensor(t, c->seed, HGA_IO_OUT, heads, &t->io.out));
    if (t->m.alpha) t->io.type_scale.data = t->m.alpha, t->io.type_scale.rows = t->m.n_alpha;
    MUST(call_files_bind(c->call, &t->m, &t->shape, &t->files.tables, &t->io));
    return random_tables(t, c->seed);
}

/* Builds the case of the user's tensors; of heads that choose for themselves the first part alone. */
static int open_files(const gradient_check *c, trial *t)
{
    choosing first = {0};
    MUST(attend_io_read(&c->paths, c->call, LAYOUT_NHD, tensor_file_read_one, &t->all));
    MUST(routed_choosers(c->typed, t->all.query.heads, t->all.key.heads, &first.choosers));
    t->part = part_of(&t->all, 0, first.choosers);
    MUST(attend_io_part(&t->all, 0, &t->part, &t->files));
    model_tensors tensors = attend_io_tensors(&t->files);
    if (routed_is(c->typed)) tensors.choosing = &first;
    MUST(model_build(c->typed, &tensors, &t->m));
    MUST(call_put(c->call, &t->m));
    MUST(attend_io_bind(&c->paths, c->call, &t->m, &t->files));
    t->shape = t->files.shape, t->io = t->files.io;
    return CLI_GOOD;
}

static void clear(trial *t)
{
    for (int i = 0; i < N_GRADIENTS; i++) free(t->by_plain[i]), free(t->by_engine[i]);
    for (int i = 0; i < t->n_owned; i++) free(t->owned[i]);
    hga_plan_destroy(t->plain);
    hga_plan_destroy(t->engine);
    if (t->part.n)
        attend_io_part_clear(&t->all, &t->files);
    else
        attend_io_clear(&t->files);
    attend_io_clear(&t->all);
    model_clear(&t->m);
}

/* ---- gradients ---- */

/* Entries of a table that has a gradient: the call's, or else the program's or the graph's. */
static int64_t table_count(const trial *t, hga_call_table which)
{
    const hga_call_row *row = &hga_call_tables()[which];
    int there = t->io.table[which].data || row->member || row->is & HGA_CALL_OF_GRAPH;
    int scored = !(row->is & HGA_CALL_NEEDS_SCORES) || score_stage(&t->m.program);
    return row->is & HGA_CALL_GRADIENT && there && scored ? call_entries(&t->m, &t->shape, &t->io, which) : 0;
}

/* How many numbers an input has in this case; 0: there is no such input. */
static int64_t input_count(const trial *t, gradient_of of)
{
    const hga_io *io = &t->io;
    int64_t heads = t->shape.n_heads, kv = t->shape.n_kv_heads;
    switch (of) {
    case GRADIENT_QUERY: return io->query.data ? io->query.rows * heads * t->shape.dim : 0;
    case GRADIENT_KEY: return io->key.data ? io->key.rows * kv * t->shape.dim : 0;
    case GRADIENT_VALUE: return io->value.data ? io->value.rows * kv * t->shape.dim_v : 0;
    default: return table_count(t, of - GRADIENT_TABLE);
    }
}

static hga_grad_io bind(const trial *t, float *const of[N_GRADIENTS])
{
    return gradients_bind(&t->io, t->d_out, t->d_lse, of);
}

/* Runs forward and backward by a plan that is made here and returned. */
static int go_back(const gradient_check *c, trial *t, int generic, hga_plan **plan, float *of[N_GRADIENTS])
{
    hga_options options = {.generic = generic};
    for (int i = 0; i < N_GRADIENTS; i++) MUST(take(t->n[i], sizeof(float), &of[i]));
    hga_grad_io grad = bind(t, of);
    call_plan(c->call, &options);
    return gradients_execute(&t->m, options, &t->shape, &t->io, &grad, plan);
}

/* ---- differences ---- */

/* The slope of the loss along an entry, by five points at distance h. */
static int slope(const trial *t, gradient_of of, int64_t entry, double h, double *out)
{
    static const double weight[] = {1, -8, 0, 8, -1};
    const unsigned input = gradient_row(of) ? HGA_GRADIENT_TABLE + (of - GRADIENT_TABLE) : HGA_GRADIENT_QUERY + of;
    hga_grad_io grad = bind(t, (float *const[N_GRADIENTS]){NULL});
    *out = 0;
    for (int k = 0; k < 5; k++) {
        double loss;
        if (weight[k] == 0) continue;
        MUST(complain_of(hga_plan_loss(t->plain, &t->io, &grad, (hga_gradient_input)input, entry, (k - 2) * h, &loss),
                         CLI_USAGE, t->m.title));
        *out += weight[k] * loss / (12 * h);
    }
    return CLI_GOOD;
}

/* The difference of an entry's gradient from the slope, relative to `size`. Points may lie on both sides of a kink,
   which closer ones do not: these are tried if the others find an error. */
static int compare(const trial *t, gradient_of input, int64_t entry, double size, double *difference, double *error)
{
    static const double steps[] = {1e-3, 1e-5};
    *error = INFINITY;
    for (size_t i = 0; i < sizeof steps / sizeof *steps && !(*error <= most_plain); i++) {
        double x;
        MUST(slope(t, input, entry, steps[i], &x));
        double is = fabs(x - (double)t->by_plain[input][entry]) / size;
        if (i == 0 || is < *error) *error = is, *difference = x;
    }
    return CLI_GOOD;
}

static double largest(const float *x, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs((double)x[i]));
    return most;
}

/* How many entries of an input are tried: all of few, fewer of a large problem. */
static int64_t entries_to_try(const trial *t, int64_t n)
{
    double edges = 1;
    for (hga_id s = 0; s < t->m.program.n_stages; s++)
        if (t->m.program.stage[s].relation >= 0)
            edges += (double)hga_graph_relation(t->m.graph, t->m.program.stage[s].relation).n_edges;
    double most = fmin(64, fmax(4, 1e7 / (edges * t->shape.n_heads)));
    return n < (int64_t)most ? n : (int64_t)most;
}

/* Compares one input: differences of some entries, the engine on all. Appends a row of the table, and whether it
   passes. `all`: the largest gradient of all inputs. */
static int try_input(const trial *t, gradient_of input, double all, int64_t seed, json_t *rows, int *pass)
{
    const float *plain = t->by_plain[input], *engine = t->by_engine[input];
    int64_t n = t->n[input], tries = entries_to_try(t, n), worst = 0;
    const double own = largest(plain, n), size = fmax(fmax(own, all * least_plain), DBL_MIN);
    const double rounded = fmax(fmax(own, all * least_engine), DBL_MIN);
    double most = -1, expected = 0, off_engine = 0;
    for (int64_t i = 0; i < tries; i++) {
        int64_t entry = tries == n ? i : (int64_t)(number_bits((uint64_t)seed + 77u, (uint64_t)i) % (uint64_t)n);
        double difference, error;
        MUST(compare(t, input, entry, size, &difference, &error));
        if (!(error <= most)) most = error, worst = entry, expected = difference;
    }
    for (int64_t i = 0; i < n; i++) {
        double error = fabs((double)plain[i] - (double)engine[i]) / rounded;
        if (!(error <= off_engine)) off_engine = error;
    }
    if (!isfinite(most) || !isfinite(expected) || !isfinite(off_engine) || !isfinite(plain[worst]))
        return complain(CLI_FAILED, "check: the gradient of %s is not finite", gradient_name(input));
    *pass &= most <= most_plain && off_engine <= most_engine;
    json_t *row = json_pack("{s:s, s:I, s:I, s:f, s:I, s:f, s:f, s:f}", "input", gradient_name(input), "entries",
                            (json_int_t)n, "compared", (json_int_t)tries, "error", most, "worst", (json_int_t)worst,
                            "gradient", (double)plain[worst], "difference", expected, "engine", off_engine);
    return row_append(rows, row);
}

static int try_all(const trial *t, int64_t seed, json_t *rows, int *pass)
{
    double all = 0;
    for (int i = 0; i < N_GRADIENTS; i++) all = fmax(all, largest(t->by_plain[i], t->n[i]));
    for (gradient_of i = 0; i < N_GRADIENTS; i++)
        if (t->n[i]) MUST(try_input(t, i, all, seed, rows, pass));
    return CLI_GOOD;
}

/* ---- the command ---- */

/* Shows the table of errors and the verdict, or JSON. */
static int show(const gradient_check *c, const trial *t, json_t *rows, int pass)
{
    static const column columns[] = {{"input", "input", NULL, 0},
                                     {"entries", "entries", NULL, 0},
                                     {"compared", "compared", NULL, 0},
                                     {"error", "largest error", "%.1e", 0},
                                     {"worst", "at entry", NULL, 0},
                                     {"gradient", "gradient", "%.9g", 0},
                                     {"difference", "difference", "%.9g", 0},
                                     {"engine", "engine's error", "%.1e", 0},
                                     {0}};
    if (c->json)
        return json_print(stdout, json_pack("{s:s, s:b, s:O}", "variant", t->m.title, "pass", pass, "inputs", rows));
    printf("%s: gradients against differences of the loss in double%s\n", t->m.title,
           c->paths.query ? "" : ", random tensors");
    MUST(table_print(stdout, rows, columns));
    printf("gradient   %s  errors relative to the largest gradient of the input; at most %.0e, the engine's %.0e\n"
           "                 (of an input whose gradients are small: to %.0e, the engine's to %.0e, of the largest "
           "of all)\n",
           pass ? "pass" : "fail", most_plain, most_engine, least_plain, least_engine);
    return CLI_GOOD;
}

int check_gradient(const gradient_check *c)
{
    trial t = {0};
    json_t *rows = json_array();
    int status = CLI_GOOD, pass = 1;
    if (!c->typed->name) TRY(complain(CLI_USAGE, "--gradient: needs a VARIANT; a file is one as graph=FILE"));
    int files = (c->paths.query != NULL) + (c->paths.key != NULL) + (c->paths.value != NULL);
    if (files % 3) TRY(complain(CLI_USAGE, "--query, --key and --value go together"));
    TRY(files ? open_files(c, &t) : open_random(c, &t));
    int64_t out = t.io.out.rows * t.shape.n_heads;
    TRY(random_floats(&t, c->seed, out * t.shape.dim_v, &t.d_out));
    if (t.m.program.has_lse) TRY(random_floats(&t, c->seed, out, &t.d_lse));
    for (gradient_of i = 0; i < N_GRADIENTS; i++) t.n[i] = input_count(&t, i);
    TRY(go_back(c, &t, 1, &t.plain, t.by_plain));
    TRY(go_back(c, &t, 0, &t.engine, t.by_engine));
    TRY(try_all(&t, c->seed, rows, &pass));
    TRY(show(c, &t, rows, pass));
    status = pass ? CLI_GOOD : CLI_FAILED;
done:
    json_decref(rows);
    clear(&t);
    return status;
}
