/* concat.c: the disjoint union of graphs, level by level. A block keeps its form where its nodes stay contiguous, so
   the cost is that of nodes and blocks, not of edges. */
#include "block.h"
#include "copy.h"

#include <string.h>

/* One of the graphs. */
typedef struct sample {
    const hga_graph *g;
    hga_nodes nodes;
    hga_id *map; /* old node -> new node */
    hga_id *end; /* old node -> one past the run of old nodes that moves with it by the same distance */
} sample;

typedef struct whole {
    const hga_allocator *allocator;
    sample *samples;
    hga_id n_samples, n_levels, n;
    int cross;
    hga_builder *b;
    hga_id *parent; /* [n] */
} whole;

/* ---- nodes ---- */

/* Checks that the graphs are all self-attention or all cross-attention and their nodes fit an id, and allocates the
   maps. */
static hga_status take_samples(whole *w, const hga_graph *const *graphs)
{
    hga_status st = hga_new_zero(w->allocator, w->n_samples, sizeof *w->samples, &w->samples);
    int64_t n = 0;
    for (hga_id i = 0; !st && i < w->n_samples; i++) {
        sample *s = &w->samples[i];
        if (!graphs[i]) return hga_fail(HGA_EINVAL, "graph %d is NULL", i);
        s->g = graphs[i], s->nodes = hga_graph_nodes(graphs[i]);
        n += s->nodes.n;
        if (n > INT32_MAX - 2)
            return hga_fail(HGA_EOVERFLOW, "the first %d graphs have %lld nodes, too many for a 32-bit id", i + 1,
                            (long long)n);
        if (s->nodes.n_levels > w->n_levels) w->n_levels = s->nodes.n_levels;
        if (i == 0) w->cross = is_cross(&s->nodes);
        if (is_cross(&s->nodes) != w->cross)
            return hga_fail(HGA_EINVAL, "of graphs 0 and %d one is self-attention, the other cross-attention", i);
        st = hga_new(w->allocator, s->nodes.n, sizeof *s->map, &s->map);
        if (!st) st = hga_new(w->allocator, s->nodes.n, sizeof *s->end, &s->end);
    }
    w->n = (hga_id)n;
    return st;
}

static void clear_whole(whole *w)
{
    for (hga_id i = 0; w->samples && i < w->n_samples; i++) {
        hga_delete(w->allocator, w->samples[i].map, w->samples[i].nodes.n, sizeof(hga_id));
        hga_delete(w->allocator, w->samples[i].end, w->samples[i].nodes.n, sizeof(hga_id));
    }
    hga_delete(w->allocator, w->samples, w->n_samples, sizeof *w->samples);
    hga_delete(w->allocator, w->parent, w->n, sizeof *w->parent);
    hga_builder_destroy(w->b);
}

/* The side by which a node is numbered: tokens by the query and key ranges, which must stay contiguous. */
static int numbering_side(const hga_nodes *nodes, hga_id l, hga_id v)
{
    return l == 0 ? side_by_default(nodes, v) : node_side(nodes, v);
}

/* Numbers the nodes of one level and side, sample after sample. A single graph keeps its ids: side -1 is every node. */
static void number_level(whole *w, hga_id l, int side, hga_id *next)
{
    for (hga_id i = 0; i < w->n_samples; i++) {
        sample *s = &w->samples[i];
        if (l >= s->nodes.n_levels) continue;
        for (hga_id v = s->nodes.level_ptr[l]; v < s->nodes.level_ptr[l + 1]; v++)
            if (side < 0 || numbering_side(&s->nodes, l, v) == side) s->map[v] = (*next)++;
    }
}

/* Numbers nodes level by level; end[v] is one past the nodes that move by the same distance as node v. */
static hga_status number_nodes(whole *w)
{
    static const int sides[] = {HGA_SIDE_QUERY, HGA_SIDE_BOTH, HGA_SIDE_KEY};
    hga_status st = HGA_OK;
    hga_id next = 0;
    for (hga_id l = 0, first; !st && l < w->n_levels; l++) {
        first = next;
        for (int k = 0; k < 3 && w->n_samples > 1; k++) number_level(w, l, sides[k], &next);
        if (w->n_samples == 1) number_level(w, l, -1, &next);
        st = hga_builder_add_level(w->b, next - first, NULL);
    }
    for (hga_id i = 0; !st && i < w->n_samples; i++) {
        const sample *s = &w->samples[i];
        for (hga_id v = s->nodes.n - 1; v >= 0; v--)
            s->end[v] = v + 1 < s->nodes.n && s->map[v + 1] == s->map[v] + 1 ? s->end[v + 1] : v + 1;
    }
    return st;
}

