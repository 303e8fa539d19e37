/* storage.c: where the values of each field are stored. Rows of the caller's tensors stay there; the others get
   workspace. In bfloat16, keys and values get additional rows of 16 bits, which attending stages read; queries are
   rounded as they are loaded. Where other flat stages read them, too, the additional rows are floats. The field's own
   rows are never rounded: means, caches and messages use those. */
#include "bindings.h"
#include "carve.h"
#include "plan.h"

#include <math.h>

hga_id range_of_rows(const hga_plan *plan, hga_field_rows rows, hga_id *first)
{
    return program_row_range(&plan->nodes, rows, first);
}

int storage_is_rounded(const hga_plan *plan, hga_id field)
{
    const hga_field *f = &plan->program.field[field];
    int operand = f->width == HGA_WIDTH_KEY || f->width == HGA_WIDTH_KV_KEY || f->width == HGA_WIDTH_VALUE;
    return plan->options.precision == HGA_PRECISION_BF16 && operand && f->binding != HGA_IO_USER;
}

static int attends(const hga_plan *plan, hga_id stage) { return kind_attends(plan->stage[stage].kind); }

static int attends_fused(const hga_plan *plan, hga_id stage)
{
    return attends(plan, stage) && stage_is_fused(plan, stage) && !attends_by_rows(plan);
}

int storage_is_large(const hga_plan *plan, hga_id field)
{
    const field_storage *h = &plan->fields.storage[field];
    return h->io_n * (int64_t)h->heads * h->columns * (int64_t)sizeof(float) >= plan->machine.tuning.is.stream_output;
}

/* Whether the stage reads operands, and all as 16 bits. User tensors are no operands. */
static int reads_16_bits(const hga_plan *plan, hga_id s)
{
    const hga_stage *stage = &plan->program.stage[s];
    return attends_fused(plan, s) && storage_is_rounded(plan, stage->query) && storage_is_rounded(plan, stage->key) &&
           storage_is_rounded(plan, stage->value);
}

/* Whether all stages that read rounded operands read them as 16 bits. */
int storage_can_be_bf16(const hga_plan *plan)
{
    uint32_t operands = 0;
    if (plan->options.precision != HGA_PRECISION_BF16) return 0;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) operands |= (uint32_t)storage_is_rounded(plan, f) << f;
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        const hga_stage *stage = &plan->program.stage[s];
        int reads = attends(plan, s) || stage->reads & operands;
        if (reads_rounded(stage) && reads && !reads_16_bits(plan, s)) return 0;
    }
    return 1;
}

/* Whether a flat stage reads the field in rounded rows. */
static int has_rounded_rows(const hga_plan *plan, hga_id field)
{
    uint32_t reads = 0;
    if (plan->fields.bf16_rows) return storage_is_attended(plan, field);
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        if (reads_rounded(&plan->program.stage[s])) reads |= plan->program.stage[s].reads;
    return storage_is_rounded(plan, field) && reads >> field & 1u;
}

hga_id read_storage(const hga_plan *plan, const hga_stage *s, hga_id field)
{
    return reads_rounded(s) && plan->fields.storage[field].rounded.n ? STORAGE_ROUNDED + field : field;
}

uint64_t read_storages(const hga_plan *plan, const hga_stage *s, uint32_t fields)
{
    uint64_t set = 0;
    for (; fields; fields &= fields - 1) set |= UINT64_C(1) << read_storage(plan, s, __builtin_ctz(fields));
    return set;
}

int storage_is_attended(const hga_plan *plan, hga_id field)
{
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        if (attends(plan, s) && (plan->program.stage[s].key == field || plan->program.stage[s].value == field))
            return 1;
    return 0;
}

/* Whether every token on which the field exists has its row in the caller's tensor. */
static int tokens_are_input(const hga_plan *plan, const hga_field *f, const field_storage *h)
{
    for (hga_id v = 0; v < plan->nodes.level_ptr[1]; v++) {
        if (v == h->io_first) v += h->io_n;
        if (v < plan->nodes.level_ptr[1] && program_row(&plan->nodes, f->rows, v)) return 0;
    }
    return 1;
}

/* Whether panels that write the field run by columns: they write it head by head, and read operands of others
   meanwhile. */
static int written_by_columns(const hga_plan *plan, hga_id field)
{
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        if (plan->program.stage[s].out == field && plan->stage[s].by_columns) return 1;
    return 0;
}

/* Workspace rows are those of `rows` less the caller's, as one range of ids: levels above the tokens, or everything. A
   rank's caller has only some of the tokens: every row has a slot in the workspace. */
