/* allocate.c: rows of the workspace that hold one node after another. A node is allocated a row before the first panel
   that writes it and frees it after the last panel that uses it: "register allocation" over the order of the panels.
   The row freed last is allocated first, since it is still in the cache.

   Rows of one length form a pool, for all fields; within it each thread has rows of its own, in the memory of its
   domain. */
#include "interrupt.h"
#include "plan.h"

/* Contiguous rows. */
typedef struct slot_run {
    hga_id first, n;
} slot_run;

/* A thread's rows of one pool: how many there are, and those that are free. */
typedef struct slot_stack {
    slot_run *free;
    int64_t n_free, capacity;
    hga_id rows, before; /* before: number of other threads' rows that precede them */
} slot_stack;

typedef struct assignment {
    hga_plan *plan;
    slot_stack *stack;                /* [n_pools][threads] */
    int64_t n_items, *taker, *giver;  /* [n_items]: the first range that begins or ends there, -1 */
    int64_t *next_taker, *next_giver; /* [n]: by range */
} assignment;

static int is_rounded(hga_id storage) { return storage >= STORAGE_ROUNDED; }
static field_storage *storage_of(hga_plan *plan, hga_id storage)
{
    return &plan->fields.storage[is_rounded(storage) ? storage - STORAGE_ROUNDED : storage];
}

/* Whether a relation's order writes rows of the field scattered. Then all live to the end; if the caller has the rows,
   the workspace has only their log-sum-exps, which need not be recycled. */
static int written_in_an_order(const hga_plan *plan, hga_id field)
{
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        if (plan->program.stage[s].writes >> field & 1u && plan->stage[s].relation.dst_order) return 1;
    return 0;
}

/* Whether panels that write the field run head by head, all over the same columns. Their log-sum-exps are complete with
   the last head: if rows of them were recycled, a run of panels would end where they do, and copy its columns anew. */
static int written_head_by_head(const hga_plan *plan, hga_id field)
{
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        if (plan->program.stage[s].writes >> field & 1u && plan->stage[s].waits_for_heads) return 1;
    return 0;
}

int slots_recycle(const hga_plan *plan, hga_id storage)
{
    if (plan->options.keep_fields || rows_stay(plan)) return 0;
    if (is_rounded(storage)) return plan->fields.storage[storage - STORAGE_ROUNDED].rounded.n > 0;
    const field_storage *x = &plan->fields.storage[storage];
    if (x->host || x->rows.n) return 1;
    return x->lse.n && !written_in_an_order(plan, storage) && !written_head_by_head(plan, storage);
}

/* ---- a thread's rows ---- */

/* n rows for a thread: those freed last, then new ones. */
static hga_status take_slots(const hga_plan *plan, slot_stack *s, hga_id n, hga_id *slot)
{
    (void)plan;
    while (n > 0) {
        slot_run fresh = {s->rows, n}, *top = s->n_free ? &s->free[s->n_free - 1] : &fresh;
        hga_id many = top->n < n ? top->n : n;
        for (hga_id i = 0; i < many; i++) slot[i] = top->first + i;
        top->first += many, top->n -= many;
        if (top == &fresh)
            s->rows += many;
        else if (top->n == 0)
            s->n_free--;
        slot += many, n -= many;
    }
    return HGA_OK;
}

static hga_status give_rows(const hga_plan *plan, slot_stack *s, hga_id n, hga_id *slot)
{
    hga_status st = HGA_OK;
    for (hga_id i = 0, many; i < n && !st; i += many) {
        for (many = 1; i + many < n && slot[i + many] == slot[i] + many;) many++;
        st = hga_grow(&plan->memory.allocator, &s->free, &s->capacity, s->n_free, s->n_free + 1, sizeof *s->free);
        if (!st) s->free[s->n_free++] = (slot_run){slot[i], many};
    }
    return st;
}

/* Adds the offset of the thread's rows: until then slots count these alone. */
static hga_status move_slots(const hga_plan *plan, slot_stack *s, hga_id n, hga_id *slot)
{
    (void)plan;
    for (hga_id i = 0; i < n; i++) slot[i] += s->before;
    return HGA_OK;
}

typedef hga_status (*row_change)(const hga_plan *, slot_stack *, hga_id, hga_id *);

/* ---- live ranges ---- */

static hga_id pool_of(const hga_plan *plan, const area *x)
{
    hga_id i = 0;
    while (!pool_is_of(&plan->fields.pool[i], x)) i++;
    return i;
}

