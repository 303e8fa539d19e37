/* chosen_files.c: choices and weights of blocks, padded to the widest row. */
#include "attend.h"

#include <stdlib.h>
#include <string.h>

#include "variant.h"

/* Refuses files of choices of a variant that chooses nothing, and allocates each chooser of each sample. */
int chosen_open(const chosen_paths *typed, const typed_variant *variant, const attend_io *all, hga_id choosers,
                chosen_files *f)
{
    const char *first = typed->choice ? "--choice" : typed->weights ? "--block-weights" : "--block-scores";
    int any = typed->choice || typed->weights || typed->scores;
    *f = (chosen_files){.typed = *typed, .samples = all->query.samples, .choosers = choosers};
    f->heads = all->query.heads, f->tokens = all->query.rows;
    if (any && !routed_is(variant)) return complain(CLI_USAGE, "%s: %s chooses no blocks", first, variant->name);
    if (typed->scores) MUST(npy_read(typed->scores, NPY_ENDLESS, &f->scores));
    return take((int64_t)f->samples * choosers, sizeof *f->part, &f->part);
}

/* ---- weights ---- */

enum { COLUMNS = 128 }; /* blocks that are weighed in one execution */

/* The output is linear in values: if a value is 1 in its block's column and 0 elsewhere, a row of the output is the
   weights of the blocks. Nothing is dropped, so that a row sums to 1. */
typedef struct weighing_blocks {
    const model *m;
    const hga_options *options;
    const attend_io *one;
    const chosen_blocks *chosen;
    hga_id tokens, heads, kv_heads;
    float *value, *out; /* [tokens][heads][COLUMNS] */
} weighing_blocks;

/* Weighs blocks [first, first + COLUMNS) of all that tokens are in. */
static int weigh_columns(const weighing_blocks *w, hga_id first)
{
    hga_io io = w->one->io;
    hga_shape shape = w->one->shape;
    hga_options options = *w->options;
    options.dropout = 0;
    memset(w->value, 0, (size_t)w->tokens * (size_t)w->kv_heads * COLUMNS * sizeof *w->value);
    for (hga_id u = 0; u < w->tokens; u++)
        for (hga_id h = 0;
             w->chosen->block_of[u] >= first && w->chosen->block_of[u] < first + COLUMNS && h < w->kv_heads; h++)
            w->value[((int64_t)u * w->kv_heads + h) * COLUMNS + w->chosen->block_of[u] - first] = 1;
    shape.dim_v = COLUMNS;
    io.value = (hga_tensor){.data = w->value, .rows = w->tokens};
    io.out = (hga_tensor){.data = w->out, .rows = w->tokens};
    io.lse.data = NULL, io.edge_value.data = NULL, io.edge_out.data = NULL;
    return complain_of(hga_attention(w->m->graph, &w->m->program, &shape, &options, &io), CLI_USAGE, w->m->title);
}

/* Copies from the output of indicators the weights of blocks from `first` on that each token's row has chosen. */
static void put_weights(const weighing_blocks *w, hga_id first, float *weights)
{
    const chosen_blocks *c = w->chosen;
    for (hga_id t = 0; t < w->tokens; t++)
        for (hga_id s = 0; s < c->slots; s++) {
            int64_t block = c->block[(int64_t)c->row_of[t] * c->slots + s];
            for (hga_id h = 0; block >= first && block < first + COLUMNS && h < w->heads; h++)
                weights[((int64_t)h * w->tokens + t) * c->slots + s] =
                    w->out[((int64_t)t * w->heads + h) * COLUMNS + block - first];
        }
}

