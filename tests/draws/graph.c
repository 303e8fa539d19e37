/* graph.c: a random graph, drawn level by level and relation by relation. */
#include "draws.h"

typedef struct making {
    choices *c;
    hga_builder *b;
    hga_id level[6], n_levels, n; /* first node of each level, nodes in all */
    hga_id n_relations;
} making;

/* ---- nodes ---- */

static hga_status add_levels(making *m)
{
    choices *c = m->c;
    hga_status st = HGA_OK;
    hga_id tokens = 1 + choose(c, rarely(c, 10) ? 300 : rarely(c, 3) ? 100 : 24);
    HGA_TRY(hga_builder_add_level(m->b, tokens, NULL));
    m->level[m->n_levels++] = 0, m->n = tokens;
    for (hga_id l = choose(c, 3) ? 1 + choose(c, 4) : 1; m->n_levels < l;) {
        hga_id n = rarely(c, 12) ? 0 : 1 + choose(c, tokens < 9 ? tokens : 9);
        HGA_TRY(hga_builder_add_level(m->b, n, NULL));
        m->level[m->n_levels++] = m->n, m->n += n;
    }
    m->level[m->n_levels] = m->n;
done:
    return st;
}

/* Sides of some of the nodes, tokens among them: also in self-attention, where they mean what the program makes of
   them. */
static hga_status set_some_sides(making *m)
{
    hga_status st = HGA_OK;
    for (hga_id i = 1 + choose(m->c, 4); i > 0; i--) {
        hga_id first = choose(m->c, m->n), n = 1 + choose(m->c, m->n - first < 9 ? m->n - first : 9);
        HGA_TRY(hga_builder_set_side(m->b, first, n, choose(m->c, 3)));
    }
done:
    return st;
}

/* Queries before keys or after them, and sides for the nodes above. */
static hga_status set_sides(making *m)
{
    choices *c = m->c;
    hga_status st = HGA_OK;
    hga_id tokens = m->level[1], first = 1 + choose(c, tokens - 1), queries_first = choose(c, 2);
    if (tokens < 2 || !rarely(c, 4)) return rarely(c, 6) ? set_some_sides(m) : HGA_OK;
    HGA_TRY(hga_builder_set_tokens(m->b, queries_first ? 0 : first, queries_first ? first : tokens - first,
                                   queries_first ? first : 0, queries_first ? tokens - first : first));
    for (hga_id v = tokens; v < m->n; v++) HGA_TRY(hga_builder_set_side(m->b, v, 1, choose(c, 3)));
done:
    return st;
}

/* Families from a level to the next, or parents anywhere above. */
static hga_status set_parents(making *m)
{
    choices *c = m->c;
    hga_status st = HGA_OK;
    for (hga_id l = 0; l + 1 < m->n_levels; l++) {
        hga_id n = m->level[l + 1] - m->level[l], above = m->level[l + 2] - m->level[l + 1];
        if (!n || !above || rarely(c, 9)) continue;
        if (choose(c, 3)) {
            HGA_TRY(hga_builder_set_families(m->b, m->level[l + 1], m->level[l], n, (n + above - 1) / above));
            continue;
        }
        for (hga_id v = m->level[l]; v < m->level[l + 1]; v++)
            if (choose(c, 5))
                HGA_TRY(hga_builder_set_children(m->b, m->level[l + 1] + choose(c, m->n - m->level[l + 1]), v, 1));
    }
    for (hga_id i = choose(c, 3); i > 0; i--)
        HGA_TRY(hga_builder_set_mass(m->b, choose(c, m->n), (float)choose(c, 9) / 4));
done:
    return st;
}

/* ---- relations ---- */

static void interval(choices *c, hga_id n, hga_id *first, hga_id *size)
{
    *size = 1 + choose(c, n < 40 ? n : 40);
    *first = choose(c, n - *size + 1);
}

