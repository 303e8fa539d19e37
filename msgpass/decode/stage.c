/* stage.c: a cache's rows are laid where the plan reads them, in a workspace and in tensors as long as the graph; the
   plan computes the rows that are new, with the bits of the full pass, since it groups and cuts rows as it always does;
   and what is kept goes to pages. A workspace whose rows are those of the cache already is used as it is. */
#include "decode.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>

static const hga_binding bindings[] = {HGA_IO_QUERY, HGA_IO_KEY, HGA_IO_VALUE, HGA_IO_OUT};
enum { OUT = 3, N_TENSORS = 4 };

static const hga_tensor *tensor_of(const hga_io *io, int i)
{
    return i == 0 ? &io->query : i == 1 ? &io->key : i == 2 ? &io->value : &io->out;
}
static hga_tensor *own_tensor(hga_io *io, int i)
{
    return i == 0 ? &io->query : i == 1 ? &io->key : i == 2 ? &io->value : &io->out;
}

/* ---- room ---- */

static void measure(const hga_decoder *d, int64_t floats[N_TENSORS])
{
    for (int i = 0; i < N_TENSORS; i++) {
        hga_id f = program_bound(&d->plan->program, bindings[i]);
        floats[i] = f ? (int64_t)d->plan->storage[f].heads * d->plan->storage[f].columns : 0;
    }
}

static int64_t longest_row(const hga_decoder *d)
{
    int64_t most = 1;
    for (hga_id k = 0; k < N_PAGE_KINDS; k++)
        if (d->row_floats[k] > most) most = d->row_floats[k];
    return most;
}

int64_t hga_decoder_workspace_bytes(const hga_decoder *d)
{
    int64_t floats[N_TENSORS];
    if (!d) return 0;
    measure(d, floats);
    int64_t columns = floats[0] + floats[1] + floats[2] + floats[3] + d->plan->shape.n_heads;
    return hga_plan_workspace_bytes(d->plan) + (int64_t)sizeof(hga_decode_workspace) +
           (d->io_n * columns + longest_row(d)) * (int64_t)sizeof(float);
}

hga_status hga_decode_workspace_create(const hga_decoder *d, hga_decode_workspace **out)
{
    hga_status st = HGA_OK;
    hga_decode_workspace *w = NULL;
    if (!d || !out) return hga_fail(HGA_EINVAL, "no %s", d ? "place for the workspace" : "decoder");
    *out = NULL;
    HGA_TRY(hga_new_zero(&d->allocator, 1, sizeof *w, &w));
    w->decoder = d, w->allocator = d->allocator, w->row_floats = longest_row(d);
    measure(d, w->floats);
    HGA_TRY(hga_workspace_create(d->plan, &w->workspace));
    for (int i = 0; i < N_TENSORS; i++)
        HGA_TRY(hga_new(&w->allocator, d->io_n * w->floats[i], sizeof(float), &w->tensor[i]));
    HGA_TRY(hga_new(&w->allocator, (int64_t)d->io_n * d->plan->shape.n_heads, sizeof(float), &w->lse));
    HGA_TRY(hga_new(&w->allocator, w->row_floats, sizeof(float), &w->row));
    *out = w, w = NULL;
done:
    hga_decode_workspace_destroy(w);
    return st;
}

void hga_decode_workspace_destroy(hga_decode_workspace *w)
{
    if (!w) return;
    hga_allocator a = w->allocator;
    const hga_decoder *d = w->decoder;
    hga_workspace_destroy(w->workspace);
    for (int i = 0; i < N_TENSORS; i++) hga_delete(&a, w->tensor[i], d->io_n * w->floats[i], sizeof(float));
    hga_delete(&a, w->lse, (int64_t)d->io_n * d->plan->shape.n_heads, sizeof(float));
    hga_delete(&a, w->row, w->row_floats, sizeof(float));
    hga_delete(&a, w->node, w->room, sizeof *w->node);
    hga_delete(&a, w->sorted, w->sorted_room, sizeof *w->sorted);
    hga_delete(&a, w->asked, w->asked_room, sizeof *w->asked);
    hga_delete(&a, w->wanted, w->wanted_room, sizeof *w->wanted);
    hga_delete(&a, w, 1, sizeof *w);
}

hga_status stage_reserve(hga_decode_workspace *w, hga_id from, hga_id n_tokens)
{
    const hga_decoder *d = w->decoder;
    hga_status st = HGA_OK;
    hga_id n = hga_decoder_rows(d, from, n_tokens, NULL, 0);
    int64_t born = d->born.ptr[from + n_tokens] - d->born.ptr[from];
    HGA_TRY(hga_grow(&w->allocator, &w->node, &w->room, 0, n, sizeof *w->node));
    HGA_TRY(hga_grow(&w->allocator, &w->sorted, &w->sorted_room, 0, n, sizeof *w->sorted));
    HGA_TRY(hga_grow(&w->allocator, &w->asked, &w->asked_room, 0, n, sizeof *w->asked));
    HGA_TRY(hga_grow(&w->allocator, &w->wanted, &w->wanted_room, 0, born, sizeof *w->wanted));
done:
    return st;
}

