/* stage.c: copies or borrows a cache's rows where the plan reads them, in slots of a workspace (row_slots.h), beside
   those of an append; the plan computes the new rows, with the bits of the full pass, since it groups and cuts rows in
   the same way; cached rows go to pages, and all others free their slots. A workspace that already has the cache's rows
   is used directly. */
#include "bindings.h"
#include "choose.h"
#include "plan.h"
#include "program.h"
#include "slices.h"

#include <stdlib.h>
#include <string.h>

static const hga_binding bindings[] = {HGA_IO_QUERY, HGA_IO_KEY, HGA_IO_VALUE};
enum { N_INPUTS = sizeof bindings / sizeof *bindings };

static const hga_tensor *tensor_of(const hga_io *io, int i)
{
    return i == 0 ? &io->query : i == 1 ? &io->key : &io->value;
}

/* ---- memory ---- */

static int64_t longest_row(const hga_decoder *d)
{
    int64_t most = 1;
    for (hga_id k = 0; k < N_PAGE_KINDS; k++)
        if (d->row_floats[k] > most) most = d->row_floats[k];
    return most;
}

int64_t hga_decoder_workspace_bytes(const hga_decoder *d)
{
    if (!d) return 0;
    return hga_plan_workspace_bytes(d->plan) + (int64_t)sizeof(hga_decode_workspace) +
           longest_row(d) * (int64_t)sizeof(float);
}

static int64_t list_bytes(const hga_decode_workspace *w)
{
    return w->capacity * (int64_t)sizeof *w->node + w->sorted_capacity * (int64_t)sizeof *w->sorted +
           w->requested_capacity * (int64_t)sizeof *w->requested + w->needed_capacity * (int64_t)sizeof *w->needed +
           w->at_capacity * (int64_t)sizeof *w->at;
}

/* Counts rows and lists, whose memory varies; the rest is constant. */
void stage_count_bytes(hga_decode_workspace *w)
{
    atomic_store(&w->bytes, w->fixed_bytes + workspace_slot_bytes(w->workspace) + list_bytes(w));
}

int64_t hga_decode_workspace_bytes(const hga_decode_workspace *w) { return w ? atomic_load(&w->bytes) : 0; }

hga_status hga_decode_workspace_create(const hga_decoder *d, hga_decode_workspace **out)
{
    hga_status st = HGA_OK;
    hga_decode_workspace *w = NULL;
    if (!d || !out) return hga_fail(HGA_EINVAL, "no %s", d ? "place for the workspace" : "decoder");
    *out = NULL;
    HGA_TRY(hga_new_zero(&d->allocator, 1, sizeof *w, &w));
    w->decoder = d, w->allocator = d->allocator, w->row_floats = longest_row(d);
    HGA_TRY(hga_workspace_create(d->plan, &w->workspace));
    HGA_TRY(hga_new(&w->allocator, w->row_floats, sizeof(float), &w->row));
    w->fixed_bytes = hga_decoder_workspace_bytes(d) - workspace_slot_bytes(w->workspace);
    stage_count_bytes(w);
    *out = w, w = NULL;
done:
    hga_decode_workspace_destroy(w);
    return st;
}

void hga_decode_workspace_destroy(hga_decode_workspace *w)
{
    if (!w) return;
    hga_allocator a = w->allocator;
    hga_workspace_destroy(w->workspace);
    hga_delete(&a, w->row, w->row_floats, sizeof(float));
    hga_delete(&a, w->node, w->capacity, sizeof *w->node);
    hga_delete(&a, w->sorted, w->sorted_capacity, sizeof *w->sorted);
    hga_delete(&a, w->requested, w->requested_capacity, sizeof *w->requested);
    hga_delete(&a, w->needed, w->needed_capacity, sizeof *w->needed);
    hga_delete(&a, w->at, w->at_capacity, sizeof *w->at);
    hga_delete(&a, w, 1, sizeof *w);
}

