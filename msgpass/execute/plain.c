/* plain.c: the plain executor: one row and head at a time, in double, as semantics/ defines every stage; and user
   functions. The fused functions must agree with it. */
#include "plan.h"
#include "regions.h"
#include "splits.h"
#include "stage_kernel.h"

/* ---- a workspace's floats as field_values ---- */

typedef struct floats {
    field_values as;
    const worker *w;
    const hga_stage *stage; /* that reads them */
} floats;

static hga_id head_of_field(const worker *w, hga_id f, hga_id head)
{
    return w->plan->fields.storage[f].heads == w->plan->shape.n_heads ? head : kv_head(&w->plan->shape, head);
}

static float *bound_row_at(const worker *w, hga_id storage, hga_id v, hga_id head)
{
    const bound_field *x = &w->workspace->field[storage];
    return bound_row(x, v) + head_of_field(w, storage % HGA_FIELD_SLOTS, head) * bound_head(x, v);
}

static float *lse_at(const worker *w, hga_id f, hga_id v, hga_id head)
{
    return bound_lse(&w->workspace->field[f], v) + head_of_field(w, f, head);
}

static const floats *floats_of(const field_values *of) { return (const floats *)(const void *)of; }

static const worker *worker_of(const field_values *of) { return floats_of(of)->w; }

static const double *read_bound(const field_values *from, hga_id f, hga_id v, hga_id head, double *buffer)
{
    const worker *w = worker_of(from);
    const float *row = bound_row_at(w, read_storage(w->plan, floats_of(from)->stage, f), v, head);
    for (hga_id c = 0; c < w->plan->fields.columns[f]; c++) buffer[c] = (double)row[c];
    return buffer;
}

static double read_lse(const field_values *from, hga_id f, hga_id v, hga_id head)
{
    return (double)*lse_at(worker_of(from), f, v, head);
}

static void write_bound(const field_values *to, hga_id f, hga_id v, hga_id head, const double *x)
{
    const worker *w = worker_of(to);
    float *row = bound_row_at(w, f, v, head);
    for (hga_id c = 0; c < w->plan->fields.columns[f]; c++) row[c] = (float)x[c];
}

static void write_bound_lse(const field_values *to, hga_id f, hga_id v, hga_id head, double lse)
{
    *lse_at(worker_of(to), f, v, head) = (float)lse;
}

static semantics semantics_of(const worker *w)
{
    const hga_plan *plan = w->plan;
    hga_id biased = call_has_edges(w->io) ? plan->bias_stage : -1;
    semantics m = semantics_of_call(&plan->program, plan->nodes, &plan->shape, w->io);
    m.position = plan->cache->lists.position, m.dropout = plan->options.dropout;
    m.biased = biased, m.first_edge = biased >= 0 ? plan->cache->lists.first_edge : NULL;
    return m;
}

/* ---- user functions ---- */

typedef struct end_fields {
    float *field[HGA_FIELD_SLOTS], *lse[HGA_FIELD_SLOTS];
} end_fields;

/* Node v with the fields in `shown` for its region: fields that the stage writes as stored, others as it reads them. */
static hga_end look_at(const worker *w, const hga_stage *s, const row_set *shown, hga_id v, hga_id head,
                       end_fields *fields)
{
    const hga_program *p = &w->plan->program;
    int region = program_region(&w->plan->nodes, v);
    for (hga_id f = 1; f <= p->n_fields; f++) {
        int is_there = shown[f] >> region & 1;
        hga_id storage = s->writes >> f & 1u ? f : read_storage(w->plan, s, f);
        fields->field[f] = is_there ? bound_row_at(w, storage, v, head) : NULL;
        fields->lse[f] = is_there && p->field[f].width == HGA_WIDTH_STATE ? lse_at(w, f, v, head) : NULL;
    }
    return (hga_end){v,
                     hga_graph_level(w->plan->graph, v),
                     w->plan->nodes.mass[v],
                     fields->field,
                     fields->lse,
                     w->plan->fields.columns};
}

