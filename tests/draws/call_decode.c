/* call_decode.c: a call token by token: a cache for each sample, tokens in drawn pieces, some of them taken back and
   brought again, all samples in one append or each in its own. Rows have the bits of the full pass where the decoder
   promises them, else they are near. */
#include "calls.h"

#include "filling.h"
#include "hga_decode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUT = 3, LSE = 4, N_TENSORS = 5 };

typedef struct decoding {
    const drawn_call *c; /* the full pass */
    choices *drawn;
    hga_decode_options options;
    filling memory;
    hga_decoder *decoder;
    hga_decode_workspace *workspace;
    hga_pages *pages;
    hga_cache *cache[MOST_SAMPLES];
    hga_id longest[MOST_SAMPLES];
    hga_io full[MOST_SAMPLES];
    hga_id first, heads[N_TENSORS], columns[N_TENSORS]; /* of the tensors' rows: the first node; 0 heads: none */
} decoding;

/* ---- what is decoded ---- */

/* Not with what a decoder refuses; of the arrays no biases of edges. */
static drawn_call full_pass(const drawn_call *c)
{
    drawn_call all = *c;
    hga_options *o = &all.options;
    call_drop_edges(&all);
    const int n = all.n_arrays;
    o->gradient = o->keep_fields = 0;
    o->rows = HGA_EVERY_ROW;
    o->dropout = 0;
    memset(all.asked, 0, sizeof all.asked);
    all.wanted = 0, all.n_arrays = 0;
    all.io.edge_bias.rows = 0;
    for (int i = 0; i < n; i++) {
        if (c->drawn[i].use == ARRAY_OUTPUT || c->drawn[i].use == ARRAY_INPUT) continue;
        if (!c->drawn[i].is_tensor && c->drawn[i].at == offsetof(hga_io, edge_bias)) continue;
        all.drawn[all.n_arrays] = c->drawn[i], all.plain[all.n_arrays++] = c->plain[i];
    }
    return all;
}

/* Tensors of bfloat16 alone may be kept in pages of 16 bits: these are their numbers. */
static hga_dtype page_type(const drawn_call *c)
{
    for (int i = 0; i < c->n_arrays; i++)
        if (c->drawn[i].use == ARRAY_READ && c->drawn[i].is_tensor && c->drawn[i].dtype != HGA_BF16) return HGA_F32;
    return HGA_BF16;
}

static hga_tensor *tensor_of(hga_io *io, int i)
{
    hga_tensor *const of[] = {&io->query, &io->key, &io->value, &io->out, &io->lse};
    return of[i];
}

static void find_tensors(decoding *d)
{
    static const hga_binding bound[] = {HGA_IO_QUERY, HGA_IO_KEY, HGA_IO_VALUE, HGA_IO_OUT, HGA_IO_OUT};
    static const size_t at[] = {offsetof(hga_io, query), offsetof(hga_io, key), offsetof(hga_io, value),
                                offsetof(hga_io, out), offsetof(hga_io, lse)};
    hga_id n;
    for (int i = 0; i < N_TENSORS; i++)
        for (int a = 0; a < d->c->n_arrays; a++)
            if (d->c->plain[a].is_tensor && d->c->plain[a].at == at[i] && hga_program_field(d->c->program, bound[i]))
                d->heads[i] = d->c->plain[a].heads, d->columns[i] = (hga_id)d->c->plain[a].columns;
    if (hga_program_rows(d->c->program, d->c->graph, hga_program_field(d->c->program, HGA_IO_OUT), &d->first, &n))
        draw_fail("no rows of the output: %s", hga_error_detail());
}

static int64_t floats_of(const decoding *d, int i) { return (int64_t)d->heads[i] * d->columns[i]; }

/* ---- appends ---- */

/* A cache's next tokens, with gaps between rows and heads as the call has them. */
typedef struct piece {
    int sample;
    hga_id n, *node;
    float *rows[N_TENSORS];
    ptrdiff_t gap;
    hga_append append;
} piece;

static float *at_head(const decoding *d, const piece *x, int i, hga_id k, hga_id head)
{
    ptrdiff_t each = d->columns[i] + x->gap;
    return x->rows[i] + k * (d->heads[i] * each + x->gap) + head * each;
}

