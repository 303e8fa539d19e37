/* Tutorial: from a graph to a gradient and a picture, in C

Read this file from top to bottom; it takes ten minutes. It is a whole program. Where hga is installed, compile it with
`cc -std=c11 tutorial.c $(pkg-config --cflags --libs hga) -lm` and run it: it tells what it finds, and writes a picture
and a file that the tool reads. Every step checks itself. */
#include <hga.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N = 60, EACH = 8, SECTIONS = (N + EACH - 1) / EACH, HEADS = 2, DIM = 16 };

/* ## 1. A graph

A hierarchy is a graph whose nodes stand in levels. Level 0 are the tokens. A node above stands for several tokens; the
number of tokens it stands for is its *mass*. A *relation* is a set of directed edges, from the node that is seen (the
source) to the node that sees (the destination).

Ours has two levels: 60 tokens, and sections of 8 tokens each. The last section has 4: any length works without padding.
A token shall attend to the tokens of its own section one by one, and to every other section as a whole.

Edges that make a rectangle are one *block*: rows `first .. first + size - 1` see the given columns. Blocks are stored
as they are, so a regular graph of a million tokens takes megabytes, not gigabytes.

A builder belongs to you until `hga_builder_destroy`. Each call returns a status. `HGA_TRY` leaves the function through
`done:` when a call fails, so a function reads as if nothing could. */
static hga_status build_graph(hga_graph **g, hga_id *near)
{
    hga_status st;
    hga_builder *b = NULL;
    hga_id section;
    HGA_TRY(hga_builder_create(NULL, &b));
    HGA_TRY(hga_builder_add_level(b, N, NULL));
    HGA_TRY(hga_builder_add_level(b, SECTIONS, &section));
    HGA_TRY(hga_builder_set_families(b, section, 0, N, EACH));
    HGA_TRY(hga_builder_add_relation(b, "near", near));
    for (hga_id s = 0; s < SECTIONS; s++) {
        hga_id first = s * EACH, size = first + EACH < N ? EACH : N - first;
        HGA_TRY(hga_builder_add_block(b, *near, first, size, first, size, 0));
        HGA_TRY(hga_builder_add_block(b, *near, first, size, section, s, 0));
        HGA_TRY(hga_builder_add_block(b, *near, first, size, section + s + 1, SECTIONS - s - 1, 0));
    }
    HGA_TRY(hga_builder_finish(b, g));
done:
    hga_builder_destroy(b);
    return st;
}

/* ## 2. A program

The graph says who sees whom. A *program* says what is computed. It has *fields*, the values that nodes hold, and
*stages*, one message-passing step each.

The caller gives queries, keys and values of the tokens. Keys and values exist on all nodes; `coarsen` makes those of a
section, the mean of its tokens. Then one stage attends: one softmax over all that a token sees. The last argument, 1,
says *by mass*: a section of 8 tokens counts as 8 tokens. */
static hga_status write_program(hga_program *p, hga_id near)
{
    hga_status st;
    hga_id query, key, value, out;
    hga_program_init(p);
    HGA_TRY(hga_program_add_field(p, "query", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES, &query));
    HGA_TRY(hga_program_add_field(p, "key", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_NODES, &key));
    HGA_TRY(hga_program_add_field(p, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_NODES, &value));
    HGA_TRY(hga_program_add_field(p, "out", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES, &out));
    HGA_TRY(hga_program_coarsen(p, key));
    HGA_TRY(hga_program_coarsen(p, value));
    HGA_TRY(hga_program_attend(p, near, query, key, value, out, 1));
done:
    return st;
}

/* ## 3. Does it do what we meant?

The library answers by counting: for every pair of tokens, how often does the first see the second, directly or through
a section? We want once, for all 60 x 60. */
static hga_status check(const hga_graph *g, const hga_program *p, int *right)
{
    hga_status st;
    hga_coverage seen;
    HGA_TRY(hga_program_coverage(p, g, 0, &seen));
    printf("%lld pairs of tokens: %lld seen once, %lld never, %lld more often\n", (long long)seen.pairs,
           (long long)seen.once, (long long)seen.none, (long long)seen.more);
    *right = seen.once == (int64_t)N * N;
done:
    return st;
}

/* ## 4. Attention

Tensors are yours: `[rows][heads][dim]` here, but any strides work. The library reads and writes them where they are. */
static float q[N][HEADS][DIM], k[N][HEADS][DIM], v[N][HEADS][DIM], out[N][HEADS][DIM];
static float d_out[N][HEADS][DIM], d_query[N][HEADS][DIM], d_key[N][HEADS][DIM], d_value[N][HEADS][DIM];

/* Numbers that look drawn and are the same on every machine. */
static void fill(float x[N][HEADS][DIM], double step)
{
    for (int i = 0; i < N * HEADS * DIM; i++) (&x[0][0][0])[i] = (float)sin(step * (i + 1) * (i % 7 + 1));
}

static hga_io tensors(void)
{
    return (hga_io){.query = {.data = q, .rows = N},
                    .key = {.data = k, .rows = N},
                    .value = {.data = v, .rows = N},
                    .out = {.data = out, .rows = N}};
}