/* The token ranges of a single graph, or, in cross-attention, all queries and then all keys. */
static hga_status tell_tokens(const whole *w)
{
    const hga_nodes *first = &w->samples[0].nodes;
    if (w->n_samples == 1)
        return hga_builder_set_tokens(w->b, first->query_first, first->n_queries, first->key_first, first->n_keys);
    if (!w->cross) return HGA_OK;
    hga_id queries = 0, keys = 0;
    for (hga_id i = 0; i < w->n_samples; i++)
        queries += w->samples[i].nodes.n_queries, keys += w->samples[i].nodes.n_keys;
    return hga_builder_set_tokens(w->b, 0, queries, queries, keys);
}

/* Sets the sides of a sample, in runs that stay contiguous. */
static hga_status tell_sides(const whole *w, const sample *s)
{
    hga_status st = HGA_OK;
    int unsaid = s->nodes.side && !w->cross;
    for (hga_id v = 0; s->nodes.side && !st && v < s->nodes.n;) {
        side_run run = side_run_at(&s->nodes, v);
        if (run.n > s->end[v] - v) run.n = s->end[v] - v;
        if (!run.is_default) st = hga_builder_set_side(w->b, s->map[v], run.n, run.side), unsaid = 0;
        v += run.n;
    }
    return st || !unsaid ? st : hga_builder_set_side(w->b, 0, 0, HGA_SIDE_BOTH);
}

/* Sets the parents of all samples, in the ids of the union. */
static hga_status tell_parents(whole *w)
{
    hga_status st = hga_new(w->allocator, w->n, sizeof *w->parent, &w->parent);
    for (hga_id v = 0; !st && v < w->n; v++) w->parent[v] = -1;
    for (hga_id i = 0; !st && i < w->n_samples; i++) {
        const sample *s = &w->samples[i];
        for (hga_id v = 0; s->nodes.parent && v < s->nodes.n; v++)
            if (s->nodes.parent[v] >= 0) w->parent[s->map[v]] = s->map[s->nodes.parent[v]];
    }
    return st ? st : parents_copy(w->b, w->parent, w->n);
}

/* In other ids the children of a node may be summed in another order, so the default masses are computed anew. */
static hga_status tell_masses(const whole *w)
{
    float *mass = NULL;
    hga_status st = hga_new(w->allocator, w->n, sizeof *mass, &mass);
    for (hga_id i = 0; !st && i < w->n_samples; i++) {
        const sample *s = &w->samples[i];
        for (hga_id v = 0; v < s->nodes.n; v++) mass[s->map[v]] = s->nodes.mass[v];
    }
    if (!st) st = masses_copy(w->b, w->allocator, w->n, w->parent, mass);
    hga_delete(w->allocator, mass, w->n, sizeof *mass);
    return st;
}

/* The claims of all samples; pairs across samples are not covered, so a union is never complete. */
static hga_status tell_claims(const whole *w)
{
    uint32_t claims = w->samples[0].nodes.claims;
    for (hga_id i = 1; i < w->n_samples; i++) claims &= w->samples[i].nodes.claims;
    if (w->n_samples > 1) claims &= ~(uint32_t)HGA_CLAIM_COMPLETE;
    return hga_builder_set_claims(w->b, claims);
}

/* Without positions, tokens of a sample keep their distances, unless queries and keys move by different ones: then
   their index is set. */
static hga_status tell_positions(const whole *w)
{
    hga_status st = HGA_OK;
    int index = w->cross && w->n_samples > 1;
    for (hga_id i = 0; i < w->n_samples; i++) index |= w->samples[i].g->node.position && w->n_samples > 1;
    for (hga_id i = 0; !st && i < w->n_samples; i++)
        st = positions_copy(w->b, w->samples[i].g, index, w->samples[i].map);
    return st;
}

