/* program.c: a random program: fields on drawn rows and of drawn widths, then a few stages that read what others
   wrote. */
#include "draws.h"

#include <stdio.h>

/* The fields of a random program; what a stage requires of one decides its width, otherwise it is drawn. */
typedef struct fields {
    hga_id query, key, value, mean, state, psi, keep, out, user, more;
} fields;

typedef struct drawing {
    choices *c;
    hga_program *p;
    fields f;
    hga_id n_relations;
} drawing;

/* ---- fields ---- */

static hga_width some_width(choices *c)
{
    static const hga_width widths[] = {HGA_WIDTH_OUT, HGA_WIDTH_VALUE,  HGA_WIDTH_SCALAR,
                                       HGA_WIDTH_KEY, HGA_WIDTH_KV_KEY, HGA_WIDTH_OUT};
    return widths[choose(c, 6)];
}

/* Tokens first, then what is rarer. */
static hga_field_rows some_rows(choices *c)
{
    static const hga_field_rows usual[] = {HGA_ROWS_QUERIES,    HGA_ROWS_NODES,    HGA_ROWS_KEYS,
                                           HGA_ROWS_QUERY_SIDE, HGA_ROWS_KEY_SIDE, HGA_ROWS_ABOVE};
    return usual[rarely(c, 12) ? choose(c, 6) : choose(c, 2)];
}

/* The nodes that are natural for the caller's rows: the side of his tokens, or no more than he gives, or all. */
static hga_field_rows rows_for(choices *c, hga_binding bound, hga_field_rows io)
{
    if (bound == HGA_INTERNAL && choose(c, 4)) return HGA_ROWS_NODES;
    if (rarely(c, 40)) return some_rows(c);
    if (rarely(c, 5)) return io;
    if (rarely(c, 6)) return io == HGA_ROWS_KEYS ? HGA_ROWS_KEY_SIDE : HGA_ROWS_QUERY_SIDE;
    return HGA_ROWS_NODES;
}

static hga_status add_field(drawing *d, const char *name, hga_width width, hga_binding bound, hga_field_rows io,
                            hga_id *out)
{
    return hga_program_add_field(d->p, name, width, bound, io, rows_for(d->c, bound, io), out);
}

static hga_status add_fields(drawing *d)
{
    choices *c = d->c;
    fields *f = &d->f;
    hga_status st = HGA_OK;
    hga_field_rows queries = some_rows(c), keys = rarely(c, 4) ? HGA_ROWS_KEYS : rarely(c, 4) ? some_rows(c) : queries;
    int state_is_out = choose(c, 2);
    if (state_is_out || !rarely(c, 5)) { /* sums need neither */
        HGA_TRY(add_field(d, "q", HGA_WIDTH_KEY, HGA_IO_QUERY, queries, &f->query));
        HGA_TRY(add_field(d, "k", HGA_WIDTH_KV_KEY, HGA_IO_KEY, keys, &f->key));
    }
    HGA_TRY(add_field(d, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE, keys, &f->value));
    HGA_TRY(add_field(d, "mean", rarely(c, 4) ? some_width(c) : HGA_WIDTH_VALUE, HGA_INTERNAL, some_rows(c), &f->mean));
    HGA_TRY(add_field(d, "state", HGA_WIDTH_STATE, state_is_out ? HGA_IO_OUT : HGA_INTERNAL, some_rows(c), &f->state));
    HGA_TRY(add_field(d, "psi", HGA_WIDTH_SCALAR, HGA_INTERNAL, some_rows(c), &f->psi));
    HGA_TRY(add_field(d, "keep", HGA_WIDTH_SCALAR, HGA_INTERNAL, some_rows(c), &f->keep));
    if (!state_is_out) HGA_TRY(add_field(d, "out", HGA_WIDTH_OUT, HGA_IO_OUT, some_rows(c), &f->out));
    if (rarely(c, 3))
        HGA_TRY(
            add_field(d, "user", rarely(c, 20) ? HGA_WIDTH_STATE : some_width(c), HGA_IO_USER, some_rows(c), &f->user));
    if (rarely(c, 2))
        HGA_TRY(
            add_field(d, "more", rarely(c, 3) ? HGA_WIDTH_OUT : some_width(c), HGA_INTERNAL, some_rows(c), &f->more));
    d->p->has_lse = state_is_out;
done:
    return st;
}

/* ---- stages ---- */

/* The fields that hold something before stage i. */
static uint32_t filled_before(const hga_program *p, hga_id i)
{
    uint32_t filled = 0;
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (p->field[f].binding != HGA_INTERNAL && p->field[f].binding != HGA_IO_OUT) filled |= (uint32_t)1 << f;
    for (hga_id s = 0; s < i; s++) filled |= p->stage[s].writes;
    return filled;
}