/* ---- rows of pages ---- */

static float *tensor_row(hga_decode_workspace *w, hga_id f, hga_id node)
{
    const hga_decoder *d = w->decoder;
    for (int i = 0; i < OUT; i++)
        if (program_bound(&d->plan->program, bindings[i]) == f)
            return w->tensor[i] + (node - d->io_first) * w->floats[i];
    return NULL;
}

hga_status stage_lay(hga_decode_workspace *w, hga_id kind, hga_id node, const char *from)
{
    const hga_decoder *d = w->decoder;
    hga_id f = field_of_kind(kind);
    if (!kind_is_given(kind)) {
        memcpy(w->row, from, (size_t)d->row_bytes[kind]);
        return hga_workspace_rows(d->plan, w->workspace, f, node, 1, HGA_ROWS_PUT, w->row);
    }
    float *to = tensor_row(w, f, node);
    if (d->options.page_type == HGA_BF16)
        d->plan->kernels->widen(1, &(const uint16_t *){(const uint16_t *)(const void *)from},
                                (hga_id)d->row_floats[kind], to, 0);
    else
        memcpy(to, from, (size_t)d->row_bytes[kind]);
    return HGA_OK;
}

hga_status stage_keep(hga_decode_workspace *w, hga_id kind, hga_id node, char *to)
{
    const hga_decoder *d = w->decoder;
    hga_id f = field_of_kind(kind);
    if (!kind_is_given(kind)) {
        hga_status st = hga_workspace_rows(d->plan, w->workspace, f, node, 1, HGA_ROWS_GET, w->row);
        if (!st) memcpy(to, w->row, (size_t)d->row_bytes[kind]);
        return st;
    }
    const float *from = tensor_row(w, f, node);
    if (d->options.page_type == HGA_BF16)
        d->plan->kernels->narrow((hga_id)d->row_floats[kind], from, (uint16_t *)(void *)to);
    else
        memcpy(to, from, (size_t)d->row_bytes[kind]);
    return HGA_OK;
}

static hga_status lay_cache(hga_decode_workspace *w, const hga_cache *c)
{
    const hga_decoder *d = w->decoder;
    hga_status st = HGA_OK;
    if (w->resident == c->state) return HGA_OK;
    w->resident = 0;
    HGA_TRY(hga_workspace_rows(d->plan, w->workspace, 0, 0, 0, HGA_ROWS_DROP, NULL));
    for (int64_t s = 0; s < c->table.n_slots; s++) {
        const page_entry *e = &c->table.entry[s];
        hga_id kind = (hga_id)((e->key - 1) >> 32), first = (hga_id)((uint32_t)(e->key - 1) << d->page_shift);
        for (uint64_t live = e->key ? e->live : 0; live; live &= live - 1) {
            hga_id node = first + __builtin_ctzll(live);
            HGA_TRY(stage_lay(w, kind, node, page_row(d, e->page, node)));
        }
    }
done:
    return st;
}

/* ---- an append ---- */

static hga_id columns_of(const hga_decoder *d, int i)
{
    return d->plan->storage[program_bound(&d->plan->program, bindings[i])].columns;
}

void stage_bring(hga_decode_workspace *w, const hga_io *io, hga_id n)
{
    const hga_decoder *d = w->decoder;
    for (int i = 0; i < OUT; i++) {
        const hga_tensor *t = tensor_of(io, i);
        if (!w->floats[i]) continue;
        hga_id columns = columns_of(d, i);
        ptrdiff_t head = t->head_stride ? t->head_stride : columns, row = t->row_stride ? t->row_stride : w->floats[i];
        for (hga_id k = 0; k < n; k++) {
            const float *from = (const float *)t->data + k * row;
            float *to = w->tensor[i] + (w->node[k] - d->io_first) * w->floats[i];
            for (float *end = to + w->floats[i]; to < end; to += columns, from += head) {
                memcpy(to, from, (size_t)columns * sizeof *to);
                if (d->options.page_type == HGA_BF16) d->plan->kernels->round_bf16(columns, to, to);
            }
        }
    }
}