/* Sets everything about nodes, in the order that a builder requires. */
static hga_status tell_nodes(whole *w)
{
    hga_status st = HGA_OK;
    HGA_TRY(number_nodes(w));
    HGA_TRY(tell_tokens(w));
    HGA_TRY(tell_parents(w));
    HGA_TRY(tell_masses(w));
    for (hga_id i = 0; i < w->n_samples; i++) HGA_TRY(tell_sides(w, &w->samples[i]));
    HGA_TRY(tell_positions(w));
    for (hga_id i = 0; i < w->n_samples; i++) HGA_TRY(names_copy(w->b, w->samples[i].g, w->samples[i].map));
    for (hga_id i = 0; i < w->n_samples; i++) HGA_TRY(kinds_copy(w->b, w->samples[i].g, w->samples[i].map));
    HGA_TRY(tell_claims(w));
done:
    return st;
}

/* ---- blocks ---- */

/* How positions of rows or of columns move. Without an order they are nodes and move with them; with one, all move by
   `offset`. */
typedef struct axis {
    const sample *s;
    int ordered;
    hga_id offset;
} axis;

static int64_t axis_move(const axis *a, int64_t position)
{
    return a->ordered ? a->offset : a->s->map[position] - position;
}

/* The number of instances from the first, at [position, position + n), that move by the same distance; 0: not even the
   first stays contiguous. */
static hga_id instances_together(const axis *a, int64_t position, hga_id n, hga_id step, hga_id count)
{
    if (a->ordered) return count;
    int64_t capacity = a->s->end[position] - position - n;
    if (capacity < 0) return 0;
    return step == 0 || capacity / step + 1 >= count ? count : (hga_id)(capacity / step + 1);
}

/* Whether some instance has nodes that do not stay contiguous. */
static int is_torn(const sample *s, hga_id first, hga_id n, hga_id step, hga_id count)
{
    axis nodes = {s, 0, 0};
    for (hga_id i = 0, together; i < count; i += together) {
        together = instances_together(&nodes, first + (int64_t)i * step, n, step, count - i);
        if (together == 0) return 1;
    }
    return 0;
}

/* The pos_of of instance i, moved. */
static hga_id position_moved(const axis *pos, hga_id pos_of, hga_id step, hga_id i)
{
    if (pos_of == HGA_POS_OWN) return HGA_POS_OWN;
    int64_t node = pos_of - 1 + (int64_t)i * step;
    return (hga_id)(node + 1 + axis_move(pos, node));
}

/* Instances i .. i + n - 1, moved. */
static hga_block block_moved(const hga_block *b, hga_id i, hga_id n, const axis *dst, const axis *src, const axis *pos)
{
    hga_block moved = *b;
    int64_t row = b->dst + (int64_t)i * b->dst_step, column = b->src + (int64_t)i * b->src_step;
    moved.dst = (hga_id)(row + axis_move(dst, row));
    moved.src = (hga_id)(column + axis_move(src, column));
    moved.pos_of = position_moved(pos, b->pos_of, b->pos_step, i);
    moved.src_pos_of = position_moved(pos, b->src_pos_of, b->src_pos_step, i);
    if (n != instances(b)) moved.count = n;
    return moved;
}

/* The number of instances from i whose position nodes move by the same distance. */
static hga_id positions_together(const axis *pos, hga_id pos_of, hga_id step, hga_id i, hga_id count)
{
    if (pos_of == HGA_POS_OWN) return count;
    int64_t node = pos_of - 1 + (int64_t)i * step;
    if (step >= 0) return instances_together(pos, node, 1, step, count);
    hga_id n = 1;
    while (n < count && axis_move(pos, node + (int64_t)n * step) == axis_move(pos, node)) n++;
    return n;
}