static double score_of_edge(const stage_row *r, int64_t i)
{
    const hga_stage *s = r->stage;
    if (!s->query || !s->key || s->relation < 0) return 0;
    scored_edge x = edge_between(r->m, r->s, r->v, r->head, &r->edge[i], i,
                                 r->values->read(r->values, s->query, r->v, r->head, r->scratch.own),
                                 r->values->read(r->values, s->key, r->edge[i].src, r->head, r->scratch.source));
    return edge_score(r->m, &x);
}

/* Passes edges [first, end) of the row to an aggregate. */
static void feed(const worker *w, const stage_row *r, const hga_end *v, int64_t first, int64_t end, void *state)
{
    const stage_plan *sp = &w->plan->stage[r->s];
    const hga_udf *udf = &r->stage->udf;
    end_fields fields;
    udf->begin(state, v, r->head, udf->ctx);
    for (int64_t i = first; i < end; i++) {
        hga_edge e = {.position = sp->row_ptr ? sp->row_ptr[r->v] + i : -1,
                      .type = r->edge[i].type,
                      .weight = r->edge[i].weight,
                      .score = score_of_edge(r, i),
                      .source = look_at(w, r->stage, sp->shown.source, r->edge[i].src, r->head, &fields),
                      .destination = *v};
        udf->edge(state, &e, r->head, udf->ctx);
    }
}

/* Where aggregates can be merged, a row of many edges is split into several of cut_edges each. */
static void user_row(const worker *w, const stage_row *r)
{
    const program_shown *shown = &w->plan->stage[r->s].shown;
    const hga_udf *udf = &r->stage->udf;
    int64_t cut = udf->merge && r->n > w->plan->options.cut_edges ? w->plan->options.cut_edges : r->n;
    void *whole = w->plain.numbers, *split = (char *)w->plain.numbers + w->plain.bytes;
    end_fields fields;
    hga_end v = look_at(w, r->stage, shown->row, r->v, r->head, &fields);
    feed(w, r, &v, 0, cut, whole);
    for (int64_t at = cut; at < r->n; at += cut) {
        feed(w, r, &v, at, at + cut < r->n ? at + cut : r->n, split);
        udf->merge(whole, split, udf->ctx);
    }
    v = look_at(w, r->stage, shown->result, r->v, r->head, &fields);
    udf->finish(whole, &v, r->head, udf->ctx);
}

/* Writes the row's weighted sum of edge features. */
static void write_edge_out(const worker *w, const stage_row *r)
{
    const hga_id columns = w->io->edge_value.columns;
    float *to = edge_out_row(w, r->v, r->head);
    for (hga_id c = 0; c < columns; c++) to[c] = (float)row_add_features(r, c);
}

static void run_plain_row(const worker *w, stage_row *r)
{
    all_stage_semantics[r->kind].row(r);
    if (has_edge_out(w, r->s, r->v)) write_edge_out(w, r);
}

/* Sums over key/value heads run once for each of those; everything else once for each query head. The scratch holds the
   widest row. */
void plain_row(worker *w, const row_job *job)
{
    const hga_stage *s = &w->plan->program.stage[job->stage];
    const semantics m = semantics_of(w);
    const floats mine = {{read_bound, read_lse, write_bound, write_bound_lse}, w, s};
    edges_open(&w->plain.edges, w->plan->graph, &w->plan->memory.user, s->relation);
    edges_read(&w->plain.edges, job->v);
    stage_row r = {.m = &m,
                   .stage = s,
                   .kind = w->plan->stage[job->stage].kind,
                   .s = job->stage,
                   .v = job->v,
                   .edge = w->plain.edges.edge,
                   .n = w->plain.edges.n,
                   .values = &mine.as,
                   .was = &mine.as,
                   .scratch = w->plain.scratch};
    hga_id heads = w->plan->shape.n_heads,
           step = s->out && r.kind != KIND_USER ? heads / w->plan->fields.storage[s->out].heads : 1;
    for (r.head = 0; r.head < heads; r.head += step)
        if (r.kind == KIND_USER)
            user_row(w, &r);
        else
            run_plain_row(w, &r);
}