/* The attention that each token and head pays to each block it has chosen: the values are the blocks' indicators. */
static int weigh(const model *m, const hga_options *options, const attend_io *one, chosen_part *out)
{
    weighing_blocks w = {.m = m, .options = options, .one = one, .chosen = &out->blocks};
    int status = CLI_GOOD;
    w.tokens = one->query.rows, w.heads = one->part.n, w.kv_heads = one->part.kv_n;
    TRY(take((int64_t)w.tokens * w.kv_heads * COLUMNS, sizeof *w.value, &w.value));
    TRY(take((int64_t)w.tokens * w.heads * COLUMNS, sizeof *w.out, &w.out));
    TRY(take((int64_t)w.heads * w.tokens * out->blocks.slots, sizeof *out->weights, &out->weights));
    for (hga_id first = 0; first < out->blocks.most_blocks; first += COLUMNS) {
        TRY(weigh_columns(&w, first));
        put_weights(&w, first, out->weights);
    }
done:
    free(w.value);
    free(w.out);
    return status;
}

int chosen_keep(hga_id sample, hga_id chooser, model *m, const hga_options *options, const attend_io *one,
                chosen_files *f)
{
    chosen_part *out = &f->part[(int64_t)sample * f->choosers + chooser];
    out->blocks = m->chosen, m->chosen = (chosen_blocks){0};
    return f->typed.weights ? weigh(m, options, one, out) : CLI_GOOD;
}

/* ---- files ---- */

static hga_id widest(const chosen_files *f)
{
    hga_id slots = 0;
    for (int64_t i = 0; i < (int64_t)f->samples * f->choosers; i++)
        if (f->part[i].blocks.slots > slots) slots = f->part[i].blocks.slots;
    return slots;
}

/* [samples][choosers or heads][query blocks or tokens][slots] */
static int find_shape(const chosen_files *f, const tensor_file *like, hga_id second, hga_id rows, int64_t *dim)
{
    int n = 0;
    if (like->axes == 4) dim[n++] = f->samples;
    dim[n++] = second, dim[n++] = rows, dim[n++] = widest(f);
    return n;
}

/* The blocks of each row, -1 where it has fewer than the widest. */
static int write_choice(const tensor_file *like, const chosen_files *f, outfile *to)
{
    const int64_t rows = f->part->blocks.rows, slots = widest(f), parts = (int64_t)f->samples * f->choosers;
    int64_t dim[NPY_MAX_DIMS];
    int32_t *all = NULL;
    int status = CLI_GOOD;
    TRY(take(parts * rows * slots, sizeof *all, &all));
    for (int64_t i = 0; i < parts * rows * slots; i++) {
        const chosen_blocks *c = &f->part[i / slots / rows].blocks;
        all[i] = i % slots < c->slots ? c->block[i / slots % rows * c->slots + i % slots] : -1;
    }
    TRY(npy_write_whole(to, all, find_shape(f, like, f->choosers, (hga_id)rows, dim), dim));
done:
    free(all);
    return status;
}

/* The weights of each row's blocks, 0 where it has fewer than the widest. */
static int write_weights(const tensor_file *like, const chosen_files *f, outfile *to)
{
    const int64_t slots = widest(f), rows = (int64_t)f->heads / f->choosers * f->tokens;
    const int64_t parts = (int64_t)f->samples * f->choosers;
    int64_t dim[NPY_MAX_DIMS];
    float *all = NULL;
    int status = CLI_GOOD;
    TRY(take(parts * rows * slots, sizeof *all, &all));
    for (int64_t i = 0; i < parts * rows; i++) {
        const chosen_part *c = &f->part[i / rows];
        memcpy(all + i * slots, c->weights + i % rows * c->blocks.slots, (size_t)c->blocks.slots * sizeof *all);
    }
    TRY(npy_write_as(to, ELEMENT_F32, all, find_shape(f, like, f->heads, f->tokens, dim), dim));
done:
    free(all);
    return status;
}

int chosen_write(const tensor_file *like, const chosen_files *f, outfile *choice, outfile *weights)
{
    int status = f->typed.choice ? write_choice(like, f, choice) : CLI_GOOD;
    return f->typed.weights && !status ? write_weights(like, f, weights) : status;
}

void chosen_clear(chosen_files *f)
{
    for (int64_t i = 0; f->part && i < (int64_t)f->samples * f->choosers; i++) {
        chosen_blocks_clear(&f->part[i].blocks);
        free(f->part[i].weights);
    }
    free(f->part);
    npy_clear(&f->scores);
    *f = (chosen_files){0};
}
