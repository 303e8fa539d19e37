/* keep_layouts.c: which tiles panels have, found once and left with the plan (layouts.h). */
#include "layouts.h"
#include "strips.h"

/* Kept is what is dear to choose: panels with fewer edges than this a segment (measured: others gain nothing). */
enum { EDGES_OF_SEGMENT = 64 };
/* All of it takes at most so much of the caller's tensors. */
enum { PART_OF_TENSORS = 10 };
enum { BLOCK_WORDS = 1 << 12 };

/* A panel that is being written. */
typedef struct writer {
    const hga_allocator *a;
    uint32_t *word;
    int64_t n, room;
    uint32_t batches;
    const row_panel *p;
    int64_t edges;
    hga_status st;
} writer;

static void put(writer *x, uint32_t word)
{
    if (!x->st) x->st = hga_grow(x->a, &x->word, &x->room, x->n, x->n + 1, sizeof *x->word);
    if (!x->st) x->word[x->n++] = word;
}

static void put_float(writer *x, float number)
{
    uint32_t word;
    memcpy(&word, &number, sizeof word);
    put(x, word);
}

static void put_columns(writer *x, const tile_chunk *c)
{
    const edge_chunk *e = &c->columns;
    int alike = 1;
    for (hga_id i = 1; i < e->n; i++) alike &= e->weight[i] == e->weight[0];
    put(x, (uint32_t)(e->n | c->n_parts << 8 | c->odd << 16) | (alike ? ALIKE : 0));
    for (hga_id i = 0; i < (alike ? 1 : e->n); i++) put_float(x, e->weight[i]);
    for (hga_id i = 0; i < e->n; i++) put(x, (uint32_t)e->src[i]);
}

static void put_part(writer *x, const tile_part *part, hga_id n, const lanes *rows)
{
    put(x, (uint32_t)(part->group->number | part->first << 8 | part->last << 16) | (uint32_t)part->full << 24);
    for (hga_id c = part->first; c < part->last; c++) x->edges += __builtin_popcount(rows[c]);
    for (hga_id c = 0; c < n && !part_is_all(part, n); c += 2)
        put(x, rows[c] | (c + 1 < n ? (uint32_t)rows[c + 1] << 16 : 0));
}

/* A tile_runner. */
static void write_batch(void *context, tile_batch *b)
{
    writer *x = context;
    uint32_t complete = 0;
    for (hga_id g = 0; g < x->p->n_groups; g++) complete |= (uint32_t)(x->p->group[g].complete != 0) << g;
    put(x, (uint32_t)b->n | complete << 16);
    for (hga_id i = 0; i < b->n; i++) {
        put_columns(x, &b->chunk[i]);
        for (hga_id k = 0; k < b->chunk[i].n_parts; k++)
            put_part(x, &b->chunk[i].part[k], b->chunk[i].columns.n, b->chunk[i].rows[k]);
    }
    x->batches++;
}

/* A family_runner: rows that have no tile are not kept. */
static void leave_families(void *context, const row_group *g, const strip *s, hga_id n)
{
    (void)context, (void)g, (void)s, (void)n;
}

/* ---- panels ---- */

/* Choose a panel's tiles, and write them; are they worth keeping, and all that its rows have? */
static int write_panel(worker *w, wave_item item, hga_id stage, writer *x)
{
    tile_chooser *t = &w->chooser;
    panel_rows rows;
    row_panel p;
    load_panel(w, item);
    if (w->reader.ahead || w->reader.n_segments == 0) return 0;
    list_panel(w, item, &rows);
    find_groups(stage, rows.first, rows.n, rows.node, &p);
    t->reader = &w->reader, t->run = write_batch, t->run_families = families_are_fit(w, stage) ? leave_families : NULL;
    t->context = x, t->batch->stage = stage,
    t->strict = t->types = t->families_have_types = t->positions = t->leaves_out = 0;
    x->n = 0, x->batches = 0, x->edges = 0, x->p = &p;
    put(x, 0);
    choose_tiles(t, &p);
    int worth = !x->st && x->edges < EDGES_OF_SEGMENT * w->reader.n_segments;
    for (hga_id g = 0; g < p.n_groups; g++) worth &= p.group[g].tiled && !p.group[g].rest;
    if (worth) x->word[0] = x->batches;
    return worth;
}

/* Words of the caller's tensors. */
static int64_t tensor_words(const hga_plan *plan)
{
    int64_t words = 0;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        const field_storage *x = &plan->storage[f];
        words += (int64_t)x->io_n * x->heads * x->columns;
    }
    return words;
}

static hga_status add_block(layouts *x, const hga_allocator *a, int64_t room)
{
    layout_block *b = NULL;
    hga_status st = hga_new_zero(a, 1, sizeof *b, &b);
    if (st) return st;
    st = hga_new(a, room, sizeof *b->word, &b->word);
    b->room = room, b->next = x->block, x->block = b;
    if (st) b->room = 0;
    x->words += b->room;
    return st;
}