/* Plain ones have neither types nor weights nor positions: what shares columns is seldom drawn if each may have all. */
static hga_block some_block(making *m, hga_id n_columns, int plain)
{
    choices *c = m->c;
    hga_block b = {.shape = plain && choose(c, 2) ? HGA_ALL : (hga_shape_kind)choose(c, HGA_BAND + 1)};
    interval(c, m->n, &b.dst, &b.n_dst);
    interval(c, n_columns, &b.src, &b.n_src);
    if (rarely(c, 2)) {
        b.dst_step = choose(c, 6), b.src_step = choose(c, 6), b.count = 1;
        for (hga_id more = choose(c, 6); more > 0; more--)
            if (b.dst + b.count * b.dst_step + b.n_dst <= m->n && b.src + b.count * b.src_step + b.n_src <= n_columns)
                b.count++;
    }
    b.band_first = choose(c, 9) - 4, b.band_last = b.band_first + choose(c, 7);
    if (b.shape != HGA_BAND) b.band_first = b.band_last = 0;
    if (plain) return b;
    if (rarely(c, 3)) b.type = 130 + choose(c, 3), b.type_dst = choose(c, 5) - 2, b.type_src = choose(c, 5) - 2;
    if (rarely(c, 4)) b.weight = 0.25f * (float)(1 + choose(c, 8));
    if (rarely(c, 4)) b.pos_of = 1 + choose(c, m->n), b.pos_step = 0;
    if (rarely(c, 4)) b.src_pos_of = 1 + choose(c, m->n), b.src_pos_step = 0;
    return b;
}

/* Positions of some or all nodes; *n_columns gets how many positions of sources there are. */
static hga_status set_orders(making *m, hga_id relation, hga_id *n_columns)
{
    enum { MOST = 700 };
    hga_id order[MOST], n = m->n;
    choices *c = m->c;
    *n_columns = m->n;
    if (!rarely(c, 2) || n > MOST) return HGA_OK;
    for (hga_id i = 0; i < n; i++) {
        hga_id j = choose(c, i + 1);
        order[i] = order[j], order[j] = i;
    }
    if (rarely(c, 2)) return hga_builder_set_order(m->b, relation, order, 1 + choose(c, n), NULL, 0);
    *n_columns = 1 + choose(c, n);
    return hga_builder_set_order(m->b, relation, rarely(c, 2) ? order : NULL, n, order, *n_columns);
}

static hga_status add_relation(making *m, const char *name)
{
    choices *c = m->c;
    hga_status st = HGA_OK;
    hga_id relation, n_columns;
    HGA_TRY(hga_builder_add_relation(m->b, name, &relation));
    HGA_TRY(set_orders(m, relation, &n_columns));
    int plain = choose(c, 2);
    for (hga_id i = choose(c, 5); i > 0; i--) {
        hga_block b = some_block(m, n_columns, plain);
        HGA_TRY(hga_builder_add_blocks(m->b, relation, &b));
    }
    for (hga_id i = rarely(c, 2) ? choose(c, rarely(c, 4) ? 3 * m->n : 60) : 0; i > 0; i--) {
        hga_id u = choose(c, m->n), v = choose(c, m->n), type = plain ? 0 : choose(c, 3);
        HGA_TRY(hga_builder_add_edge(m->b, relation, u, v, type, type == 1 ? 0.5f : 1));
    }
    if (rarely(c, 4)) /* from coarse to fine, for stages down */
        for (hga_id v = 0; v < m->level[1]; v++)
            if (m->n > m->level[1])
                HGA_TRY(hga_builder_add_edge(m->b, relation, m->level[1] + v % (m->n - m->level[1]), v, 4, 1));
    m->n_relations++;
done:
    return st;
}

hga_graph *draw_graph(choices *c, const hga_allocator *a)
{
    static const char *const names[] = {"near", "far", "own"};
    making m = {.c = c};
    hga_graph *g = NULL;
    hga_status st = HGA_OK;
    HGA_TRY(hga_builder_create(a, &m.b));
    HGA_TRY(add_levels(&m));
    HGA_TRY(set_sides(&m));
    HGA_TRY(set_parents(&m));
    for (hga_id i = 1 + choose(c, 3); i > 0; i--) HGA_TRY(add_relation(&m, names[i - 1]));
    HGA_TRY(hga_builder_finish(m.b, &g));
done:
    hga_builder_destroy(m.b);
    return st ? NULL : g;
}