/* Adds the block in as few blocks as have all their instances move by the same distance. */
static hga_status tell_block(hga_builder *out, hga_id relation, const hga_block *b, const axis *dst, const axis *src)
{
    hga_status st = HGA_OK;
    axis pos = {dst->s, 0, 0};
    hga_id count = instances(b), n;
    for (hga_id i = 0; !st && i < count; i += n) {
        n = instances_together(dst, b->dst + (int64_t)i * b->dst_step, b->n_dst, b->dst_step, count - i);
        n = (hga_id)least(n,
                          instances_together(src, b->src + (int64_t)i * b->src_step, b->n_src, b->src_step, count - i));
        n = (hga_id)least(n, positions_together(&pos, b->pos_of, b->pos_step, i, count - i));
        n = (hga_id)least(n, positions_together(&pos, b->src_pos_of, b->src_pos_step, i, count - i));
        hga_block moved = block_moved(b, i, n, dst, src, &pos);
        st = hga_builder_add_blocks(out, relation, &moved);
    }
    return st;
}

/* ---- relations ---- */

/* A relation of the union: whether its rows and columns need orders, and these. */
typedef struct gathered {
    const char *name;
    hga_id index, n_rows, n_columns;
    int rows_ordered, columns_ordered;
    hga_id *row_order, *column_order; /* [whole n] */
} gathered;

/* The sample's relation of that name; 0: none. */
static int find_named(const sample *s, const char *name, hga_relation *out)
{
    hga_id i = hga_graph_find_relation(s->g, name);
    if (i >= 0) *out = hga_graph_relation(s->g, i);
    return i >= 0;
}

static void note_orders(const sample *s, const hga_relation *r, gathered *to)
{
    to->rows_ordered |= r->dst_order != NULL;
    to->columns_ordered |= r->src_order != NULL;
    for (hga_block_walk w = {0}; hga_relation_next(r, &w);) {
        const hga_block *b = &w.block;
        to->rows_ordered = to->rows_ordered || is_torn(s, b->dst, b->n_dst, b->dst_step, instances(b));
        to->columns_ordered = to->columns_ordered || is_torn(s, b->src, b->n_src, b->src_step, instances(b));
    }
}

static void append_order(const sample *s, const hga_id *order, hga_id n, hga_id *out, hga_id *n_out)
{
    for (hga_id p = 0; p < n; p++) out[(*n_out)++] = s->map[order ? order[p] : p];
}

/* Finds whether some sample needs orders, and concatenates them. */
static hga_status gather_orders(const whole *w, gathered *to)
{
    hga_status st = HGA_OK;
    hga_relation r;
    hga_id n_rows = 0, n_columns = 0;
    for (hga_id i = 0; i < w->n_samples; i++)
        if (find_named(&w->samples[i], to->name, &r)) note_orders(&w->samples[i], &r, to);
    if (to->rows_ordered) HGA_TRY(hga_new(w->allocator, w->n, sizeof *to->row_order, &to->row_order));
    if (to->columns_ordered) HGA_TRY(hga_new(w->allocator, w->n, sizeof *to->column_order, &to->column_order));
    for (hga_id i = 0; i < w->n_samples; i++) {
        const sample *s = &w->samples[i];
        if (!find_named(s, to->name, &r)) continue;
        if (to->rows_ordered) append_order(s, r.dst_order, s->nodes.n, to->row_order, &n_rows);
        if (to->columns_ordered)
            append_order(s, r.src_order, r.src_order ? r.n_src_order : s->nodes.n, to->column_order, &n_columns);
    }
    st = hga_builder_set_order(w->b, to->index, to->row_order, n_rows, to->column_order, n_columns);
done:
    return st;
}

static hga_status tell_edges(const whole *w, const sample *s, const hga_relation *r, hga_id index)
{
    hga_status st = HGA_OK;
    for (hga_id v = 0; r->n_explicit > 0 && !st && v < s->nodes.n; v++)
        for (hga_pos e = r->ptr[v]; !st && e < r->ptr[v + 1]; e++)
            st = hga_builder_add_edge(w->b, index, s->map[r->src[e]], s->map[v], r->type ? r->type[e] : 0,
                                      r->weight ? r->weight[e] : 1);
    return st;
}