static void lay_out(const decoding *d, piece *x, int i, int wanted)
{
    hga_tensor *t = tensor_of(&x->append.io, i);
    const float *all = t->data;
    ptrdiff_t each = d->columns[i] + x->gap, row = d->heads[i] * each + x->gap;
    if (!d->heads[i] || !wanted) {
        if (i >= OUT) *t = (hga_tensor){0};
        return;
    }
    if (!(x->rows[i] = malloc((size_t)(x->n * row + 1) * sizeof(float)))) draw_fail("no memory for an append");
    memset(x->rows[i], 0xff, (size_t)(x->n * row) * sizeof(float));
    for (hga_id k = 0; k < x->n && i < OUT; k++)
        for (hga_id h = 0; h < d->heads[i]; h++)
            memcpy(at_head(d, x, i, k, h), all + (x->node[k] - d->first) * floats_of(d, i) + h * d->columns[i],
                   (size_t)d->columns[i] * sizeof(float));
    *t = (hga_tensor){.data = x->rows[i], .rows = x->n};
    if (x->gap) t->row_stride = row, t->head_stride = each;
}

static piece next_piece(decoding *d, int s, hga_id most)
{
    hga_id from = hga_cache_tokens(d->cache[s]), left = hga_decoder_tokens(d->decoder) - from;
    piece x = {.sample = s, .gap = d->c->drawn[0].packed ? 0 : 2};
    hga_id tokens = 1 + choose(d->drawn, most < left ? most : left);
    int silent = rarely(d->drawn, 6);
    x.append = (hga_append){.cache = d->cache[s], .n_tokens = tokens, .io = d->full[s]};
    x.n = hga_decoder_rows(d->decoder, from, tokens, NULL, 0);
    if (!(x.node = malloc((size_t)(x.n + 1) * sizeof *x.node))) draw_fail("no memory for an append");
    hga_decoder_rows(d->decoder, from, tokens, x.node, x.n);
    for (int i = 0; i < N_TENSORS; i++) lay_out(d, &x, i, i < OUT || !silent);
    return x;
}

static double near_of(const decoding *d)
{
    if (d->options.same_bits) return 0;
    return d->options.plan.precision == HGA_PRECISION_BF16 ? 1.2e-2 : 2e-6;
}

/* What an error is compared with: the number; of sums of rounded sigmoids the largest of its row. */
static double size_of(const decoding *d, const float *row, hga_id n, hga_id j)
{
    double size = fmax(1, fabs((double)row[j]));
    for (hga_id e = 0; e < n && sums_rounded_sigmoids(d->c); e++)
        if (isfinite(row[e])) size = fmax(size, fabs((double)row[e]));
    return size;
}

static void check_row(const decoding *d, const piece *x, int i, hga_id k, hga_id head)
{
    const float *got = at_head(d, x, i, k, head), *all = tensor_of((hga_io *)&d->full[x->sample], i)->data,
                *want = all + (x->node[k] - d->first) * floats_of(d, i) + head * d->columns[i];
    double near = near_of(d);
    for (hga_id j = 0; j < d->columns[i]; j++) {
        int same = memcmp(&got[j], &want[j], sizeof *got) == 0 || (isnan(got[j]) && isnan(want[j]));
        if (same || fabs((double)got[j] - (double)want[j]) <= near * size_of(d, want, d->columns[i], j)) continue;
        draw_fail("decoding%s: node %d of sample %d, head %d, column %d of %s is %.9g, not %.9g, after tokens %d + %d",
                  near == 0 ? " with the same bits" : "", x->node[k], x->sample, head, j, i == LSE ? "lse" : "out",
                  (double)got[j], (double)want[j], hga_cache_tokens(d->cache[x->sample]) - x->append.n_tokens,
                  x->append.n_tokens);
    }
}

static void check_piece(const decoding *d, const piece *x)
{
    for (int i = OUT; i < N_TENSORS; i++)
        for (hga_id k = 0; k < x->n && x->rows[i]; k++)
            for (hga_id h = 0; h < d->heads[i]; h++) check_row(d, x, i, k, h);
}

static void drop_piece(piece *x)
{
    for (int i = 0; i < N_TENSORS; i++) free(x->rows[i]);
    free(x->node);
}

static void append(const decoding *d, const hga_append *list, hga_id n)
{
    hga_status st = hga_decoder_append(d->decoder, d->workspace, list, n);
    if (st) draw_fail("no append: %s, %s", hga_status_name(st), hga_error_detail());
}

