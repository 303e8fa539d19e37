/* subtrees.c: which programs run backward by subtrees, and where their trees are cut. */
#include "fast_columns.h"
#include "live.h"
#include "plan.h"

#include <string.h>

enum { SHRINKS = 16, PAIR = 2 * KERNEL_TILE };

/* ---- which programs ---- */

static int is_sum_in_place(const stage_plan *plan, const hga_stage *s)
{
    int sums = plan->kind == KIND_MEAN || plan->kind == KIND_SUM;
    return sums && s->relation != HGA_TREE_DOWN && s->value == s->out && s->message != HGA_SCALED;
}

/* Is the stage a sum, up the tree or perhaps along a relation that is part of it (shares_create), of the caller's
   rows for tokens alone, which no stage has read before? */
static const char *note_sum(const hga_plan *plan, hga_id s, subtrees *t, reason *buffer)
{
    const hga_stage *stage = &plan->program.stage[s];
    hga_id first, n = range_of_rows(plan, plan->program.field[stage->out].io, &first);
    if (!is_sum_in_place(&plan->stage[s], stage))
        return reason_of(buffer, "stage '%s' neither attends nor sums up children in place", stage->name);
    if (t->sum[stage->out] >= 0) return reason_of(buffer, "stage '%s' sums a field up again", stage->name);
    if (t->query) return reason_of(buffer, "stage '%s' sums up behind one that attends", stage->name);
    if (!program_is_input(plan->program.field[stage->out].binding) || (n > 0 && first + n > plan->nodes.level_ptr[1]))
        return reason_of(buffer, "field '%s' is not an input of tokens alone", plan->program.field[stage->out].name);
    t->sum[stage->out] = s;
    return NULL;
}

/* Does it attend by nodes' own order, and continue the state of earlier stages? */
static const char *note_attended(const hga_plan *plan, hga_id s, subtrees *t, reason *buffer)
{
    const hga_stage *stage = &plan->program.stage[s];
    const hga_relation *r = &plan->stage[s].relation;
    int is_first = !t->query;
    if (is_first) t->query = stage->query, t->key = stage->key, t->value = stage->value, t->out = stage->out;
    t->last_attended = s;
    if (r->dst_order || r->src_order) return reason_of(buffer, "'%s' has an order of its own", r->name);
    if (t->spreads) return reason_of(buffer, "stage '%s' attends behind states that spread", stage->name);
    if (!is_first && plan->stage[s].kind != KIND_ATTEND_MORE)
        return reason_of(buffer, "stage '%s' attends anew", stage->name);
    return NULL;
}

static const char *note_spread(const hga_plan *plan, hga_id s, subtrees *t, reason *buffer)
{
    const hga_stage *stage = &plan->program.stage[s];
    int known = t->query && stage->out == t->out && stage->relation == HGA_TREE_DOWN && !t->spreads++;
    return known ? NULL : reason_of(buffer, "stage '%s' spreads other states", stage->name);
}

/* Are the fields the caller's, and are there no others? Each then has another width, so that all stages attend with
   the same fields. */
static const char *fields_refuse(const hga_plan *plan, const subtrees *t, reason *buffer)
{
    const hga_program *p = &plan->program;
    for (hga_id f = 1; f <= p->n_fields; f++) {
        if (!field_is_used(p, f)) continue;
        if (f != t->query && f != t->key && f != t->value && f != t->out)
            return reason_of(buffer, "field '%s' is not one that is attended with", p->field[f].name);
        if (storage_is_rounded(plan, f)) return "operands are rounded to bfloat16";
        if (f != t->out && !program_is_input(p->field[f].binding))
            return reason_of(buffer, "field '%s' is not the caller's", p->field[f].name);
    }
    return p->field[t->out].binding == HGA_IO_OUT ? NULL : "what is attended to is not the output";
}

/* Finds sums of children, then stages that attend, then perhaps states merged down the tree; or returns why the
   stages are others. */