/* A field of this width, or any where none of the drawn ones has it. */
static hga_id field_like(drawing *d, hga_id like)
{
    hga_id first = 1 + choose(d->c, d->p->n_fields);
    for (hga_id i = 0; i < d->p->n_fields; i++) {
        hga_id f = 1 + (first + i) % d->p->n_fields;
        if (f != like && d->p->field[f].width == d->p->field[like].width) return f;
    }
    return first;
}

/* A value to weigh or to attend to: the caller's, a mean, what else there is; of a width that can be, but for a few. */
static hga_id some_value(drawing *d, uint32_t widths)
{
    hga_id values[] = {d->f.value, d->f.mean, d->f.user, d->f.more, d->f.more, d->f.mean}, v = values[choose(d->c, 6)];
    return rarely(d->c, 30) || (v && widths >> d->p->field[v].width & 1) ? v : d->f.value;
}

/* Has the field rows that the caller does not give, on levels above his? */
static int may_be_coarsened(const hga_program *p, hga_id f)
{
    return p->field[f].io != p->field[f].rows && p->field[f].io != HGA_ROWS_NODES;
}

/* A stage of the user's own: reads and writes what the choices say, for the most part what may be. */
static hga_status add_user_stage(drawing *d, hga_id relation)
{
    choices *c = d->c;
    const fields *f = &d->f;
    hga_stage s = {.relation = relation, .order = relation < 0 ? HGA_LEVELS_UP : HGA_FLAT};
    snprintf(s.name, sizeof s.name, "mine %d", d->p->n_stages);
    s.message = HGA_MESSAGE_USER, s.reduce = HGA_REDUCE_USER, s.update = HGA_UPDATE_USER;
    if (relation == HGA_TREE_DOWN) s.order = HGA_LEVELS_DOWN;
    if (rarely(c, 6)) s.order = (hga_order)choose(c, 3);
    hga_id targets[] = {f->out ? f->out : f->state, f->mean, f->state, f->more ? f->more : f->mean, f->value};
    s.out = targets[choose(c, rarely(c, 12) ? 5 : 4)];
    s.writes = (uint32_t)1 << s.out;
    s.reads = (uint32_t)choose(c, 1 << 10) << 1;
    if (f->query && rarely(c, 3)) s.query = f->query, s.key = f->key, s.reads |= 1u << f->query | 1u << f->key;
    if (rarely(c, 4)) s.writes |= 1u << f->psi;
    if (!rarely(c, 12)) s.reads &= filled_before(d->p, d->p->n_stages);
    if (s.order == HGA_FLAT) s.reads &= ~s.writes;
    s.udf = draw_user_functions(c, s.reads, s.writes);
    return hga_program_add_stage(d->p, &s);
}

/* Sums and means of any field into one of its width, along a relation or the tree. */
static void add_plain_stage(drawing *d, hga_id relation)
{
    choices *c = d->c;
    hga_id x = 1 + choose(c, d->p->n_fields), to = rarely(c, 5) ? x : field_like(d, x);
    if (d->p->field[x].width == HGA_WIDTH_STATE || d->p->field[x].width != d->p->field[to].width) return;
    if (choose(c, 2))
        (void)hga_program_mean(d->p, relation, x, to, choose(c, 2));
    else
        (void)hga_program_sum(d->p, relation, x, to);
}

/* What goes up the tree, as most programs want. */
static void add_means(drawing *d, int of_all)
{
    hga_id inputs[] = {d->f.query, d->f.key, d->f.value, d->f.user};
    for (int i = 0; i < 4; i++) {
        hga_id f = inputs[i];
        if (!f || !(may_be_coarsened(d->p, f) || rarely(d->c, 30)) || (!of_all && choose(d->c, 3))) continue;
        (void)hga_program_coarsen(d->p, f);
    }
}