/* Some of the last tokens are taken back. */
static void cut_some(decoding *d, int s)
{
    hga_id tokens = hga_cache_tokens(d->cache[s]), least = d->longest[s] - d->options.rollback;
    if (tokens > d->longest[s]) d->longest[s] = tokens, least = tokens - d->options.rollback;
    if (!rarely(d->drawn, 4) || least >= tokens || tokens < 2) return;
    hga_id to = least < 1 ? 1 + choose(d->drawn, tokens) : least + choose(d->drawn, tokens - least + 1);
    hga_status st = hga_cache_cut(d->cache[s], to > tokens ? tokens : to);
    if (st) draw_fail("%d tokens are not cut to %d: %s", tokens, to, hga_error_detail());
}

/* One step of all samples that have tokens left; 0: none has. */
static int step(decoding *d, hga_id most)
{
    piece x[MOST_SAMPLES];
    hga_append list[MOST_SAMPLES];
    int n = 0;
    for (int s = 0; s < d->c->n_samples; s++)
        if (hga_cache_tokens(d->cache[s]) < hga_decoder_tokens(d->decoder)) x[n] = next_piece(d, s, most), n++;
    for (int i = 0; i < n; i++) list[i] = x[i].append;
    for (int i = 0; i < n && !d->c->in_batch; i++) append(d, &list[i], 1);
    if (n && d->c->in_batch) append(d, list, n);
    for (int i = 0; i < n; i++) check_piece(d, &x[i]), drop_piece(&x[i]), cut_some(d, x[i].sample);
    return n;
}

/* ---- what decoders and appends refuse ---- */

static void expect(hga_status st, const char *says, const char *what)
{
    if (st != HGA_EUNSUPPORTED || !strstr(hga_error_detail(), says))
        draw_fail("decoding with %s: %s, %s", what, hga_status_name(st), hga_error_detail());
}

static void refuse_option(const decoding *d, const hga_decode_options *o, const char *says)
{
    hga_decoder *none = NULL;
    hga_status st = hga_decoder_create(d->c->graph, d->c->program, &d->c->shape, o, &none);
    hga_decoder_destroy(none);
    expect(st, says, says);
}

static void refuse_append(const decoding *d, piece x, const char *says)
{
    expect(hga_decoder_append(d->decoder, d->workspace, &x.append, 1), says, says);
}

static int is_any_of_16_bits(const drawn_call *c)
{
    int any = 0;
    for (int i = 0; i < c->n_arrays; i++) any |= c->drawn[i].dtype != HGA_F32;
    return any;
}

static int is_any_folded(const drawn_call *c)
{
    int any = 0;
    for (int i = 0; i < c->n_arrays; i++) any |= c->drawn[i].fold != 0;
    return any;
}

/* Of the call's options those without meaning token by token, one at a time. */
static unsigned refused_options(const decoding *d, const drawn_call *c)
{
    unsigned without = DECODING_WITHOUT_RANKS;
    hga_decode_options bare = d->options, o = bare;
    bare.plan.allocator = o.plan.allocator = NULL;
    hga_ranks ranks = {0};
    o.plan.ranks = &ranks, refuse_option(d, &o, "without options.ranks"), o = bare;
    if (c->options.gradient)
        o.plan.gradient = 1, refuse_option(d, &o, "option gradient"), without |= DECODING_WITHOUT_GRADIENTS, o = bare;
    if (c->options.dropout > 0)
        o.plan.dropout = 0.5f, refuse_option(d, &o, "option dropout"), without |= DECODING_WITHOUT_DROPOUT, o = bare;
    if (c->options.keep_fields)
        o.plan.keep_fields = 1, refuse_option(d, &o, "option keep_fields"), without |= DECODING_WITHOUT_KEPT_FIELDS,
        o = bare;
    return without;
}