static const char *find_tree_stages(const hga_plan *plan, subtrees *t, reason *buffer)
{
    const char *why = NULL;
    int trees;
    for (hga_id f = 0; f < HGA_FIELD_SLOTS; f++) t->sum[f] = -1;
    for (hga_id s = 0; !why && s < plan->program.n_stages; s++) {
        stage_kind kind = plan->stage[s].kind;
        why = kind_attends(kind)    ? note_attended(plan, s, t, buffer)
              : kind == KIND_SPREAD ? note_spread(plan, s, t, buffer)
                                    : note_sum(plan, s, t, buffer);
    }
    if (why) return why;
    if (!t->query) return "no stage attends";
    trees = t->spreads;
    for (hga_id f = 1; f <= plan->program.n_fields; f++) trees |= t->sum[f] >= 0;
    if (!trees) return "no stage goes up or down a tree";
    if (columns_stage(plan) >= 0) return "keys and values are only attended to";
    return fields_refuse(plan, t, buffer);
}

const char *subtrees_refuse(const hga_plan *plan, reason *buffer)
{
    subtrees none = {0};
    return find_tree_stages(plan, &none, buffer);
}

/* ---- cuts ---- */

/* Do the spans of a level's nodes ascend? */
static int is_in_order(const hga_nodes *nodes, hga_id l)
{
    int in_order = 1;
    hga_id before = 0;
    for (hga_id v = nodes->level_ptr[l]; v < nodes->level_ptr[l + 1] && in_order; v++) {
        in_order = nodes->span_first[v] <= nodes->span_last[v] && nodes->span_first[v] >= before;
        before = nodes->span_first[v];
    }
    return in_order;
}

/* Levels that are cut: as far up as a subtree has a few nodes of each. */
static hga_id count_cut_levels(const hga_nodes *nodes)
{
    hga_id l = 1;
    while (l < nodes->n_levels &&
           (int64_t)(nodes->level_ptr[l + 1] - nodes->level_ptr[l]) * SHRINKS >= nodes->level_ptr[1] &&
           is_in_order(nodes, l))
        l++;
    return l;
}

/* inside[i]: tokens i - 1 and i belong to one node of a level that is cut. */
static void mark_insides(const hga_nodes *nodes, hga_id levels, uint8_t *inside)
{
    for (hga_id v = nodes->level_ptr[1]; v < nodes->level_ptr[levels]; v++)
        for (hga_id i = nodes->span_first[v] + 1; i <= nodes->span_last[v]; i++) inside[i] = 1;
}

static hga_id tokens_needed(const hga_plan *plan)
{
    hga_id n = SUBTREE_NUMBERS / (plan->shape.dim + plan->shape.dim_v), forced = (hga_id)plan->options.gradient_subtree;
    return forced ? forced : n < SUBTREE_LEAST ? SUBTREE_LEAST : n > SUBTREE_MOST ? SUBTREE_MOST : n;
}

/* Where the next subtree begins, if this one begins at `first`. */
static hga_id next_cut(const hga_plan *plan, const uint8_t *inside, hga_id first)
{
    hga_id n = plan->nodes.level_ptr[1], most = n - first, requested = tokens_needed(plan);
    hga_id at = requested < most ? first + requested : n;
    while (at < n && inside[at]) at++;
    return at;
}