/* Allocates or frees the rows of nodes [first, end), as far as both the area and the range contain them. */
static hga_status change_span(assignment *a, area *x, const live_range *l, int64_t first, int64_t end,
                              row_change change)
{
    if (first < x->first) first = x->first;
    if (first < l->first) first = l->first;
    if (end > (int64_t)x->first + x->n) end = (int64_t)x->first + x->n;
    if (end > (int64_t)l->first + l->n) end = (int64_t)l->first + l->n;
    if (first >= end) return HGA_OK;
    slot_stack *s = &a->stack[(int64_t)pool_of(a->plan, x) * a->plan->team.n + l->thread];
    return change(a->plan, s, (hga_id)(end - first), x->slot + (first - x->first));
}

/* Changes the rows of nodes that are no aliases. */
static hga_status change_rest(assignment *a, field_storage *h, const live_range *l, row_change change)
{
    hga_status st = HGA_OK;
    for (hga_id v = l->first, last = l->first + l->n - 1, end; v <= last && !st; v = end + 1) {
        while (v <= last && is_alias(&h->aliases, v)) v++;
        for (end = v; end < last && !is_alias(&h->aliases, end + 1);) end++;
        st = change_span(a, &h->rows, l, v, (int64_t)end + 1, change);
    }
    return st;
}

/* Changes the rows that are not in the caller's tensor. */
static hga_status change_rows(assignment *a, hga_id f, const live_range *l, row_change change)
{
    field_storage *h = &a->plan->fields.storage[f];
    hga_status st = HGA_OK;
    int64_t at = 0;
    if (h->aliases.n) return change_rest(a, h, l, change);
    for (rows_here x = {0}; !st && rows_here_next(a->plan, f, &x); at = (int64_t)x.first + x.n)
        st = change_span(a, &h->rows, l, at, x.first, change);
    return st ? st : change_span(a, &h->rows, l, at, INT32_MAX, change);
}

/* Changes a range: the rows that are not the caller's, and log-sum-exps, including the aliases'; or rounded rows of all
   nodes. */
static hga_status change_range(assignment *a, const live_range *l, row_change change)
{
    field_storage *h = storage_of(a->plan, l->storage);
    if (is_rounded(l->storage)) return change_span(a, &h->rounded, l, 0, INT32_MAX, change);
    hga_status st = change_rows(a, l->storage, l, change);
    for (hga_id f = 1; !st && f <= a->plan->program.n_fields; f++)
        if (a->plan->fields.storage[f].lse.n && (f == l->storage || a->plan->fields.storage[f].host == l->storage))
            st = change_span(a, &a->plan->fields.storage[f].lse, l, 0, INT32_MAX, change);
    return st;
}

/* Allocates slots for an area that has none yet, in the pool of rows of its length. */
static hga_status open_area(hga_plan *plan, area *x)
{
    if (x->n == 0 || x->slot) return HGA_OK;
    hga_id i = 0;
    while (i < plan->fields.n_pools && !pool_is_of(&plan->fields.pool[i], x)) i++;
    if (i == plan->fields.n_pools)
        plan->fields.pool[plan->fields.n_pools++] = (row_pool){.floats = x->floats, .own_pool = x->own_pool};
    plan->fields.pool[i].nodes += x->n;
    if (plan->fields.pool[i].nodes > INT32_MAX)
        return hga_fail(HGA_EOVERFLOW, "%lld rows of one length do not fit their numbers",
                        (long long)plan->fields.pool[i].nodes);
    return hga_new_zero(&plan->memory.allocator, x->n, sizeof *x->slot, &x->slot);
}

static hga_status open_storage(hga_plan *plan, hga_id storage)
{
    field_storage *h = storage_of(plan, storage);
    if (is_rounded(storage)) return open_area(plan, &h->rounded);
    hga_status st = open_area(plan, &h->rows);
    for (hga_id f = 1; !st && f <= plan->program.n_fields; f++)
        if (f == storage || plan->fields.storage[f].host == storage) st = open_area(plan, &plan->fields.storage[f].lse);
    return st;
}

/* Lists for each item the ranges that begin with it and those that end. */
static hga_status list_ranges(assignment *a, const live_range *ranges, int64_t n)
{
    hga_status st = HGA_OK;
    int64_t items = a->n_items;
    HGA_TRY(hga_new(&a->plan->memory.allocator, items, sizeof *a->taker, &a->taker));
    HGA_TRY(hga_new(&a->plan->memory.allocator, items, sizeof *a->giver, &a->giver));
    HGA_TRY(hga_new(&a->plan->memory.allocator, n, sizeof *a->next_taker, &a->next_taker));
    HGA_TRY(hga_new(&a->plan->memory.allocator, n, sizeof *a->next_giver, &a->next_giver));
    for (int64_t i = 0; i < items; i++) a->taker[i] = a->giver[i] = -1;
    for (int64_t i = n - 1; i >= 0; i--) {
        const live_range *l = &ranges[i];
        HGA_TRY(open_storage(a->plan, l->storage));
        a->next_taker[i] = a->taker[l->begin], a->taker[l->begin] = i;
        if (l->end >= 0) a->next_giver[i] = a->giver[l->end], a->giver[l->end] = i;
        HGA_TRY(interrupted_at(i));
    }
done:
    return st;
}