/* Adds a sample's edges; its positions follow those of earlier samples. */
static hga_status tell_part(const whole *w, const sample *s, const hga_relation *r, gathered *to)
{
    hga_status st = HGA_OK;
    axis dst = {s, to->rows_ordered, to->n_rows}, src = {s, to->columns_ordered, to->n_columns};
    for (hga_block_walk at = {0}; !st && hga_relation_next(r, &at);)
        st = tell_block(w->b, to->index, &at.block, &dst, &src);
    to->n_rows += s->nodes.n;
    to->n_columns += r->src_order ? r->n_src_order : s->nodes.n;
    return st ? st : tell_edges(w, s, r, to->index);
}

/* Adds the relation of that name, from all samples that have one. */
static hga_status tell_relation(const whole *w, const char *name)
{
    hga_status st = HGA_OK;
    hga_relation r;
    gathered to = {.name = name};
    HGA_TRY(hga_builder_add_relation(w->b, name, &to.index));
    HGA_TRY(gather_orders(w, &to));
    for (hga_id i = 0; i < w->n_samples; i++)
        if (find_named(&w->samples[i], name, &r)) HGA_TRY(tell_part(w, &w->samples[i], &r, &to));
done:
    hga_delete(w->allocator, to.row_order, w->n, sizeof *to.row_order);
    hga_delete(w->allocator, to.column_order, w->n, sizeof *to.column_order);
    return st;
}

static int is_known_before(const whole *w, hga_id sample_index, const char *name)
{
    for (hga_id i = 0; i < sample_index; i++)
        if (hga_graph_find_relation(w->samples[i].g, name) >= 0) return 1;
    return 0;
}

static hga_status tell_relations(const whole *w)
{
    hga_status st = HGA_OK;
    for (hga_id i = 0; i < w->n_samples; i++)
        for (hga_id k = 0; !st && k < w->samples[i].nodes.n_relations; k++) {
            const char *name = hga_graph_relation(w->samples[i].g, k).name;
            if (!is_known_before(w, i, name)) st = tell_relation(w, name);
        }
    return st;
}

/* ---- the whole ---- */

/* Moves the samples' maps to the caller's node map. */
static hga_status give_map(whole *w, hga_node_map *map)
{
    hga_status st = hga_new(w->allocator, w->n_samples, sizeof *map->id, &map->id);
    if (!st) st = hga_new(w->allocator, w->n_samples, sizeof *map->n, &map->n);
    map->n_graphs = w->n_samples, map->allocator = *w->allocator;
    for (hga_id i = 0; i < w->n_samples; i++) {
        if (map->n) map->n[i] = w->samples[i].nodes.n;
        if (map->id) map->id[i] = NULL;
        if (!st) map->id[i] = w->samples[i].map, w->samples[i].map = NULL;
    }
    if (st) hga_node_map_clear(map);
    return st;
}

hga_status hga_graph_concat(const hga_graph *const *graphs, hga_id n_graphs, hga_graph **out, hga_node_map *node_map)
{
    hga_status st = HGA_OK;
    *out = NULL;
    if (node_map) memset(node_map, 0, sizeof *node_map);
    if (n_graphs < 1 || !graphs || !graphs[0]) return hga_fail(HGA_EINVAL, "%d graphs to put side by side", n_graphs);
    whole w = {.allocator = hga_graph_allocator(graphs[0]), .n_samples = n_graphs};
    HGA_TRY(hga_builder_create(w.allocator, &w.b));
    HGA_TRY(take_samples(&w, graphs));
    HGA_TRY(tell_nodes(&w));
    HGA_TRY(tell_relations(&w));
    HGA_TRY(hga_builder_finish(w.b, out));
    if (node_map) HGA_TRY(give_map(&w, node_map));
done:
    if (st) hga_graph_destroy(*out), *out = NULL;
    clear_whole(&w);
    return st;
}

void hga_node_map_clear(hga_node_map *map)
{
    if (!map) return;
    for (hga_id i = 0; map->id && map->n && i < map->n_graphs; i++)
        hga_delete(&map->allocator, map->id[i], map->n[i], sizeof *map->id[i]);
    hga_delete(&map->allocator, map->id, map->n_graphs, sizeof *map->id);
    hga_delete(&map->allocator, map->n, map->n_graphs, sizeof *map->n);
    memset(map, 0, sizeof *map);
}