/* Lists where each level's nodes of each subtree begin: a node belongs where its first token does. */
static hga_status list_begins(const hga_plan *plan, const uint8_t *inside, subtrees *s)
{
    hga_status st = HGA_OK;
    const hga_nodes *nodes = &plan->nodes;
    hga_id tokens = nodes->level_ptr[1], i = 0;
    for (hga_id at = 0; at < tokens; at = next_cut(plan, inside, at)) s->n++;
    HGA_TRY(hga_new(&plan->memory.allocator, ((int64_t)s->n + 1) * s->n_levels, sizeof *s->begin, &s->begin));
    for (hga_id at = 0; at < tokens; at = next_cut(plan, inside, at), i++) s->begin[(ptrdiff_t)i * s->n_levels] = at;
    for (hga_id l = 1; l < s->n_levels; l++) {
        hga_id v = nodes->level_ptr[l];
        for (i = 0; i < s->n; i++) {
            while (v < nodes->level_ptr[l + 1] && nodes->span_first[v] < s->begin[(ptrdiff_t)i * s->n_levels]) v++;
            s->begin[(ptrdiff_t)i * s->n_levels + l] = v;
        }
    }
    for (hga_id l = 0; l < s->n_levels; l++) s->begin[(ptrdiff_t)s->n * s->n_levels + l] = nodes->level_ptr[l + 1];
done:
    return st;
}

/* Cuts the tokens between nodes of the lower levels, and lists where each subtree begins on each of these. */
static hga_status cut_tree(const hga_plan *plan, subtrees *s)
{
    hga_status st = HGA_OK;
    uint8_t *inside = NULL;
    hga_id n = plan->nodes.level_ptr[1];
    s->n_levels = count_cut_levels(&plan->nodes);
    HGA_TRY(hga_new_zero(&plan->memory.allocator, (int64_t)n + 1, 1, &inside));
    mark_insides(&plan->nodes, s->n_levels, inside);
    HGA_TRY(list_begins(plan, inside, s));
done:
    hga_delete(&plan->memory.allocator, inside, (int64_t)n + 1, 1);
    return st;
}

/* ---- rows that are attended together ---- */

/* A pair of groups, as far as it lies on one level: rows [first, end), and the part that they belong to. */
typedef struct level_pair {
    row_range rows;
    hga_id part;
} level_pair;

/* The pair that begins at row `first` of level l. */
static row_range cell_at(const hga_plan *plan, hga_id l, hga_id first)
{
    hga_id end = (first / PAIR + 1) * PAIR, level = plan->nodes.level_ptr[l + 1];
    return (row_range){first, end < level ? end : level};
}

/* Lists all pairs, in order of their rows, each with the first part that has a row of it; returns how many. */
static hga_id find_cells(const hga_plan *plan, const subtrees *s, level_pair *cells)
{
    hga_id n = 0;
    for (hga_id l = 0; l < plan->nodes.n_levels; l++)
        for (hga_id at = plan->nodes.level_ptr[l], i = 0; at < plan->nodes.level_ptr[l + 1]; at = cells[n++].rows.end) {
            while (l < s->n_levels && subtree_level(s, i, l).end <= at) i++;
            cells[n] = (level_pair){cell_at(plan, l, at), l < s->n_levels ? i + 1 : 0};
        }
    return n;
}

/* Lists every part's pairs as ranges, `at` being the index of its next one; or, without s->rows, only counts them. */
static void list_ranges(const level_pair *cells, hga_id n, subtrees *s, hga_id *at)
{
    for (hga_id i = 0; i < n; i++) {
        const level_pair *x = &cells[i];
        int starts = i == 0 || x[-1].part != x->part;
        if (!s->rows) {
            s->ptr[x->part + 1] += starts;
            continue;
        }
        at[x->part] += starts;
        row_range *to = &s->rows[at[x->part] - 1];
        *to = (row_range){starts ? x->rows.first : to->first, x->rows.end};
    }
}

/* Lists ranges of rows by the part that they belong to: the top or a subtree. */
static hga_status list_rows(const hga_plan *plan, subtrees *s)
{
    hga_status st = HGA_OK;
    level_pair *cells = NULL;
    hga_id *at = NULL, most = plan->nodes.n / PAIR + 1 + plan->nodes.n_levels, parts = s->n + 1;
    HGA_TRY(hga_new(&plan->memory.allocator, most, sizeof *cells, &cells));
    HGA_TRY(hga_new(&plan->memory.allocator, parts, sizeof *at, &at));
    HGA_TRY(hga_new_zero(&plan->memory.allocator, (int64_t)parts + 1, sizeof *s->ptr, &s->ptr));
    hga_id n = find_cells(plan, s, cells);
    list_ranges(cells, n, s, at);
    for (hga_id i = 0; i < parts; i++) s->ptr[i + 1] += s->ptr[i], at[i] = s->ptr[i];
    s->n_rows = s->ptr[parts];
    HGA_TRY(hga_new(&plan->memory.allocator, s->n_rows, sizeof *s->rows, &s->rows));
    list_ranges(cells, n, s, at);
done:
    hga_delete(&plan->memory.allocator, cells, most, sizeof *cells);
    hga_delete(&plan->memory.allocator, at, parts, sizeof *at);
    return st;
}

