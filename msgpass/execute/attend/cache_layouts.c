/* cache_layouts.c: chooses panels' tiles once and caches them with the plan (layouts.h). */
#include "attend.h"
#include "attend_solvers.h"
#include "interrupt.h"
#include "layouts.h"
#include "panel_rows.h"
#include "plan.h"
#include "stages.h"
#include "run_tiles.h"
#include "tiles.h"
#include "unknowns.h"

/* Caches what is expensive to choose: tiles with types, else panels with fewer edges than this per segment (measured:
   others gain nothing). */
enum { EDGES_OF_SEGMENT = 64 };
/* Cached layouts take at most 1/PART_OF_TENSORS of the memory of the caller's tensors. */
enum { PART_OF_TENSORS = 10 };

/* The panels being written, contiguous words. */
typedef struct writer {
    worker *w;
    const hga_allocator *a; /* not the plan's, which would retain outgrown arrays */
    int typed;              /* for calls whose scores depend on types */
    uint32_t *word;
    int64_t n, capacity;
    uint32_t batches, families; /* HAS_FAMILIES, or 0 */
    const row_panel *p;
    int64_t edges;
    hga_status st;
} writer;

static void put_word(writer *x, uint32_t word)
{
    if (!x->st) x->st = hga_grow(x->a, &x->word, &x->capacity, x->n, x->n + 1, sizeof *x->word);
    if (!x->st) x->word[x->n++] = word;
}

static void put_float(writer *x, float number)
{
    uint32_t word;
    memcpy(&word, &number, sizeof word);
    put_word(x, word);
}

/* Writes columns: their number, weights and sources; equal weights and consecutive sources as one word. */
static void put_columns(writer *x, const edge_chunk *e, uint32_t head)
{
    int alike = 1, ordered = 1;
    for (hga_id i = 1; i < e->n; i++) alike &= e->weight[i] == e->weight[0], ordered &= e->src[i] == e->src[0] + i;
    put_word(x, (uint32_t)e->n | head | (alike ? ALIKE : 0) | (ordered ? IN_ORDER : 0));
    for (hga_id i = 0; i < (alike ? 1 : e->n); i++) put_float(x, e->weight[i]);
    for (hga_id i = 0; i < (ordered ? 1 : e->n); i++) put_word(x, (uint32_t)e->src[i]);
}

static void put_types(writer *x, const edge_chunk *c, uint64_t vary)
{
    put_word(x, (uint32_t)vary), put_word(x, (uint32_t)(vary >> 32));
    for (hga_id e = 0; e < c->n; e++)
        if (!(vary >> e & 1)) put_word(x, (uint32_t)c->type[e]);
}

static void put_list(writer *x, hga_id n, const int32_t *list)
{
    int steps = n > 1;
    for (hga_id t = 2; t < n; t++) steps &= list[t] - list[t - 1] == list[1] - list[0];
    put_word(x, (uint32_t)n | (steps ? STEPS : 0));
    if (steps)
        put_word(x, (uint32_t)list[0]), put_word(x, (uint32_t)list[1] - (uint32_t)list[0]);
    else
        for (hga_id t = 0; t < n; t++) put_word(x, (uint32_t)list[t]);
}

/* Writes a part's types: their list, the picks (which lanes have which), and the number of picks of each column. */
static void put_part_types(writer *x, const tile_part *part, const part_types *of)
{
    const hga_id columns = part->last - part->first;
    hga_id picks = 0;
    put_list(x, of->n, of->list);
    for (hga_id e = 0; e < columns; e++) picks += of->many[e];
    put_word(x, (uint32_t)picks);
    for (hga_id i = 0; i < picks && of->n > SHORT_LIST; i++) put_word(x, of->pick[i]);
    for (hga_id i = 0; i < picks && of->n <= SHORT_LIST; i += 2)
        put_word(x, short_pick(of->pick[i]) | (i + 1 < picks ? (uint32_t)short_pick(of->pick[i + 1]) << 16 : 0));
    for (hga_id e = 0; e < columns; e += 4) {
        uint32_t word = 0;
        memcpy(&word, of->many + e, (size_t)least(4, columns - e));
        put_word(x, word);
    }
}

static void put_rows(writer *x, hga_id n, const lane_mask *rows)
{
    for (hga_id c = 0; c < n; c += 2) put_word(x, rows[c] | (c + 1 < n ? (uint32_t)rows[c + 1] << 16 : 0));
}

static void put_part(writer *x, const tile_part *part, hga_id n, const lane_mask *rows)
{
    put_word(x, (uint32_t)(part->group->number | part->first << 8 | part->last << 16) | (uint32_t)part->full << 24);
    for (hga_id c = part->first; c < part->last; c++) x->edges += __builtin_popcount(rows[c]);
    if (!part_is_all(part, n)) put_rows(x, n, rows);
}

static void put_chunk(writer *x, const tile_chunk *c)
{
    put_columns(x, &c->columns, (uint32_t)(c->n_parts << 8 | c->odd << 16));
    if (x->typed) put_types(x, &c->columns, c->types_vary);
    for (hga_id k = 0; k < c->n_parts; k++) {
        put_part(x, &c->part[k], c->columns.n, c->rows[k]);
        if (c->types_vary) put_part_types(x, &c->part[k], &x->w->tiles.tile.types[c->typed + k]);
    }
}