/* Allocates the lists of an append of n_tokens. */
hga_status stage_reserve(hga_decode_workspace *w, hga_id from, hga_id n_tokens)
{
    const hga_decoder *d = w->decoder;
    hga_status st = HGA_OK;
    hga_id n = hga_decoder_rows(d, from, n_tokens, NULL, 0);
    int64_t born = d->born.ptr[from + n_tokens] - d->born.ptr[from];
    HGA_TRY(hga_grow(&w->allocator, &w->node, &w->capacity, 0, n, sizeof *w->node));
    HGA_TRY(hga_grow(&w->allocator, &w->sorted, &w->sorted_capacity, 0, n, sizeof *w->sorted));
    HGA_TRY(hga_grow(&w->allocator, &w->requested, &w->requested_capacity, 0, n, sizeof *w->requested));
    HGA_TRY(hga_grow(&w->allocator, &w->needed, &w->needed_capacity, 0, born, sizeof *w->needed));
    HGA_TRY(choose_reserve(w, from + n_tokens, n_tokens));
done:
    return st;
}

/* ---- rows of pages ---- */

/* Copies a row from its page to the workspace; the caller's rows may be of 16 bits in the page. */
hga_status stage_lay(hga_decode_workspace *w, hga_id kind, hga_id node, const char *from)
{
    const hga_decoder *d = w->decoder;
    hga_id f = field_of_kind(kind);
    if (!kind_is_input(kind)) {
        memcpy(w->row, from, (size_t)d->row_bytes[kind]);
        return hga_workspace_rows(d->plan, w->workspace, f, node, 1, HGA_ROWS_PUT, w->row);
    }
    float *to;
    hga_status st = workspace_take_slot(w->workspace, f, node, &to);
    if (st) return st;
    if (d->options.page_type == HGA_BF16)
        d->plan->machine.kernels->widen(1, &(const uint16_t *){(const uint16_t *)(const void *)from},
                                        (hga_id)d->row_floats[kind], to, 0);
    else
        memcpy(to, from, (size_t)d->row_bytes[kind]);
    return HGA_OK;
}

/* Copies a row of the workspace to its page, in the format that stage_lay reads. */
hga_status stage_keep(hga_decode_workspace *w, hga_id kind, hga_id node, char *to)
{
    const hga_decoder *d = w->decoder;
    hga_id f = field_of_kind(kind);
    if (!kind_is_input(kind))
        return hga_workspace_rows(d->plan, w->workspace, f, node, 1, HGA_ROWS_GET, (float *)(void *)to);
    const float *from = workspace_input_row(w->workspace, f, node);
    if (d->options.page_type == HGA_BF16)
        d->plan->machine.kernels->narrow((hga_id)d->row_floats[kind], from, (uint16_t *)(void *)to);
    else
        memcpy(to, from, (size_t)d->row_bytes[kind]);
    return HGA_OK;
}

/* Whether stages read rows of the kind in pages. */
static int is_borrowed(const hga_decode_workspace *w, hga_id kind)
{
    return !kind_stands(kind) && kind_is_input(kind) && w->decoder->options.page_type == HGA_F32 &&
           workspace_borrows(w->workspace, field_of_kind(kind));
}

static hga_status lay_row(hga_decode_workspace *w, const page_entry *e, hga_id kind, hga_id node)
{
    char *row = page_row(w->decoder, e->page, node);
    if (!is_borrowed(w, kind)) return stage_lay(w, kind, node, row);
    return workspace_borrow_row(w->workspace, field_of_kind(kind), node, (float *)(void *)row);
}

/* Lets the workspace borrow new rows from pages, before they are written there. */
hga_status stage_borrow_new(hga_decode_workspace *w, const hga_cache *c, hga_id end)
{
    const hga_decoder *d = w->decoder;
    hga_status st = HGA_OK;
    for (int64_t i = d->born.ptr[c->tokens]; i < d->born.ptr[end]; i++) {
        const cached_row *r = &d->born.row[i];
        if (!is_cached(d, r, end) || !is_borrowed(w, r->kind)) continue;
        HGA_TRY(lay_row(w, table_find(&c->table, page_key(d, r->kind, r->node)), r->kind, r->node));
    }
done:
    return st;
}

