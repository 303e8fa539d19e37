/* fast_clear.c: gradients start at zero. The first thread that adds to them clears them; where the first one writes,
   they are not cleared. */
#include "carve.h"
#include "fast_pass.h"

#include <math.h>
#include <string.h>

/* Do threads divide the field's rows in another order than they have in memory? Then two threads may reach the same
   chunk of rows first. */
static int threads_meet(const fast_pass *p, hga_id f)
{
    int meet = 0;
    for (hga_id s = 0; p->team.n > 1 && s < p->program->n_stages; s++) {
        const row_ranges *cut = &p->call->row_ranges[s];
        meet |= cut->n > 1 && p->program->stage[s].reads >> f & 1u && cut->rank != p->field[f].index;
    }
    return meet;
}

void clear_field(fast_pass *p, hga_id f)
{
    fast_field *x = &p->field[f];
    int by_merging = x->lse && !x->own_lse; /* merging into an empty state reads lse first */
    int now = x->fresh ? threads_meet(p, f) : x->adjoint && !by_merging && x->writer < 0;
    if (x->fresh) memset(x->fresh, !now, (size_t)count_chunks(p->plan));
    if (now) memset(x->adjoint, 0, (size_t)p->nodes.n * (size_t)x->padded * sizeof *x->adjoint);
    for (hga_id v = 0; x->lse && v < p->nodes.n; v++) x->lse[v] = INFINITY, x->delta[v] = 0;
}

void clear_all(fast_pass *p, int kv)
{
    for (hga_id f = 1; f <= p->program->n_fields; f++)
        if (is_kv(p, f) == kv) clear_field(p, f);
}

void clear_chunk(const fast_pass *p, hga_id f, hga_id chunk)
{
    const fast_field *x = &p->field[f];
    hga_id first = chunk * CHUNK, n = p->nodes.n - first < CHUNK ? p->nodes.n - first : CHUNK;
    memset(x->adjoint + (ptrdiff_t)first * x->padded, 0, (size_t)(n * x->padded) * sizeof(float));
    x->fresh[chunk] = 0;
}

void clear_rest(fast_pass *p)
{
    for (hga_id f = 1; f <= p->program->n_fields; f++) {
        if (!p->field[f].fresh) continue;
        for (hga_id c = 0; c < count_chunks(p->plan); c++)
            if (p->field[f].fresh[c]) clear_chunk(p, f, c);
    }
}

/* Finds the stage that attends with the field's rows as queries, and is the last one to read them; -1: none. */
static hga_id writer_of(const fast_pass *p, hga_id f)
{
    for (hga_id s = p->program->n_stages; s-- > 0;) {
        const hga_stage *stage = &p->program->stage[s];
        if (!(stage->reads >> f & 1u)) continue;
        int alone = stage->query == f && stage->key != f && stage->value != f;
        return kind_attends(p->plan->stage[s].kind) && alone ? s : -1;
    }
    return -1;
}

/* Do only attention and stages of key/value heads add to the field's adjoint? */
static int has_adjoint_of_attention(const fast_pass *p, hga_id f)
{
    int others = 0;
    for (hga_id s = 0; s < p->program->n_stages; s++) {
        const hga_stage *stage = &p->program->stage[s];
        others |= (int)(stage->reads >> f & 1u) && !kind_attends(p->plan->stage[s].kind) && !is_kv(p, stage->out);
    }
    return !others;
}

void plan_clearing(fast_pass *p)
{
    for (hga_id f = 1; f <= p->program->n_fields; f++) {
        p->field[f].writer = writer_of(p, f);
        if (!has_adjoint_of_attention(p, f)) p->field[f].fresh = NULL;
    }
}