/* A tile_runner. */
static void write_batch(void *context, tile_batch *b)
{
    writer *x = context;
    uint32_t complete = 0;
    for (hga_id g = 0; g < x->p->n_groups; g++) complete |= (uint32_t)(x->p->group[g].complete != 0) << g;
    put_word(x, (uint32_t)b->n | complete << 16);
    pair_list_types(x->w, b);
    for (hga_id i = 0; i < b->n; i++) put_chunk(x, &b->chunk[i]);
    x->batches++;
    if (!x->st) x->st = interrupted();
    x->w->tiles.chooser.enough = x->st != HGA_OK;
}

/* A family_runner. */
static void write_families(void *context, row_group *g, const family_chunk *c)
{
    writer *x = context;
    put_word(x, FAMILIES | (uint32_t)g->number | c->all << 16);
    put_columns(x, c->columns, 0);
    if (x->typed) put_types(x, c->columns, 0);
    put_rows(x, c->columns->n, c->rows);
    for (hga_id e = 0; e < c->columns->n; e++) x->edges += __builtin_popcount(c->rows[e]);
    x->batches++, x->families = HAS_FAMILIES;
}

/* ---- panels ---- */

/* Whether all edges of each of the group's rows are in tiles, or in families. */
static int is_written(const row_group *g)
{
    return g->in_families ? !(requested_mask(g) & ~g->in_families) : g->tiled && !g->rest;
}

/* Chooses a panel's tiles and writes them. Returns whether they are worth caching and hold all edges of its rows. */
static int write_panel(writer *x, wave_item item, hga_id stage)
{
    worker *w = x->w;
    panel_rows rows;
    row_panel p;
    if (solver_fits(w, SOLVER_EQUAL, &item, 1)) return 0;
    load_panel(w, item);
    if (w->reader.ahead || w->reader.segments.n == 0) return 0;
    list_panel(w, item, &rows);
    find_groups(stage, rows.first, rows.n, rows.node, &p);
    open_chooser(w, stage, write_batch, write_families, x);
    const int64_t begin = x->n;
    x->batches = 0, x->families = 0, x->edges = 0, x->p = &p;
    put_word(x, 0);
    choose_tiles(&w->tiles.chooser, &p);
    int differs = x->typed && w->memory.types > 1;
    int worth = !x->st && (differs || x->edges < EDGES_OF_SEGMENT * w->reader.segments.n);
    for (hga_id g = 0; g < p.n_groups; g++) worth &= is_written(&p.group[g]);
    if (worth)
        x->word[begin] = x->batches | (x->typed ? TYPED : 0) | x->families;
    else
        x->n = begin;
    return worth;
}

/* Numbers (words) in the caller's tensors. */
static int64_t tensor_words(const hga_plan *plan)
{
    int64_t words = 0;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) {
        const field_storage *x = &plan->fields.storage[f];
        words += (int64_t)x->io_n * x->heads * x->columns;
    }
    return words;
}

static void clear_set(layout_set *x, const hga_allocator *a)
{
    hga_delete(a, x->first, x->n_phases, sizeof *x->first);
    hga_delete(a, x->panel, x->n_panels, sizeof *x->panel);
    hga_delete(a, x->word, x->words, sizeof *x->word);
    *x = (layout_set){0};
}

static void drop_layouts(const hga_plan *plan, void *what)
{
    layouts *all = what;
    clear_set(&all->plain, &plan->memory.allocator), clear_set(&all->typed, &plan->memory.allocator);
    hga_delete(&plan->memory.allocator, what, 1, sizeof(layouts));
}

/* ---- phases ---- */

/* Features of a call of the program, without or with those that depend on types. */
static unsigned features_of_calls(const hga_plan *plan, int typed)
{
    static const hga_io none;
    return call_features(&plan->program, &none) | (typed ? CALL_HAS_TYPE_BIASES : 0);
}

/* Whether any stage may use cached tiles in such calls. */
static int may_keep(const hga_plan *plan, int typed)
{
    int may = 0;
    for (hga_id s = 0; s < plan->program.n_stages; s++)
        may |= kind_attends(plan->stage[s].kind) &&
               !solver_refusal(plan, s, features_of_calls(plan, typed), SOLVER_CACHED);
    return may;
}

/* Whether one of three panels is worth caching. */
static int pays(writer *x, hga_id phase_of)
{
    const phase *ph = &x->w->plan->phases.list[phase_of];
    const hga_id some[] = {0, ph->n_panels / 2, ph->n_panels - 1};
    int worth = 0;
    for (int i = 0; i < 3 && !worth && !x->st; i++)
        worth = write_panel(x, (wave_item){phase_of, some[i], 0}, ph->stage);
    x->n = 0;
    return worth;
}