/* ---- which subtrees rows read ---- */

/* Parts by node, the top being n; the last part seen and, of nodes before `roots`, the first. */
typedef struct needed {
    hga_id *part, roots, first, last;
} needed;

static void see(needed *x, hga_id first, hga_id end)
{
    for (hga_id u = first; u < end; u++) {
        hga_id part = x->part[u];
        x->last = part > x->last ? part : x->last;
        x->first = u < x->roots && part < x->first ? part : x->first;
    }
}

static void see_segments(const hga_segments *s, void *context)
{
    for (hga_id i = 0; i < s->count; i++) {
        hga_segment x = hga_segments_at(s, i);
        see(context, x.src, x.src + x.n_src);
    }
}

/* Sees rows [r.first, r.end), and what they have edges to in any stage. */
static void see_rows(const hga_plan *plan, row_range r, needed *x)
{
    see(x, r.first, r.end);
    for (hga_id s = 0; s < plan->program.n_stages; s++) {
        hga_id number = plan->program.stage[s].relation;
        if (!kind_attends(plan->stage[s].kind)) continue;
        hga_relation relation = hga_graph_relation(plan->graph, number);
        if (relation.n_blocks) hga_graph_visit_segments(plan->graph, number, r.first, r.end - r.first, see_segments, x);
        for (hga_pos e = relation.ptr ? relation.ptr[r.first] : 0; relation.ptr && e < relation.ptr[r.end]; e++)
            see(x, relation.src[e], relation.src[e] + 1);
    }
}

static void see_part(const hga_plan *plan, const subtrees *s, hga_id i, needed *x)
{
    x->first = s->n;
    for (hga_id at = s->ptr[i]; at < s->ptr[i + 1]; at++) see_rows(plan, s->rows[at], x);
}

/* Finds what every subtree needs, and returns how many subtrees are needed at once: from the first that it or the
   top reads to the last that it or one before it reads. */
static hga_id find_needs(const hga_plan *plan, subtrees *s, needed *x)
{
    hga_id most = 0;
    for (hga_id i = 0; i < s->n; i++) {
        see_part(plan, s, i + 1, x);
        hga_id first = x->first < i ? x->first : i;
        s->needs[i] = (x->last > i ? x->last : i) + 1;
        most = s->needs[i] - first > most ? s->needs[i] - first : most;
    }
    hga_id last = s->needs[s->n - 1];
    see_part(plan, s, 0, x);
    return last - x->first > most ? last - x->first : most;
}

static hga_id rows_below(const subtrees *s, hga_id i)
{
    hga_id n = 0;
    for (hga_id l = 0; l + 1 < s->n_levels; l++) n += subtree_level(s, i, l).end - subtree_level(s, i, l).first;
    return n;
}

/* Are families contiguous, and has every node below `roots` its parent in its subtree? */
static int is_closed(const hga_plan *plan, hga_id roots, hga_id top)
{
    const hga_nodes *nodes = &plan->nodes;
    int closed = !nodes->child_list && !nodes->side;
    for (hga_id v = 0; v < roots && closed; v++) closed = nodes->parent[v] < top;
    return closed;
}

/* Stores subtrees in as many slots as are needed at once, round robin; their roots and the top have rows of their
   own after them. */