static void find_areas(const hga_plan *plan, const hga_field *f, field_storage *h)
{
    hga_id first, n = range_of_rows(plan, f->rows, &first), number = (hga_id)(f - plan->program.field);
    const int64_t floats = (int64_t)h->heads * h->columns;
    if (has_rounded_rows(plan, number))
        h->rounded = (area){.first = first, .n = n, .floats = plan->fields.bf16_rows ? (floats + 1) / 2 : floats};
    const hga_id disjoint = written_by_columns(plan, number) ? number : 0;
    h->rows = (area){.first = first, .n = n, .floats = floats, .own_pool = disjoint};
    if (f->width == HGA_WIDTH_STATE) h->lse = (area){.first = first, .n = n, .floats = h->heads, .own_pool = disjoint};
    if (f->binding == HGA_INTERNAL) return;
    h->io_n = range_of_rows(plan, f->io, &h->io_first);
    if (plan->options.keep_fields) h->copy_n = h->io_n;
    if (plan_is_shared(plan)) return;
    hga_id base = plan->nodes.level_ptr[1];
    if (h->io_first == first && h->io_n == n) {
        h->rows.n = 0;
    } else if (first < base && first + n > base && tokens_are_input(plan, f, h)) {
        h->rows.first = base, h->rows.n = first + n - base;
    }
}

/* Appends rows of `each` floats to the workspace; *at is their offset. */
static hga_status append_rows(int64_t *total, int64_t rows, int64_t each, int64_t *at)
{
    int64_t floats;
    *at = *total;
    if (__builtin_mul_overflow(rows, each, &floats) || __builtin_add_overflow(floats, KERNEL_PAD, &floats) ||
        __builtin_add_overflow(*total, floats, total) || *total > INT64_MAX / 8)
        return hga_fail(HGA_EOVERFLOW, "the workspace of %lld rows of %lld floats does not fit", (long long)rows,
                        (long long)each);
    *total = (*total + KERNEL_PAD - 1) / KERNEL_PAD * KERNEL_PAD;
    return HGA_OK;
}

/* Appends an area; rows from a pool have the pool's offset. */
static hga_status take_area(const hga_plan *plan, int64_t *total, area *a)
{
    if (!a->slot) return append_rows(total, a->n, a->floats, &a->at);
    for (hga_id i = 0; i < plan->fields.n_pools; i++)
        if (pool_is_of(&plan->fields.pool[i], a)) a->at = plan->fields.pool[i].at;
    return HGA_OK;
}

/* Advances to the next run of the field's rows that this process has, from a zeroed `at`; 0: no more. */
int rows_here_next(const hga_plan *plan, hga_id f, rows_here *at)
{
    const hga_interval all = {0, plan->nodes.n}, *mine = plan_is_shared(plan) ? plan->share.rows : &all;
    const int64_t n = plan_is_shared(plan) ? plan->share.n_rows : 1;
    const field_storage *h = &plan->fields.storage[f];
    at->row += at->n;
    for (at->n = 0; at->n == 0 && at->interval < n; at->interval++) {
        int64_t first = mine[at->interval].first, end = first + mine[at->interval].n;
        if (first < h->io_first) first = h->io_first;
        if (end > h->io_first + h->io_n) end = h->io_first + h->io_n;
        if (first < end) at->first = (hga_id)first, at->n = (hga_id)(end - first);
    }
    return at->n > 0;
}

void storage_count_input(hga_plan *plan)
{
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        plan->fields.storage[f].input_n = 0;
        for (rows_here at = {0}; rows_here_next(plan, f, &at);) plan->fields.storage[f].input_n += at.n;
    }
}

/* ---- aliases ---- */

void aliases_clear(hga_plan *plan, hga_id field)
{
    alias_rows *x = &plan->fields.storage[field].aliases;
    hga_delete(&plan->memory.allocator, x->row, x->n, sizeof *x->row);
    *x = (alias_rows){0};
}

static uint32_t touches(const hga_plan *plan, hga_id stage)
{
    return plan->program.stage[stage].reads | plan->program.stage[stage].writes;
}

/* Whether the first stage that uses `host` reads the alias only at the row itself, and no later stage uses the alias.
   Then each of the host's rows is written after the alias's row has been read. */
