/* race.c: peers compared with us. */
#include "race.h"

#include <math.h>
#include <stdlib.h>

#include "memory.h"
#include "numbers.h"
#include "rows.h"

int race_possible(const hga_graph *g, const hga_program *p)
{
    const hga_stage *s = score_stage(p);
    return s && s->relation >= 0 && !hga_graph_relation(g, s->relation).weighted;
}

/* every node is a query and a key, whatever the program does with coarse rows and merged states */
static hga_status write_program(hga_id relation, hga_program *p)
{
    static const struct {
        const char *name;
        hga_width width;
        hga_binding binding;
    } field[] = {{"query", HGA_WIDTH_KEY, HGA_IO_QUERY},
                 {"key", HGA_WIDTH_KV_KEY, HGA_IO_KEY},
                 {"value", HGA_WIDTH_VALUE, HGA_IO_VALUE},
                 {"out", HGA_WIDTH_STATE, HGA_IO_OUT}};
    hga_id f[4];
    hga_program_init(p);
    for (int i = 0; i < 4; i++) {
        hga_status st = hga_program_add_field(p, field[i].name, field[i].width, field[i].binding, HGA_ROWS_NODES,
                                              HGA_ROWS_NODES, &f[i]);
        if (st) return st;
    }
    return hga_program_attend(p, relation, f[0], f[1], f[2], f[3], 0);
}

static hga_status run_ours(const hga_graph *g, hga_id relation, const hga_options *options, const peer_job *j,
                           float *ours)
{
    hga_program p;
    hga_options exact = *options;
    hga_shape shape = {.n_heads = j->heads, .dim = j->dim};
    hga_io io = {.query = {.data = (void *)j->query, .rows = j->rows},
                 .key = {.data = (void *)j->key, .rows = j->rows},
                 .value = {.data = (void *)j->value, .rows = j->rows},
                 .out = {.data = ours, .rows = j->rows}};
    exact.precision = HGA_PRECISION_F32;
    hga_status st = write_program(relation, &p);
    return st ? st : hga_attention(g, &p, &shape, &exact, &io);
}

hga_status race_start(const hga_graph *g, const hga_program *p, const hga_shape *shape, const hga_options *options,
                      race *out)
{
    hga_id relation = score_stage(p)->relation, rows = hga_graph_nodes(g).n;
    int64_t count = (int64_t)rows * shape->n_heads * shape->dim;
    hga_status st = HGA_OK;
    *out = (race){.job = {.rows = rows, .heads = shape->n_heads, .dim = shape->dim, .threads = options->threads}};
    HGA_TRY(bench_new(5 * count, sizeof *out->memory, &out->memory));
    numbers_fill(5, 1.0f, 3 * count, out->memory);
    HGA_TRY(hga_graph_rows(g, relation, 0, rows, &out->edges));
    peer_job *j = &out->job;
    j->edges = &out->edges;
    j->query = out->memory, j->key = j->query + count, j->value = j->key + count;
    j->out = out->memory + 4 * count;
    j->scale = 1 / sqrtf((float)shape->dim);
    out->ours = out->memory + 3 * count;
    HGA_TRY(run_ours(g, relation, options, j, out->memory + 3 * count));
done:
    return st;
}

static double distance(const race *r)
{
    const peer_job *j = &r->job;
    double most = 0;
    for (int64_t i = 0; i < (int64_t)j->rows * j->heads * j->dim; i++) {
        double d = fabs((double)j->out[i] - (double)r->ours[i]);
        if (!(d <= most)) most = d; /* a NaN stays */
    }
    return most;
}

hga_status race_run(const race *r, const peer *p, const bench_rules *rules, bench_measurement *out, double *far)
{
    const peer_job *j = &r->job;
    void *state = NULL;
    hga_status st = HGA_OK;
    *out = (bench_measurement){.threads = j->threads};
    out->cost.edges = (double)j->edges->ptr[j->rows];
    out->cost.flops = 4.0 * j->dim * j->heads * out->cost.edges;
    out->cost.bytes_min = 16.0 * j->rows * j->heads * j->dim;
    HGA_TRY(p->start(j, &state));
    HGA_TRY(bench_repeat(p->run, state, rules, j->threads, &out->time));
    *far = distance(r);
done:
    p->stop(state);
    return st;
}

void race_clear(race *r)
{
    hga_csr_clear(&r->edges);
    free(r->memory);
    *r = (race){0};
}