/* Brings all rows of the cache into the workspace, unless they are there since the last append. */
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
        for (uint64_t live = e->key && !kind_stands(kind) ? e->live : 0; live; live &= live - 1) {
            hga_id node = first + __builtin_ctzll(live);
            HGA_TRY(lay_row(w, e, kind, node));
        }
    }
done:
    return st;
}

/* ---- an append ---- */

/* Copies heads; contiguous ones at once. */
static void copy_heads(hga_id heads, hga_id columns, const float *from, ptrdiff_t from_head, float *to,
                       ptrdiff_t to_head)
{
    if (from_head == columns && to_head == columns) columns *= heads, heads = 1;
    for (hga_id h = 0; h < heads; h++) memcpy(to + h * to_head, from + h * from_head, (size_t)columns * sizeof *to);
}

/* Copies a row of the caller's to node v's slot. */
static hga_status fetch_row(hga_decode_workspace *w, hga_id f, hga_id v, const float *from, ptrdiff_t head)
{
    const hga_decoder *d = w->decoder;
    const field_storage *h = &d->plan->fields.storage[f];
    float *to;
    hga_status st = workspace_take_slot(w->workspace, f, v, &to);
    if (st) return st;
    copy_heads(h->heads, h->columns, from, head, to, h->columns);
    if (d->options.page_type == HGA_BF16) d->plan->machine.kernels->round_bf16(h->heads * h->columns, to, to);
    return st;
}

/* Copies the caller's n new rows of each tensor to the slots of their nodes. */
hga_status stage_fetch(hga_decode_workspace *w, const hga_io *io, hga_id n)
{
    const hga_plan *plan = w->decoder->plan;
    hga_status st = HGA_OK;
    for (int i = 0; i < N_INPUTS; i++) {
        const hga_tensor *t = tensor_of(io, i);
        hga_id f = program_bound(&plan->program, bindings[i]);
        if (!f) continue;
        row_layout x = tensor_layout(t, plan->fields.storage[f].heads, plan->fields.storage[f].columns);
        for (hga_id k = 0; k < n; k++) HGA_TRY(fetch_row(w, f, w->node[k], (const float *)t->data + k * x.row, x.head));
    }
done:
    return st;
}

/* Copies the n rows of the output, and their log-sum-exps, to the caller's tensors, if present. */
static void give_outputs(const hga_decode_workspace *w, const hga_append *a, hga_id n)
{
    const hga_plan *plan = w->decoder->plan;
    hga_id f = program_bound(&plan->program, HGA_IO_OUT), heads = plan->fields.storage[f].heads,
           columns = plan->fields.storage[f].columns;
    const hga_tensor *t = &a->io.out, *lse = &a->io.lse;
    row_layout x = tensor_layout(t, heads, columns), y = tensor_layout(lse, heads, 1);
    for (hga_id k = 0; t->data && k < n; k++)
        copy_heads(heads, columns, workspace_input_row(w->workspace, f, w->node[k]), columns,
                   (float *)t->data + k * x.row, x.head);
    for (hga_id k = 0; lse->data && k < n; k++)
        for (hga_id h = 0; h < heads; h++)
            ((float *)lse->data)[k * y.row + h * y.head] = workspace_row_lse(w->workspace, f, w->node[k])[h];
}

static int by_number(const void *a, const void *b)
{
    hga_id x = *(const hga_id *)a, y = *(const hga_id *)b;
    return (x > y) - (x < y);
}

/* Lists the rows of the output as intervals. */
static int64_t list_requested(hga_decode_workspace *w, hga_id n)
{
    int64_t m = 0;
    memcpy(w->sorted, w->node, (size_t)n * sizeof *w->sorted);
    if (w->decoder->io_node) qsort(w->sorted, (size_t)n, sizeof *w->sorted, by_number);
    for (hga_id k = 0; k < n; k++) {
        int64_t at = w->sorted[k] - w->decoder->io_first;
        if (m && w->requested[m - 1].first + w->requested[m - 1].n == at)
            w->requested[m - 1].n++;
        else
            w->requested[m++] = (hga_interval){at, 1};
    }
    return m;
}