static hga_status place_rows(const hga_plan *plan, hga_id places, hga_id roots, subtrees *s)
{
    hga_status st = HGA_OK;
    hga_id most = 0, n = plan->nodes.n;
    for (hga_id i = 0; i < s->n; i++) most = rows_below(s, i) > most ? rows_below(s, i) : most;
    if ((int64_t)places * most >= roots || !is_closed(plan, roots, plan->nodes.level_ptr[s->n_levels])) return HGA_OK;
    HGA_TRY(hga_new(&plan->memory.allocator, n, sizeof *s->index, &s->index));
    for (hga_id i = 0; i < s->n; i++)
        for (hga_id l = 0, at = i % places * most; l + 1 < s->n_levels; l++)
            for (hga_id v = subtree_level(s, i, l).first; v < subtree_level(s, i, l).end; v++) s->index[v] = at++;
    for (hga_id v = roots; v < n; v++) s->index[v] = places * most + v - roots;
done:
    return st;
}

/* Lists the subtrees each part reads, and where the rows of subtrees are stored meanwhile. */
static hga_status list_needs(const hga_plan *plan, subtrees *s)
{
    hga_status st = HGA_OK;
    hga_id n = plan->nodes.n, roots = plan->nodes.level_ptr[s->n_levels - 1];
    needed x = {.roots = roots};
    HGA_TRY(hga_new(&plan->memory.allocator, n, sizeof *x.part, &x.part));
    HGA_TRY(hga_new(&plan->memory.allocator, s->n, sizeof *s->needs, &s->needs));
    for (hga_id v = 0; v < n; v++) x.part[v] = s->n;
    for (hga_id i = 0; i < s->n; i++)
        for (hga_id l = 0; l < s->n_levels; l++)
            for (hga_id v = subtree_level(s, i, l).first; v < subtree_level(s, i, l).end; v++) x.part[v] = i;
    HGA_TRY(place_rows(plan, find_needs(plan, s, &x), roots, s));
done:
    hga_delete(&plan->memory.allocator, x.part, n, sizeof *x.part);
    return st;
}

/* Finds the stages, cuts the tree and lists rows, until something does not fit and *why says what. */
hga_status subtrees_create(const hga_plan *plan, subtrees *out, const char **why)
{
    hga_status st = HGA_OK;
    reason buffer;
    *out = (subtrees){0};
    *why = find_tree_stages(plan, out, &buffer) ? "its stages are others"
           : plan->nodes.level_ptr[1] == 0      ? "there are no tokens to cut into subtrees"
                                                : NULL;
    if (!*why) HGA_TRY(shares_create(plan, out, why));
    if (*why) goto done;
    HGA_TRY(cut_tree(plan, out));
    HGA_TRY(list_rows(plan, out));
    HGA_TRY(list_needs(plan, out));
done:
    if (st || *why) subtrees_clear(plan, out);
    return st;
}

/* Frees the subtrees; a list of shares that several fields have in common is freed once. */
void subtrees_clear(const hga_plan *plan, subtrees *s)
{
    hga_delete(&plan->memory.allocator, s->begin, ((int64_t)s->n + 1) * s->n_levels, sizeof *s->begin);
    hga_delete(&plan->memory.allocator, s->rows, s->n_rows, sizeof *s->rows);
    hga_delete(&plan->memory.allocator, s->ptr, (int64_t)s->n + 2, sizeof *s->ptr);
    hga_delete(&plan->memory.allocator, s->needs, s->n, sizeof *s->needs);
    hga_delete(&plan->memory.allocator, s->index, plan->nodes.n, sizeof *s->index);
    for (hga_id f = 0; f < HGA_FIELD_SLOTS; f++) {
        float *share = s->share[f];
        for (hga_id same = f; share && same < HGA_FIELD_SLOTS; same++)
            if (s->share[same] == share) s->share[same] = NULL;
        hga_delete(&plan->memory.allocator, share, plan->nodes.n, sizeof *share);
    }
    *s = (subtrees){0};
}