static hga_status write_phase(const layout_set *set, writer *x, hga_id i, int64_t most_words)
{
    const phase *ph = &x->w->plan->phases.list[i];
    for (hga_id panel = 0; panel < ph->n_panels; panel++) {
        const int64_t begin = x->n;
        int worth = !x->st && x->n <= most_words && write_panel(x, (wave_item){i, panel, 0}, ph->stage);
        set->panel[set->first[i] + panel] = worth ? begin : -1;
    }
    return x->st;
}

/* Counts the panels of the phases that pay, and sets each phase's first. */
static hga_status count_panels(layout_set *set, writer *x)
{
    const hga_plan *plan = x->w->plan;
    hga_status st = HGA_OK;
    HGA_TRY(hga_new(&plan->memory.allocator, plan->phases.n, sizeof *set->first, &set->first));
    set->n_phases = plan->phases.n;
    for (hga_id i = 0; i < set->n_phases; i++) {
        const phase *ph = &plan->phases.list[i];
        int kept = ph->job == JOB_ROWS && applies(x->w, ph->stage, SOLVER_CACHED) && pays(x, i);
        HGA_TRY(x->st);
        set->first[i] = kept ? set->n_panels : -1;
        set->n_panels += kept ? ph->n_panels : 0;
    }
    if (set->n_panels) HGA_TRY(hga_new(&plan->memory.allocator, set->n_panels, sizeof *set->panel, &set->panel));
done:
    if (st) set->n_panels = 0;
    return st;
}

/* At least so many words, rounded up so that an allocator with four sizes to a power of two (retain.c) wastes none. */
static int64_t whole_capacity(int64_t words)
{
    int64_t step = 16;
    while (8 * step < words) step *= 2;
    return (words + step - 1) / step * step;
}

static hga_status keep_words(layout_set *set, const writer *x)
{
    hga_status st = hga_new(&x->w->plan->memory.allocator, whole_capacity(x->n), sizeof *set->word, &set->word);
    if (st) return st;
    memcpy(set->word, x->word, (size_t)x->n * sizeof *x->word);
    set->words = whole_capacity(x->n);
    return HGA_OK;
}

/* Caches the layouts of one sort of call, if they take at most so many words. */
static hga_status keep_set(layout_set *set, worker *w, int typed, int64_t most_words)
{
    writer x = {.w = w, .a = &w->workspace->base.allocator, .typed = typed};
    hga_status st = HGA_OK;
    solvers_open(w->plan, features_of_calls(w->plan, typed), 0, w->workspace);
    HGA_TRY(count_panels(set, &x));
    for (hga_id i = 0; i < set->n_phases; i++)
        if (set->first[i] >= 0) HGA_TRY(write_phase(set, &x, i, most_words));
    const int fits = x.n > 0 && whole_capacity(x.n) <= most_words;
    if (fits) HGA_TRY(keep_words(set, &x));
done:
    hga_delete(x.a, x.word, x.capacity, sizeof *x.word);
    if (!set->words) clear_set(set, &w->plan->memory.allocator);
    return st;
}

static hga_status find(worker *w, void *context)
{
    layouts *all = context;
    return keep_set(&all->plain, w, 0, tensor_words(w->plan) / PART_OF_TENSORS);
}

static hga_status find_typed(worker *w, void *context)
{
    layouts *all = context;
    worker_begin(w);
    return keep_set(&all->typed, w, 1, tensor_words(w->plan) / PART_OF_TENSORS - all->plain.words);
}

/* Caches the tiles of calls without types; layouts_learn_types adds those of the others. */
static hga_status make_layouts(const hga_plan *plan)
{
    layouts *all = NULL;
    hga_status st = hga_new_zero(&plan->memory.allocator, 1, sizeof *all, &all);
    if (st) return st;
    if (may_keep(plan, 0)) st = worker_look(plan, find, all);
    if (st)
        hga_delete(&plan->memory.allocator, all, 1, sizeof *all);
    else
        plan->cache->layouts = (cached_object){all, drop_layouts};
    return st;
}

hga_status layouts_open(const hga_plan *plan, hga_workspace *workspace)
{
    hga_status st = HGA_OK;
    pthread_mutex_lock(&plan->cache->lock);
    if (!plan->cache->layouts.what) st = make_layouts(plan);
    workspace->layouts = plan->cache->layouts.what;
    pthread_mutex_unlock(&plan->cache->lock);
    return st;
}

/* The first call with types chooses and caches the tiles of such calls. */
hga_status layouts_learn_types(const hga_plan *plan, const hga_workspace *workspace)
{
    hga_status st = HGA_OK;
    unsigned some = 0;
    for (hga_id s = 0; s < plan->program.n_stages; s++) some |= workspace->solvers[s];
    if (!workspace->layouts || !(workspace->call_has & CALL_HAS_TYPES) || !(some >> SOLVER_CACHED & 1)) return HGA_OK;
    pthread_mutex_lock(&plan->cache->lock);
    layouts *all = plan->cache->layouts.what;
    if (!all->knows_types && may_keep(plan, 1)) st = worker_look(plan, find_typed, all);
    all->knows_types |= !st;
    pthread_mutex_unlock(&plan->cache->lock);
    return st;
}