static hga_status keep_panel(layouts *x, const writer *from, const hga_allocator *a, const uint32_t **out)
{
    layout_block *b = x->block;
    if (!b || b->room - b->used < from->n) {
        hga_status st = add_block(x, a, most(from->n, BLOCK_WORDS));
        if (st) return st;
        b = x->block;
    }
    *out = memcpy(b->word + b->used, from->word, (size_t)from->n * sizeof *from->word);
    b->used += from->n;
    return HGA_OK;
}

static void clear(layouts *x, const hga_allocator *a)
{
    for (layout_block *b = x->block, *next; b; b = next) {
        next = b->next;
        hga_delete(a, b->word, b->room, sizeof *b->word);
        hga_delete(a, b, 1, sizeof *b);
    }
    hga_delete(a, x->first, x->n_phases, sizeof *x->first);
    hga_delete(a, x->panel, x->n_panels, sizeof *x->panel);
    *x = (layouts){0};
}

static void drop(const hga_plan *plan, void *what)
{
    clear(what, &plan->allocator);
    hga_delete(&plan->allocator, what, 1, sizeof(layouts));
}

/* ---- phases ---- */

/* Does the phase attend in tiles, by position? */
static int has_tiles(const hga_plan *plan, const phase *ph)
{
    if (ph->job != JOB_ROWS || stages_end(ph) != ph->stage + 1 || plan->stage[ph->stage].strays) return 0;
    return plan_kernel(plan, ph->stage)->panel == attend_panel && plan->stage[ph->stage].relation.n_blocks &&
           (ph->by_position || !plan->stage[ph->stage].relation.dst_order);
}

/* Executions of some plans always run some rows, or have another chooser. */
static int may_keep(const hga_plan *plan)
{
    int tiles = 0;
    for (int64_t i = 0; i < plan->n_phases; i++) tiles |= has_tiles(plan, &plan->phase[i]);
    return tiles && !plan->ranks && !plan->options.slices && !plan->options.strict_rows;
}

/* Of three panels, is one worth it? */
static int pays(worker *w, hga_id phase_of, writer *x)
{
    const phase *ph = &w->plan->phase[phase_of];
    const hga_id some[] = {0, ph->n_panels / 2, ph->n_panels - 1};
    int worth = 0;
    for (int i = 0; i < 3 && !worth; i++) worth = write_panel(w, (wave_item){phase_of, some[i], 0}, ph->stage, x);
    return worth;
}

static hga_status keep_phase(layouts *all, worker *w, hga_id i, writer *x)
{
    const phase *ph = &w->plan->phase[i];
    const hga_allocator *a = &w->plan->allocator;
    const int64_t most_words = tensor_words(w->plan) / PART_OF_TENSORS;
    hga_status st = HGA_OK;
    for (hga_id panel = 0; panel < ph->n_panels && all->words <= most_words; panel++) {
        int worth = write_panel(w, (wave_item){i, panel, 0}, ph->stage, x);
        HGA_TRY(x->st);
        if (worth) HGA_TRY(keep_panel(all, x, a, &all->panel[all->first[i] + panel]));
    }
done:
    return st;
}

/* Where each phase's panels are, of those that pay. */
static hga_status count_panels(layouts *all, worker *w, writer *x)
{
    const hga_plan *plan = w->plan;
    hga_status st = HGA_OK;
    HGA_TRY(hga_new(&plan->allocator, plan->n_phases, sizeof *all->first, &all->first));
    all->n_phases = plan->n_phases;
    for (hga_id i = 0; i < all->n_phases; i++) {
        int kept = has_tiles(plan, &plan->phase[i]) && pays(w, i, x);
        HGA_TRY(x->st);
        all->first[i] = kept ? all->n_panels : -1;
        all->n_panels += kept ? plan->phase[i].n_panels : 0;
    }
    if (all->n_panels) st = hga_new_zero(&plan->allocator, all->n_panels, sizeof *all->panel, &all->panel);
done:
    return st;
}

static hga_status find(worker *w, void *context)
{
    const hga_plan *plan = w->plan;
    layouts *all = context;
    writer x = {.a = &plan->allocator};
    hga_status st = HGA_OK;
    HGA_TRY(count_panels(all, w, &x));
    for (hga_id i = 0; i < all->n_phases; i++)
        if (all->first[i] >= 0) HGA_TRY(keep_phase(all, w, i, &x));
done:
    hga_delete(x.a, x.word, x.room, sizeof *x.word);
    if (st || all->words > tensor_words(plan) / PART_OF_TENSORS) clear(all, x.a);
    return st;
}

static hga_status make(const hga_plan *plan)
{
    layouts *all = NULL;
    hga_status st = hga_new_zero(&plan->allocator, 1, sizeof *all, &all);
    if (st) return st;
    if (may_keep(plan)) st = worker_look(plan, find, all);
    if (st)
        hga_delete(&plan->allocator, all, 1, sizeof *all);
    else
        plan->keeper->layouts = (plan_keepsake){all, drop};
    return st;
}

hga_status layouts_open(const hga_plan *plan, hga_workspace *workspace)
{
    hga_status st = HGA_OK;
    pthread_mutex_lock(&plan->keeper->lock);
    if (!plan->keeper->layouts.what) st = make(plan);
    workspace->layouts = plan->keeper->layouts.what;
    pthread_mutex_unlock(&plan->keeper->lock);
    return st;
}
