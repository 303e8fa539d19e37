/* engine.c: a random graph, a random program over it, both from the input's bytes; then every oracle. */
#include "fuzz.h"

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
    hga_id tokens = 1 + (rarely(c, 8) ? choose(c, 300) : choose(c, 24));
    HGA_TRY(hga_builder_add_level(m->b, tokens, NULL));
    m->level[m->n_levels++] = 0, m->n = tokens;
    for (hga_id l = 1 + choose(c, 4); m->n_levels < l;) {
        hga_id n = rarely(c, 12) ? 0 : 1 + choose(c, tokens < 9 ? tokens : 9);
        HGA_TRY(hga_builder_add_level(m->b, n, NULL));
        m->level[m->n_levels++] = m->n, m->n += n;
    }
    m->level[m->n_levels] = m->n;
done:
    return st;
}

/* Queries before keys or after them, and sides for the nodes above. */
static hga_status set_sides(making *m)
{
    choices *c = m->c;
    hga_status st = HGA_OK;
    hga_id tokens = m->level[1], first = 1 + choose(c, tokens - 1), queries_first = choose(c, 2);
    if (tokens < 2 || !rarely(c, 4)) return HGA_OK;
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

static hga_block some_block(making *m, hga_id n_columns)
{
    choices *c = m->c;
    hga_block b = {.shape = (hga_shape_kind)choose(c, HGA_BAND + 1)};
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
    if (rarely(c, 3)) b.type = 130 + choose(c, 3), b.type_dst = choose(c, 5) - 2, b.type_src = choose(c, 5) - 2;
    if (rarely(c, 4)) b.weight = 0.25f * (float)(1 + choose(c, 8));
    if (rarely(c, 4)) b.pos_of = 1 + choose(c, m->n), b.pos_step = 0;
    if (rarely(c, 4)) b.src_pos_of = 1 + choose(c, m->n), b.src_pos_step = 0;
    return b;
}

/* Positions of some or all nodes; *n_columns gets how many positions of sources there are. */
static hga_status set_orders(making *m, hga_id relation, hga_id *n_columns)
{
    hga_id order[700], n = m->n;
    choices *c = m->c;
    *n_columns = m->n;
    if (!rarely(c, 4) || n > 700) return HGA_OK;
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
    for (hga_id i = choose(c, 5); i > 0; i--) {
        hga_block b = some_block(m, n_columns);
        HGA_TRY(hga_builder_add_blocks(m->b, relation, &b));
    }
    for (hga_id i = rarely(c, 3) ? choose(c, 60) : 0; i > 0; i--) {
        hga_id u = choose(c, m->n), v = choose(c, m->n), type = choose(c, 3);
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

static hga_graph *some_graph(choices *c, const hga_allocator *a)
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

/* ---- programs ---- */

/* The fields of a random program; what a stage wants of one decides the width. */
typedef struct fields {
    hga_id query, key, value, mean, state, psi, keep, out, user;
} fields;

static hga_status add_fields(choices *c, hga_program *p, fields *f)
{
    /* Tokens first, then what is rarer. */
    static const hga_rows usual[] = {HGA_ROWS_QUERIES,    HGA_ROWS_NODES,    HGA_ROWS_KEYS,
                                     HGA_ROWS_QUERY_SIDE, HGA_ROWS_KEY_SIDE, HGA_ROWS_ABOVE};
    hga_status st = HGA_OK;
    hga_rows io[9], rows[9];
    for (int i = 0; i < 9; i++) {
        io[i] = usual[rarely(c, 12) ? choose(c, 6) : choose(c, 2)];
        rows[i] = rarely(c, 20) ? usual[choose(c, 6)] : rarely(c, 5) ? io[i] : HGA_ROWS_NODES;
    }
    if (rarely(c, 2)) io[1] = io[2] = rarely(c, 2) ? HGA_ROWS_KEYS : io[0];
    int state_is_out = choose(c, 2);
    HGA_TRY(hga_program_add_field(p, "q", HGA_WIDTH_KEY, HGA_IO_QUERY, io[0], rows[0], &f->query));
    HGA_TRY(hga_program_add_field(p, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, io[1], rows[1], &f->key));
    HGA_TRY(hga_program_add_field(p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, io[2], rows[2], &f->value));
    HGA_TRY(hga_program_add_field(p, "mean", HGA_WIDTH_VALUE, HGA_INTERNAL, io[3], rows[3], &f->mean));
    HGA_TRY(hga_program_add_field(p, "state", HGA_WIDTH_STATE, state_is_out ? HGA_IO_OUT : HGA_INTERNAL, io[4], rows[4],
                                  &f->state));
    HGA_TRY(hga_program_add_field(p, "psi", HGA_WIDTH_SCALAR, HGA_INTERNAL, io[5], rows[5], &f->psi));
    HGA_TRY(hga_program_add_field(p, "keep", HGA_WIDTH_SCALAR, HGA_INTERNAL, io[6], rows[6], &f->keep));
    if (!state_is_out) HGA_TRY(hga_program_add_field(p, "out", HGA_WIDTH_OUT, HGA_IO_OUT, io[7], rows[7], &f->out));
    if (rarely(c, 3)) {
        static const hga_width widths[] = {HGA_WIDTH_VALUE, HGA_WIDTH_KEY, HGA_WIDTH_SCALAR, HGA_WIDTH_STATE,
                                           HGA_WIDTH_OUT};
        HGA_TRY(hga_program_add_field(p, "user", widths[choose(c, 5)], HGA_IO_USER, io[8], rows[8], &f->user));
    }
    p->has_lse = state_is_out;
done:
    return st;
}

/* A stage of the user's own: reads and writes what the choices say. */
static hga_status add_user_stage(choices *c, hga_program *p, const fields *f, hga_id relation)
{
    hga_stage s = {.name = "mine", .relation = relation, .order = (hga_order)choose(c, 3), .message = HGA_MESSAGE_USER};
    s.reduce = HGA_REDUCE_USER, s.update = HGA_UPDATE_USER;
    hga_id targets[] = {f->out ? f->out : f->state, f->mean, f->state, f->user ? f->user : f->mean, f->value};
    s.out = targets[choose(c, 5)];
    s.writes = (uint32_t)1 << s.out;
    s.reads = (uint32_t)choose(c, 256) << 1;
    if (rarely(c, 3)) s.query = f->query, s.key = f->key, s.reads |= 1u << f->query | 1u << f->key;
    if (rarely(c, 4)) s.writes |= 1u << f->psi;
    s.udf = fuzz_user_functions(p, s.reads, s.writes);
    return hga_program_add_stage(p, &s);
}

/* One stage; helpers refuse what no program may have, and that is no failure. */
static void add_stage(choices *c, hga_program *p, const fields *f, hga_id n_relations)
{
    hga_id r = choose(c, n_relations), tree = choose(c, 2) ? HGA_TREE_UP : HGA_TREE_DOWN;
    hga_id any[] = {f->query, f->key, f->value, f->mean, f->state, f->psi, f->out, f->user}, x = any[choose(c, 8)];
    hga_id values[] = {f->value, f->mean}, v = values[choose(c, 2)], out = f->out ? f->out : f->mean;
    hga_stage sum;
    switch (choose(c, 12)) {
    case 0:
    case 1: (void)hga_program_attend(p, r, f->query, f->key, v, f->state, rarely(c, 2)); break;
    case 2: (void)hga_program_attend_more(p, r, f->query, f->key, v, f->state, rarely(c, 2)); break;
    case 3: (void)hga_program_coarsen(p, x); break;
    case 4: (void)hga_program_coarsen_along(p, r, x); break;
    case 5: (void)hga_program_spread(p, rarely(c, 3) ? r : HGA_TREE_DOWN, f->state); break;
    case 6: (void)hga_program_mean(p, rarely(c, 3) ? tree : r, x, rarely(c, 2) ? out : f->mean, rarely(c, 2)); break;
    case 7: (void)hga_program_weighted_sum(p, rarely(c, 5) ? tree : r, v, out); break;
    case 8:
        (void)hga_program_energy(p, f->state, f->psi);
        if (f->out) (void)hga_program_descend(p, f->state, f->psi, f->keep, f->out);
        break;
    case 9: (void)add_user_stage(c, p, f, rarely(c, 3) ? tree : r); break;
    case 10: /* a mean turned into a sum */
        if (hga_program_mean(p, r, v, out, 0) != HGA_OK) break;
        sum = p->stage[--p->n_stages], sum.reduce = HGA_SUM;
        (void)hga_program_add_stage(p, &sum);
        break;
    default: /* every input goes up the tree, as most programs want */
        (void)hga_program_coarsen(p, f->query), (void)hga_program_coarsen(p, f->key);
        (void)hga_program_coarsen(p, f->value);
    }
}

/* The fields that hold something before stage i. */
static uint32_t filled_before(const hga_program *p, hga_id i)
{
    uint32_t filled = 0;
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (p->field[f].binding != HGA_INTERNAL && p->field[f].binding != HGA_IO_OUT) filled |= (uint32_t)1 << f;
    for (hga_id s = 0; s < i; s++) filled |= p->stage[s].writes;
    return filled;
}

/* Take back stages that read what nobody wrote, but for a few: the check refuses them, and the rest is never seen. */
static void add_sensible_stage(choices *c, hga_program *p, const fields *f, hga_id n_relations)
{
    hga_id before = p->n_stages;
    add_stage(c, p, f, n_relations);
    if (rarely(c, 50)) return;
    for (hga_id i = before; i < p->n_stages; i++) {
        uint32_t own = p->stage[i].message == HGA_ENERGY ? (uint32_t)1 << f->psi : 0;
        if (p->stage[i].reads & ~filled_before(p, i) & ~own) p->n_stages = before;
    }
}

/* Up to five stages, and the out field is written in the end. */
static void add_stages(choices *c, hga_program *p, const fields *f, hga_id n_relations)
{
    if (rarely(c, 2))
        for (hga_id x = f->query; x <= f->value; x++)
            if (p->field[x].io != p->field[x].rows) (void)hga_program_coarsen(p, x);
    for (hga_id i = 1 + choose(c, 5); i > 0; i--) add_sensible_stage(c, p, f, n_relations);
    hga_id out = f->out ? f->out : f->state;
    if (filled_before(p, p->n_stages) >> out & 1) return;
    if (f->out)
        (void)hga_program_weighted_sum(p, 0, f->value, out);
    else
        (void)hga_program_attend(p, 0, f->query, f->key, f->value, out, choose(c, 2));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    choices c = {data, size, 0};
    filling memory = {.byte = 0xff};
    hga_allocator a = filling_allocator(&memory);
    hga_program p;
    fields f = {0};
    hga_graph *g = some_graph(&c, &a);
    if (g && fuzz_is_small(g)) {
        hga_program_init(&p);
        if (add_fields(&c, &p, &f) == HGA_OK) {
            add_stages(&c, &p, &f, hga_graph_nodes(g).n_relations);
            fuzz_execute(g, &p, &c);
            fuzz_inspect(g, &p);
            fuzz_set_input(NULL, NULL);
        }
    }
    hga_graph_destroy(g);
    fuzz_memory_end(&memory, "a graph");
    return 0;
}