/* One stage; helpers refuse what no program may have, and that is no failure. */
static void add_stage(drawing *d)
{
    enum { VALUES = 1 << HGA_WIDTH_VALUE, OUTS = 1 << HGA_WIDTH_OUT };
    choices *c = d->c;
    hga_program *p = d->p;
    const fields *f = &d->f;
    hga_id r = choose(c, d->n_relations), tree = choose(c, 2) ? HGA_TREE_UP : HGA_TREE_DOWN;
    hga_id inputs[] = {f->query, f->key, f->value, f->user}, x = inputs[choose(c, 4)];
    hga_id out = f->out && !rarely(c, 3) ? f->out : f->more;
    switch (choose(c, 14)) {
    case 0:
    case 1: (void)hga_program_attend(p, r, f->query, f->key, some_value(d, VALUES), f->state, rarely(c, 2)); break;
    case 2:
    case 3: (void)hga_program_attend_more(p, r, f->query, f->key, some_value(d, VALUES), f->state, rarely(c, 2)); break;
    case 4: add_means(d, 0); break;
    case 5:
        if (x) (void)hga_program_coarsen_along(p, r, x);
        break;
    case 6: (void)hga_program_spread(p, rarely(c, 3) ? r : HGA_TREE_DOWN, f->state); break;
    case 7:
    case 8: add_plain_stage(d, rarely(c, 3) ? tree : r); break;
    case 9:
        if (f->more && out && f->more != out && choose(c, 2)) /* one sum after the other */
            (void)hga_program_weighted_sum(p, choose(c, d->n_relations), some_value(d, VALUES | OUTS), f->more);
        if (out) (void)hga_program_weighted_sum(p, rarely(c, 20) ? tree : r, some_value(d, VALUES | OUTS), out);
        break;
    case 10:
        if (!(filled_before(p, p->n_stages) >> f->state & 1))
            (void)hga_program_attend(p, r, f->query, f->key, some_value(d, VALUES), f->state, rarely(c, 2));
        (void)hga_program_energy(p, f->state, f->psi);
        if (f->out) (void)hga_program_descend(p, f->state, f->psi, f->keep, f->out);
        break;
    case 11:
    case 12: (void)add_user_stage(d, rarely(c, 3) ? tree : r); break;
    default: add_means(d, 1);
    }
}

/* Take back stages that read what nobody wrote, but for a few: the check refuses them, and the rest is never seen. */
static void add_sensible_stage(drawing *d)
{
    hga_program *p = d->p;
    hga_id before = p->n_stages;
    add_stage(d);
    if (rarely(d->c, 50)) return;
    for (hga_id i = before; i < p->n_stages; i++) {
        uint32_t own = p->stage[i].message == HGA_ENERGY ? (uint32_t)1 << d->f.psi : 0;
        if (p->stage[i].reads & ~filled_before(p, i) & ~own) p->n_stages = before;
    }
}

/* Up to five stages, and the out field is written in the end. */
static void add_stages(drawing *d)
{
    hga_program *p = d->p;
    if (choose(d->c, 3)) add_means(d, 1);
    for (hga_id i = 1 + choose(d->c, 5); i > 0; i--) add_sensible_stage(d);
    hga_id out = d->f.out ? d->f.out : d->f.state;
    if (filled_before(p, p->n_stages) >> out & 1) return;
    if (d->f.out)
        (void)hga_program_weighted_sum(p, choose(d->c, d->n_relations), d->f.value, out);
    else
        (void)hga_program_attend(p, choose(d->c, d->n_relations), d->f.query, d->f.key, d->f.value, out,
                                 choose(d->c, 2));
}

int draw_program(choices *c, const hga_graph *g, hga_program *p)
{
    drawing d = {.c = c, .p = p, .n_relations = hga_graph_nodes(g).n_relations};
    hga_program_init(p);
    if (d.n_relations < 1 || add_fields(&d)) return 0;
    add_stages(&d);
    return 1;
}

/* ---- words about them ---- */

void draw_describe(const hga_graph *g, const hga_program *p)
{
    hga_nodes nodes = hga_graph_nodes(g);
    fprintf(stderr, "%d nodes, levels at", nodes.n);
    for (hga_id l = 0; l <= nodes.n_levels; l++) fprintf(stderr, " %d", nodes.level_ptr[l]);
    fprintf(stderr, "; queries %d + %d, keys %d + %d%s\n", nodes.query_first, nodes.n_queries, nodes.key_first,
            nodes.n_keys, nodes.side ? ", sides" : "");
    for (hga_id r = 0; r < nodes.n_relations; r++) {
        hga_relation x = hga_graph_relation(g, r);
        fprintf(stderr, "relation %d %s: %lld edges, %lld blocks%s%s\n", r, x.name, (long long)x.n_edges,
                (long long)x.n_blocks, x.dst_order ? ", order of rows" : "", x.src_order ? ", order of sources" : "");
    }
    for (hga_id f = 1; f <= p->n_fields; f++) {
        const hga_field *x = &p->field[f];
        fprintf(stderr, "field %d %s: width %d binding %d io %d rows %d\n", f, x->name, (int)x->width, (int)x->binding,
                (int)x->io, (int)x->rows);
    }
    for (hga_id i = 0; i < p->n_stages; i++) {
        const hga_stage *s = &p->stage[i];
        fprintf(stderr, "stage %d %s: relation %d order %d message %d by_mass %d reads %x writes %x\n", i, s->name,
                s->relation, (int)s->order, (int)s->message, s->by_mass, s->reads, s->writes);
    }
}