static void give_outputs(const hga_decode_workspace *w, const hga_append *a, hga_id n)
{
    const hga_decoder *d = w->decoder;
    const hga_tensor *t = &a->io.out, *lse = &a->io.lse;
    hga_id heads = d->plan->shape.n_heads, columns = columns_of(d, OUT);
    ptrdiff_t head = t->head_stride ? t->head_stride : columns, row = t->row_stride ? t->row_stride : w->floats[OUT];
    ptrdiff_t lse_head = lse->head_stride ? lse->head_stride : 1, lse_row = lse->row_stride ? lse->row_stride : heads;
    for (hga_id k = 0; k < n; k++) {
        int64_t at = w->node[k] - d->io_first;
        for (hga_id h = 0; h < heads; h++) {
            if (t->data)
                memcpy((float *)t->data + k * row + h * head,
                       w->tensor[OUT] + at * w->floats[OUT] + (int64_t)h * columns, (size_t)columns * sizeof(float));
            if (lse->data) ((float *)lse->data)[k * lse_row + h * lse_head] = w->lse[at * heads + h];
        }
    }
}

static int by_number(const void *a, const void *b)
{
    hga_id x = *(const hga_id *)a, y = *(const hga_id *)b;
    return (x > y) - (x < y);
}

/* The rows of the output, as intervals. */
static int64_t list_asked(hga_decode_workspace *w, hga_id n)
{
    int64_t m = 0;
    memcpy(w->sorted, w->node, (size_t)n * sizeof *w->sorted);
    if (w->decoder->io_node) qsort(w->sorted, (size_t)n, sizeof *w->sorted, by_number);
    for (hga_id k = 0; k < n; k++) {
        int64_t at = w->sorted[k] - w->decoder->io_first;
        if (m && w->asked[m - 1].first + w->asked[m - 1].n == at)
            w->asked[m - 1].n++;
        else
            w->asked[m++] = (hga_interval){at, 1};
    }
    return m;
}

int64_t stage_want_kept(hga_decode_workspace *w, hga_id from, hga_id end)
{
    const hga_decoder *d = w->decoder;
    int64_t n = 0;
    for (int64_t i = d->born.ptr[from]; i < d->born.ptr[end]; i++) {
        const kept_row *r = &d->born.row[i];
        if (is_kept(d, r, end) && !kind_is_given(r->kind))
            w->wanted[n++] = (wanted_row){field_of_kind(r->kind), r->node};
    }
    return n;
}

hga_status stage_compute(hga_decode_workspace *w, const hga_io *given, hga_id n, int64_t n_wanted, hga_id end)
{
    const hga_decoder *d = w->decoder;
    hga_io io = *given;
    int alone = !given->out.data && !given->lse.data;
    hga_rows rows = {.n_intervals = 1, .interval = &(hga_interval){0, 1}};
    if (!alone) rows = (hga_rows){.n_intervals = list_asked(w, n), .interval = w->asked};
    for (int i = 0; i < N_TENSORS; i++)
        *own_tensor(&io, i) = w->floats[i] ? (hga_tensor){.data = w->tensor[i], .rows = d->io_n} : (hga_tensor){0};
    if (io.lse.data) io.lse = (hga_tensor){.data = w->lse, .rows = d->io_n};
    io.rows = &rows;
    workspace_want(w->workspace, w->wanted, n_wanted, alone);
    hga_status st = hga_plan_execute(d->plan, w->workspace, &io);
    workspace_want(w->workspace, NULL, 0, 0);
    if (!st) workspace_forget_later(d->plan, w->workspace, d->ready.of, end);
    return st;
}

hga_status stage_keep_new(hga_decode_workspace *w, const hga_cache *c, hga_id end)
{
    const hga_decoder *d = w->decoder;
    hga_status st = HGA_OK;
    for (int64_t i = d->born.ptr[c->tokens]; i < d->born.ptr[end]; i++) {
        const kept_row *r = &d->born.row[i];
        if (!is_kept(d, r, end)) continue;
        const page_entry *e = table_find(&c->table, page_key(d, r->kind, r->node));
        HGA_TRY(stage_keep(w, r->kind, r->node, page_row(d, e->page, r->node)));
    }
done:
    return st;
}

hga_status stage_append(hga_decode_workspace *w, const hga_append *a)
{
    const hga_decoder *d = w->decoder;
    hga_status st = HGA_OK;
    hga_id from = a->cache->tokens, end = from + a->n_tokens;
    HGA_TRY(lay_cache(w, a->cache));
    w->resident = 0;
    hga_id n = hga_decoder_rows(d, from, a->n_tokens, w->node, (hga_id)w->room);
    stage_bring(w, &a->io, n);
    HGA_TRY(stage_compute(w, &a->io, n, stage_want_kept(w, from, end), end));
    give_outputs(w, a, n);
    HGA_TRY(stage_keep_new(w, a->cache, end));
done:
    return st;
}