static unsigned refused_appends(decoding *d, const drawn_call *c)
{
    static const float bias = 0;
    unsigned without = 0;
    piece x = next_piece(d, 0, 1), bad = x;
    bad.append.io.rows = &(hga_rows){.n_intervals = 1, .interval = &(hga_interval){0, 1}};
    if (c->options.rows) refuse_append(d, bad, "no meaning for rows"), without |= DECODING_WITHOUT_SOME_ROWS;
    bad = x, bad.append.io.edge_bias.data = &bias;
    if (c->io.edge_bias.rows) refuse_append(d, bad, "no meaning for edge_bias"), without |= DECODING_WITHOUT_EDGE_BIAS;
    bad = x, bad.append.io.edge_key.data = &bias;
    if (c->io.edge_key.rows) refuse_append(d, bad, "no meaning for edge_key"), without |= DECODING_WITHOUT_EDGE_KEY;
    bad = x, bad.append.io.edge_value.data = &bias;
    if (c->io.edge_value.rows)
        refuse_append(d, bad, "no meaning for edge_value"), without |= DECODING_WITHOUT_EDGE_VALUE;
    bad = x, bad.append.io.value.dtype = HGA_F16;
    if (is_any_of_16_bits(c) && x.append.io.value.data && d->heads[2])
        refuse_append(d, bad, "not of float32"), without |= DECODING_WITHOUT_TYPES;
    bad = x, bad.append.io.value.fold = 1;
    if (is_any_folded(c) && x.append.io.value.data && d->heads[2])
        refuse_append(d, bad, "value is folded"), without |= DECODING_WITHOUT_FOLDS;
    drop_piece(&x);
    return without;
}

/* ---- the whole ---- */

static void open_caches(decoding *d)
{
    hga_status st = hga_decode_workspace_create(d->decoder, &d->workspace);
    if (!st) st = hga_pages_create(d->decoder, 0, &d->pages);
    for (int s = 0; s < d->c->n_samples && !st; s++) st = hga_cache_create(d->pages, &d->cache[s]);
    if (st) draw_fail("no caches: %s, %s", hga_status_name(st), hga_error_detail());
}

static void close_decoding(decoding *d)
{
    for (int s = 0; s < d->c->n_samples; s++) hga_cache_destroy(d->cache[s]);
    if (d->pages && hga_pages_used(d->pages)) draw_fail("caches that are gone hold pages");
    hga_pages_destroy(d->pages);
    hga_decode_workspace_destroy(d->workspace);
    hga_decoder_destroy(d->decoder);
    if (d->memory.live) draw_fail("decoding: %lld blocks were not given back", (long long)d->memory.live);
}

/* The full pass is that of a plan without any of what a decoder is for. */
static void decode(decoding *d, const drawn_call *c, call_fate *fate)
{
    hga_grad_io grad;
    filled f = {.arrays = d->c->plain, .byte = 0xff, .whole = 1};
    way w = {.name = "the full pass of a decoder", .options = d->c->options, .filled = f};
    outcome all = call_run(d->c, &w);
    if (all.forward) draw_fail("a decoder of what does not run: %s", all.refused);
    for (int s = 0; s < c->n_samples; s++) call_io(d->c, &f, &all.memory, s, &d->full[s], &grad);
    find_tensors(d), open_caches(d);
    fate->decoding_without = refused_options(d, c) | refused_appends(d, c);
    hga_id most = hga_decoder_tokens(d->decoder) > 100 || choose(d->drawn, 2) ? 40 : 3;
    while (step(d, most)) continue;
    outcome_clear(&all);
}

void call_hold_decoding(const drawn_call *c, call_fate *fate)
{
    static const hga_id page_rows[] = {0, 1, 4, 64};
    choices drawn = choices_of_seed(c->seed + 11);
    const drawn_call full = full_pass(c);
    decoding d = {.c = &full, .drawn = &drawn, .memory = {.byte = 0xff}};
    hga_allocator a = filling_allocator(&d.memory);
    d.options = (hga_decode_options){.plan = full.options,
                                     .rollback = choose(&drawn, 4),
                                     .page_rows = page_rows[choose(&drawn, 4)],
                                     .same_bits = choose(&drawn, 3) > 0,
                                     .page_type = page_type(c)};
    d.options.plan.rows = c->options.rows, d.options.plan.allocator = &a;
    fate->decoded = hga_decoder_create(c->graph, c->program, &c->shape, &d.options, &d.decoder);
    if (fate->decoded) snprintf(fate->refused_decoding, sizeof fate->refused_decoding, "%s", hga_error_detail());
    if (fate->decoded && fate->decoded != HGA_EUNSUPPORTED)
        draw_fail("no decoder: %s, %s", hga_status_name(fate->decoded), fate->refused_decoding);
    if (!fate->decoded && hga_decoder_tokens(d.decoder)) decode(&d, c, fate);
    close_decoding(&d);
}
