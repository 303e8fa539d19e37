/* fast_columns.h: keys and values of attention, which are loaded and stored chunk by chunk (fast_columns.c). */
#ifndef HGA_GRADIENT_FAST_COLUMNS_H
#define HGA_GRADIENT_FAST_COLUMNS_H

#include "fast_pass.h"

/* The only stage that reads or writes the field; -1: none or several. */
hga_id only_stage(const hga_plan *plan, hga_id f);
/* Does attention read the field's rows from the caller's tensors and write their gradients there? */
int is_by_row(const hga_plan *plan, hga_id f);
/* The stage whose keys and values are loaded chunk by chunk, -1. */
hga_id columns_stage(const hga_plan *plan);
/* Finds after which panel each chunk may leave. */
hga_status last_uses_create(const hga_plan *plan, const row_ranges *cut, last_uses *out);
/* Frees the list. */
void last_uses_clear(const hga_plan *plan, last_uses *x);
/* Carves the memory of chunks of keys and values; NULL: no stage has chunks. */
column_chunks *columns_lay_out(const fast_pass *p, carver *arena);
/* Starts with no chunk loaded; with several threads, loads all. */
void columns_begin(const fast_pass *p);
/* Copies a chunk's rows; returns where. */
float *fetch_chunk(const fast_pass *p, hga_id chunk);
/* Stores the chunks that panels [first, end) of the stage were the last to need. */
void columns_leave(const fast_pass *p, hga_id stage, hga_id first, hga_id end);
/* Stores all chunks that are left. */
void columns_end(const fast_pass *p);

/* Key and value of the column at a position, and their gradients; those two are undefined where none is required. */
static inline void near_column(const fast_pass *p, hga_id at, const float **k, const float **v, float **dk, float **dv)
{
    const column_chunks *x = p->chunks;
    const hga_stage *s = &p->program->stage[x->stage];
    ptrdiff_t dim = p->field[s->key].padded, dim_v = p->field[s->value].padded, chunk = at / CHUNK, row = at % CHUNK;
    int32_t slot = p->own.slot ? p->own.slot[chunk] : -1;
    float *rows = x->at[chunk] ? x->at[chunk] : fetch_chunk(p, (hga_id)chunk);
    *k = rows + row * dim, *v = rows + x->value + row * dim_v;
    *dk = slot < 0 ? rows + x->d_key + row * dim : p->own.dk + (slot * CHUNK + row) * dim;
    *dv = slot < 0 ? rows + x->d_value + row * dim_v : p->own.dv + (slot * CHUNK + row) * dim_v;
}

/* Key and value of a source of an attended stage. */
static inline void find_source(const fast_pass *p, hga_id s, hga_id u, const float **k, const float **v)
{
    const hga_stage *stage = &p->program->stage[s];
    const hga_id *rank = p->call->row_ranges[s].rank;
    float *dk, *dv;
    if (p->chunks && p->chunks->stage == s)
        near_column(p, rank ? rank[u] : u, k, v, &dk, &dv);
    else
        *k = value_row(p, stage->key, u), *v = value_row(p, stage->value, u);
}

#endif