static int shares_slot(const hga_plan *plan, hga_id alias, hga_id host)
{
    hga_id first = 0, n = plan->program.n_stages;
    while (first < n && !(touches(plan, first) >> host & 1u)) first++;
    if (first == n) return 0;
    const hga_stage *s = &plan->program.stage[first];
    const stage_rule *rule = &program_rules[plan->stage[first].kind];
    uint32_t others = program_fields(s, rule->reads.source | rule->writes | (rule->reads.own & ~rule->gives_slot));
    int gives = stage_is_fused(plan, first) && !plan->stage[first].by_columns && s->out == host &&
                program_fields(s, rule->gives_slot) >> alias & 1u && !(others >> alias & 1u);
    for (hga_id later = first + 1; gives && later < n; later++) gives = !(touches(plan, later) >> alias & 1u);
    return gives;
}

int storage_may_host(const hga_plan *plan, hga_id alias, hga_id host)
{
    const hga_field *f = &plan->program.field[alias], *g = &plan->program.field[host];
    const field_storage *x = &plan->fields.storage[alias], *y = &plan->fields.storage[host];
    return f->binding == HGA_INTERNAL && !program_is_input(g->binding) && x->heads == y->heads &&
           x->columns == y->columns && g->width != HGA_WIDTH_STATE &&
           program_rows_within(&plan->nodes, f->rows, g->rows) && shares_slot(plan, alias, host);
}

/* Fields cached for study have rows of their own, and so do those of plans that leave rows of the output out. Where the
   host's rows are many, an alias's rows would move between memory and caches in vain: recycled rows of the workspace
   stay in the caches, and the host's are written past them. */
static void find_aliases(hga_plan *plan)
{
    if (plan->options.keep_fields || plan->options.rows) return;
    for (hga_id f = 1; f <= plan->program.n_fields; f++)
        for (hga_id g = 1; g <= plan->program.n_fields && !plan->fields.storage[f].host; g++)
            if (f != g && !storage_is_large(plan, g) && storage_may_host(plan, f, g))
                plan->fields.storage[f].host = g, plan->fields.storage[f].rows.n = 0;
}

/* Sets each field's size and areas, before nodes are assigned slots of the workspace. */
void storage_find(hga_plan *plan)
{
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        field_storage *h = &plan->fields.storage[f];
        *h = (field_storage){0};
        h->heads = program_heads(&plan->program, &plan->shape, f);
        h->columns = program_columns(&plan->program, &plan->shape, f);
        plan->fields.columns[f] = h->columns;
        find_areas(plan, &plan->program.field[f], h);
    }
    find_aliases(plan);
}

int64_t split_floats(const hga_plan *plan, hga_id stage)
{
    const field_storage *out = &plan->fields.storage[plan->program.stage[stage].out];
    if (kind_sums(plan->stage[stage].kind))
        return ((int64_t)out->heads * out->columns + 1) * (int64_t)(sizeof(double) / sizeof(float));
    return (int64_t)plan->shape.n_heads * (padded(plan->shape.dim_v) + 2);
}

/* A pool for threads of several domains begins at a page. */
static void begin_page(const hga_plan *plan, const row_pool *pool, int64_t *total)
{
    int64_t grain = pages_grain(pool->rows * pool->floats * (int64_t)sizeof(float)) / (int64_t)sizeof(float);
    if (plan->team.domain[0] != plan->team.domain[plan->team.n - 1]) *total = (*total + grain - 1) / grain * grain;
}

/* Sets all offsets in the workspace: pools, rows, log-sum-exps, cached fields, splits of long rows. */
hga_status storage_lay_out(hga_plan *plan)
{
    int64_t total = 0;
    hga_status st = HGA_OK;
    for (hga_id i = 0; i < plan->fields.n_pools; i++) {
        begin_page(plan, &plan->fields.pool[i], &total);
        HGA_TRY(append_rows(&total, plan->fields.pool[i].rows, plan->fields.pool[i].floats, &plan->fields.pool[i].at));
    }
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        HGA_TRY(take_area(plan, &total, &plan->fields.storage[f].rows));
        HGA_TRY(take_area(plan, &total, &plan->fields.storage[f].lse));
        HGA_TRY(take_area(plan, &total, &plan->fields.storage[f].rounded));
        HGA_TRY(append_rows(&total, plan->fields.storage[f].copy_n,
                            (int64_t)plan->fields.storage[f].heads * plan->fields.storage[f].columns,
                            &plan->fields.storage[f].copy_at));
    }
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        HGA_TRY(append_rows(&total, plan->stage[s].n_splits, split_floats(plan, s), &plan->stage[s].split_at));
    plan->most.workspace_floats = total + (total ? LINE_FLOATS : 0);
done:
    return st;
}