/* Lists the computed rows that the cache will hold of tokens [from, end); returns how many. */
int64_t stage_read_cached(hga_decode_workspace *w, hga_id from, hga_id end)
{
    const hga_decoder *d = w->decoder;
    int64_t n = 0;
    for (int64_t i = d->born.ptr[from]; i < d->born.ptr[end]; i++) {
        const cached_row *r = &d->born.row[i];
        if (is_cached(d, r, end) && !kind_stands(r->kind) && !kind_is_input(r->kind))
            w->needed[n++] = (needed_row){field_of_kind(r->kind), r->node};
    }
    return n;
}

/* Executes the plan for n rows of the output and n_needed other rows; drops rows that later tokens change. */
hga_status stage_compute(hga_decode_workspace *w, const hga_io *input, hga_id n, int64_t n_needed, hga_id end,
                         int one_token)
{
    const hga_decoder *d = w->decoder;
    hga_io io = *input;
    int alone = !input->out.data && !input->lse.data;
    hga_rows rows = {.n_intervals = 1, .interval = &(hga_interval){0, 1}};
    if (!alone) rows = (hga_rows){.n_intervals = list_requested(w, n), .interval = w->requested};
    io.lse = (hga_tensor){0}; /* stored beside the rows */
    io.rows = &rows;
    workspace_request(w->workspace, w->needed, n_needed, alone, one_token);
    hga_status st = hga_plan_execute(d->plan, w->workspace, &io);
    workspace_request(w->workspace, NULL, 0, 0, 0);
    if (!st) workspace_forget_later(d->plan, w->workspace, d->ready.of, end);
    return st;
}

/* Copies the new rows that a cache of `end` tokens holds to its pages, unless they are there already. */
hga_status stage_keep_new(hga_decode_workspace *w, const hga_cache *c, hga_id end)
{
    const hga_decoder *d = w->decoder;
    hga_status st = HGA_OK;
    for (int64_t i = d->born.ptr[c->tokens]; i < d->born.ptr[end]; i++) {
        const cached_row *r = &d->born.row[i];
        if (!is_cached(d, r, end) || kind_stands(r->kind) || is_borrowed(w, r->kind)) continue;
        const page_entry *e = table_find(&c->table, page_key(d, r->kind, r->node));
        HGA_TRY(stage_keep(w, r->kind, r->node, page_row(d, e->page, r->node)));
    }
done:
    return st;
}

/* One append: loads the cache's rows and the caller's, computes new ones, stores outputs and cached rows. */
hga_status stage_append(hga_decode_workspace *w, const hga_append *a)
{
    const hga_decoder *d = w->decoder;
    hga_status st = HGA_OK;
    hga_id from = a->cache->tokens, end = from + a->n_tokens;
    HGA_TRY(lay_cache(w, a->cache));
    w->resident = 0;
    const int one_token = a->n_tokens == 1 && end < d->n_tokens;
    hga_id n = hga_decoder_rows(d, from, a->n_tokens, w->node, (hga_id)w->capacity);
    HGA_TRY(stage_borrow_new(w, a->cache, end));
    HGA_TRY(stage_fetch(w, &a->io, n));
    choose_make_blocks(w, a->cache, end);
    HGA_TRY(choose_blocks(w, a));
    HGA_TRY(stage_compute(w, &a->io, n, stage_read_cached(w, from, end), end, one_token));
    give_outputs(w, a, n);
    HGA_TRY(stage_keep_new(w, a->cache, end));
done:
    choose_end(w);
    return st;
}

static int cache_has(const void *cache, hga_id f, hga_id v)
{
    const hga_cache *c = cache;
    return cache_has_row(c, 2 * f + slice_is_input(c->pages->decoder->plan, f, v), v);
}

void stage_settle(hga_decode_workspace *w, const hga_cache *c, hga_id least)
{
    const row_events *dies = &w->decoder->dies;
    workspace_settle(w->workspace, cache_has, c);
    for (int64_t i = dies->ptr[least]; i < dies->ptr[c->least]; i++)
        if (!kind_stands(dies->row[i].kind))
            workspace_leave_slot(w->workspace, field_of_kind(dies->row[i].kind), dies->row[i].node);
    w->resident = c->state;
}