/* Allocates a panel's rows before it frees those that it reads. */
static hga_status walk_items(assignment *a, const live_range *ranges)
{
    hga_status st = HGA_OK;
    for (int64_t i = 0; i < a->n_items; i++) {
        for (int64_t l = a->taker[i]; l >= 0; l = a->next_taker[l]) HGA_TRY(change_range(a, &ranges[l], take_slots));
        for (int64_t l = a->giver[i]; l >= 0; l = a->next_giver[l]) HGA_TRY(change_range(a, &ranges[l], give_rows));
        HGA_TRY(interrupted_at(i));
    }
done:
    return st;
}

/* The first row after `rows` that shares no page with them. */
static int64_t row_on_new_page(const row_pool *pool, int64_t rows, int64_t grain)
{
    int64_t bytes = pool->floats * (int64_t)sizeof(float), end = (rows * bytes + grain - 1) / grain * grain;
    return (end + bytes - 1) / bytes;
}

/* Places the threads' rows one after another; where the domain changes a page begins. */
static void join_threads(const assignment *a, hga_id i)
{
    const hga_plan *plan = a->plan;
    row_pool *pool = &a->plan->fields.pool[i];
    slot_stack *s = a->stack + (int64_t)i * plan->team.n;
    int64_t all = 0;
    for (hga_id t = 0; t < plan->team.n; t++) all += s[t].rows;
    int64_t grain = pages_grain(all * pool->floats * (int64_t)sizeof(float));
    for (hga_id t = 0; t < plan->team.n; t++) {
        if (t > 0 && plan->team.domain[t] != plan->team.domain[t - 1]) {
            int64_t next = row_on_new_page(pool, pool->rows, grain);
            if (next + all < INT32_MAX) pool->rows = next;
        }
        s[t].before = (hga_id)pool->rows;
        pool->rows += s[t].rows;
    }
}

/* Frees the stacks of free slots and the lists of ranges. */
static void clear_assignment(assignment *a, int64_t n)
{
    const hga_allocator *x = &a->plan->memory.allocator;
    int64_t stacks = (int64_t)a->plan->fields.n_pools * a->plan->team.n;
    for (int64_t i = 0; a->stack && i < stacks; i++)
        hga_delete(x, a->stack[i].free, a->stack[i].capacity, sizeof *a->stack[i].free);
    hga_delete(x, a->stack, stacks, sizeof *a->stack);
    hga_delete(x, a->taker, a->n_items, sizeof *a->taker);
    hga_delete(x, a->giver, a->n_items, sizeof *a->giver);
    hga_delete(x, a->next_taker, n, sizeof *a->next_taker);
    hga_delete(x, a->next_giver, n, sizeof *a->next_giver);
}

/* Walks along the items; allocates rows where ranges begin and frees them where they end. */
hga_status slots_assign(hga_plan *plan, const live_range *ranges, int64_t n, int64_t n_items)
{
    hga_status st = HGA_OK;
    assignment a = {.plan = plan, .n_items = n_items};
    plan->fields.n_pools = 0;
    if (n == 0) return HGA_OK;
    HGA_TRY(list_ranges(&a, ranges, n));
    HGA_TRY(
        hga_new_zero(&plan->memory.allocator, (int64_t)plan->fields.n_pools * plan->team.n, sizeof *a.stack, &a.stack));
    HGA_TRY(walk_items(&a, ranges));
    for (hga_id i = 0; i < plan->fields.n_pools; i++) join_threads(&a, i);
    for (int64_t i = 0; i < n && plan->team.n > 1; i++) HGA_TRY(change_range(&a, &ranges[i], move_slots));
done:
    clear_assignment(&a, n);
    return st;
}

/* Forgets where the rows of every field are, and the aliases. */
void slots_clear(hga_plan *plan)
{
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        field_storage *h = &plan->fields.storage[f];
        hga_delete(&plan->memory.allocator, h->rows.slot, h->rows.n, sizeof *h->rows.slot);
        hga_delete(&plan->memory.allocator, h->lse.slot, h->lse.n, sizeof *h->lse.slot);
        hga_delete(&plan->memory.allocator, h->rounded.slot, h->rounded.n, sizeof *h->rounded.slot);
        h->rows.slot = h->lse.slot = h->rounded.slot = NULL;
        aliases_clear(plan, f);
    }
}