/* A *plan* checks the program against the graph and chooses kernels; make it once. A *workspace* is the memory of one
execution at a time; make one for each thread that executes. Then executions allocate nothing.

For a gradient the plan is made with `gradient`, and an execution leaves a *tape*, which you allocate. The backward pass
gets the gradient of your loss with respect to the output, and gives those with respect to what was read. Our loss is
the sum of squares of the output, so the first is twice the output. */
static hga_status forward_and_backward(const hga_plan *plan, hga_workspace *workspace)
{
    hga_status st;
    hga_io io = tensors();
    io.tape = malloc((size_t)hga_plan_tape_bytes(plan));
    HGA_TRY(hga_plan_execute(plan, workspace, &io));
    for (int i = 0; i < N * HEADS * DIM; i++) (&d_out[0][0][0])[i] = 2 * (&out[0][0][0])[i];
    hga_grad_io grad = {.d_out = {.data = d_out, .rows = N},
                        .d_query = {.data = d_query, .rows = N},
                        .d_key = {.data = d_key, .rows = N},
                        .d_value = {.data = d_value, .rows = N}};
    HGA_TRY(hga_plan_gradient(plan, workspace, &io, &grad));
done:
    free(io.tape);
    return st;
}

static double loss(void)
{
    double sum = 0;
    for (int i = 0; i < N * HEADS * DIM; i++) sum += pow((double)(&out[0][0][0])[i], 2);
    return sum;
}

/* ## 5. Is the gradient right?

A gradient is right when it is a slope. Move one value a little up and a little down, and compare the change of the loss
with what the gradient promised. */
static hga_status check_gradient(const hga_plan *plan, hga_workspace *workspace, int *right)
{
    hga_status st;
    hga_io io = tensors();
    float was = v[20][1][3], step = 0.05F;
    v[20][1][3] = was + step;
    HGA_TRY(hga_plan_execute(plan, workspace, &io));
    double up = loss();
    v[20][1][3] = was - step;
    HGA_TRY(hga_plan_execute(plan, workspace, &io));
    double slope = (up - loss()) / (2 * (double)step), gradient = (double)d_value[20][1][3];
    v[20][1][3] = was;
    printf("the gradient of one value %.4f, the slope of the loss %.4f\n", gradient, slope);
    *right = fabs(slope - gradient) < 1e-3;
done:
    return st;
}

/* ## 6. A step downhill

One step of gradient descent on the values makes the loss smaller. */
static hga_status learn(const hga_plan *plan, hga_workspace *workspace, int *right)
{
    hga_status st;
    hga_io io = tensors();
    HGA_TRY(hga_plan_execute(plan, workspace, &io));
    double before = loss();
    for (int i = 0; i < N * HEADS * DIM; i++) (&v[0][0][0])[i] -= 0.1F * (&d_value[0][0][0])[i];
    HGA_TRY(hga_plan_execute(plan, workspace, &io));
    printf("loss %.3f, after a step %.3f\n", before, loss());
    *right = loss() < before;
done:
    return st;
}

/* ## 7. A picture

The matrix of attention weights is never stored, but you may ask for a row of it. Sixty rows make a picture: queries
down, keys across, dark where the weight is large. A section's weight is spread evenly among its tokens. PGM is the
simplest picture format there is; most viewers open it. */
static hga_status draw(const hga_graph *g, const hga_program *p, const hga_shape *shape, const char *path)
{
    enum { PIXELS = 8 };
    hga_status st = HGA_OK;
    double weight[N];
    hga_io io = tensors();
    FILE *f = fopen(path, "wb");
    if (!f) return hga_fail(HGA_EIO, "cannot write %s", path);
    fprintf(f, "P5 %d %d 255\n", N * PIXELS, N * PIXELS);
    for (hga_id token = 0; token < N; token++) {
        HGA_TRY(hga_program_weights(p, g, shape, &io, token, 0, NULL, NULL, weight));
        for (int y = 0; y < PIXELS; y++)
            for (int x = 0; x < N * PIXELS; x++) fputc(255 - (int)fmin(255, 255 * sqrt(weight[x / PIXELS])), f);
    }
done:
    if (fclose(f) && !st) st = hga_fail(HGA_EIO, "cannot write %s", path);
    return st;
}

/* ## All of it

`hga_program_write_file` keeps graph and program in one JSON file. Look at it with the tool:
`hga view tutorial.json -o tutorial.html`; run it with `hga attend graph=tutorial.json ..`, or from Python with
`hga.read("tutorial.json")`. */
int main(void)
{
    hga_status st;
    hga_graph *g = NULL;
    hga_plan *plan = NULL;
    hga_workspace *workspace = NULL;
    hga_program program;
    hga_id near;
    hga_shape shape = {.n_heads = HEADS, .dim = DIM};
    hga_options options = {.gradient = 1};
    int covered = 0, is_slope = 0, smaller = 0;
    fill(q, 0.7), fill(k, 1.3), fill(v, 2.1);
    HGA_TRY(build_graph(&g, &near));
    HGA_TRY(write_program(&program, near));
    HGA_TRY(check(g, &program, &covered));
    HGA_TRY(hga_plan_create(g, &program, &shape, &options, &plan));
    HGA_TRY(hga_workspace_create(plan, &workspace));
    HGA_TRY(forward_and_backward(plan, workspace));
    HGA_TRY(check_gradient(plan, workspace, &is_slope));
    HGA_TRY(learn(plan, workspace, &smaller));
    HGA_TRY(draw(g, &program, &shape, "tutorial.pgm"));
    HGA_TRY(hga_program_write_file(&program, g, "tutorial.json"));
    printf("see tutorial.pgm and tutorial.json\n");
done:
    if (st) fprintf(stderr, "%s: %s\n", hga_status_name(st), hga_error_detail());
    hga_workspace_destroy(workspace);
    hga_plan_destroy(plan);
    hga_graph_destroy(g);
    return st || !covered || !is_slope || !smaller;
}

/* ## Where to go from here

[How to ..](../docs/howto-c.md) has a short program for each task: batches, texts of different lengths, 16 bits,
dropout, threads, servers. [adding-a-variant.md](../docs/adding-a-variant.md) makes a published hierarchy from an empty
file. The headers are meant to be read as they are. */
