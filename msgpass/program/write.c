/* write.c: the helpers that write programs, field by field and stage by stage. */
#include "program_check.h"

#include <stdio.h>
#include <string.h>

void hga_program_init(hga_program *p)
{
    if (p) memset(p, 0, sizeof *p);
}

/* Copies a name, which is not empty and fits its array. */
static hga_status take_name(const char *what, const char *name, char *into)
{
    if (!name || !name[0]) return hga_fail(HGA_EPROGRAM, "a %s has no name", what);
    size_t bytes = strlen(name);
    if (bytes >= HGA_NAME_BYTES)
        return hga_fail(HGA_EPROGRAM, "%s name '%s' has %zu bytes, more than %d", what, name, bytes,
                        HGA_NAME_BYTES - 1);
    memcpy(into, name, bytes + 1);
    return HGA_OK;
}

hga_status hga_program_add_field(hga_program *p, const char *name, hga_width width, hga_binding binding,
                                 hga_field_rows io, hga_field_rows rows, hga_id *field)
{
    if (field) *field = 0;
    if (!p) return hga_fail(HGA_EPROGRAM, "add_field: no program");
    if (p->n_fields >= HGA_MAX_FIELDS)
        return hga_fail(HGA_EPROGRAM, "field '%s' is one more than %d", name ? name : "", HGA_MAX_FIELDS);
    hga_field new = {.width = width, .binding = binding, .io = binding == HGA_INTERNAL ? rows : io, .rows = rows};
    hga_status st = HGA_OK;
    HGA_TRY(take_name("field", name, new.name));
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (strcmp(p->field[f].name, name) == 0)
            return hga_fail(HGA_EPROGRAM, "field '%s' is there already, as field %d", name, f);
    p->field[++p->n_fields] = new;
    if (field) *field = p->n_fields;
done:
    return st;
}

/* Clears the roles that the kind does not use, and derives `reads` and `writes` from the others. */
static void settle_roles(hga_stage *s)
{
    const stage_rule *r = &program_rules[program_kind(s)];
    hga_id *field[N_ROLES] = {[ROLE_QUERY] = &s->query, [ROLE_KEY] = &s->key,   [ROLE_VALUE] = &s->value,
                              [ROLE_GATE] = &s->gate,   [ROLE_KEEP] = &s->keep, [ROLE_OUT] = &s->out};
    for (int i = 0; i < N_ROLES; i++)
        if (!r->width[i]) *field[i] = 0;
    s->reads = program_fields(s, r->reads.source | r->reads.own);
    s->writes = program_fields(s, r->writes);
}

hga_status hga_program_add_stage(hga_program *p, const hga_stage *stage)
{
    if (!p || !stage) return hga_fail(HGA_EPROGRAM, "add_stage: no %s", p ? "stage" : "program");
    if (p->n_stages >= HGA_MAX_STAGES)
        return hga_fail(HGA_EPROGRAM, "stage '%.31s' is one more than %d", stage->name, HGA_MAX_STAGES);
    hga_stage new = *stage;
    stage_kind kind = program_kind(&new);
    if (kind == KIND_NONE)
        return hga_fail(HGA_EPROGRAM,
                        "stage '%.31s': message %d, reduce %d, update %d go together in no row of the table",
                        stage->name, (int)stage->message, (int)stage->reduce, (int)stage->update);
    if (kind != KIND_USER) settle_roles(&new);
    p->stage[p->n_stages++] = new;
    return HGA_OK;
}

static int name_is_taken(const hga_program *p, const char *name)
{
    for (hga_id s = 0; s < p->n_stages; s++)
        if (strcmp(p->stage[s].name, name) == 0) return 1;
    return 0;
}

/* "verb field", truncated to fit, with a number from 2 on where that name is used. */
static void name_stage(const hga_program *p, const char *verb, hga_id field, char *into)
{
    char base[2 * HGA_NAME_BYTES], number[16] = "";
    snprintf(base, sizeof base, "%.31s %.31s", verb, p->field[field].name);
    for (int i = 2;; i++) {
        snprintf(into, HGA_NAME_BYTES, "%.*s%s", (int)(HGA_NAME_BYTES - 1 - strlen(number)), base, number);
        if (!name_is_taken(p, into)) return;
        snprintf(number, sizeof number, " %d", i);
    }
}

/* ---- one stage of a kind ---- */

/* The order of a stage: along the tree level by level; elsewhere flat, or upwards where it is in place. */
static hga_order order_along(hga_id relation, int in_place)
{
    if (relation == HGA_TREE_DOWN) return HGA_LEVELS_DOWN;
    return relation == HGA_TREE_UP || in_place ? HGA_LEVELS_UP : HGA_FLAT;
}

/* A stage with the message, reduce and update of its kind. */
static hga_stage stage_of_kind(stage_kind kind, hga_id relation, hga_id value, hga_id out)
{
    const stage_rule *rule = &program_rules[kind];
    return (hga_stage){.relation = relation,
                       .order = order_along(relation, value == out),
                       .message = rule->message,
                       .reduce = rule->reduce,
                       .update = rule->update,
                       .value = value,
                       .out = out};
}

/* Adds a helper's stage: checks that fields are in range and names it "verb field". */
static hga_status add_named(hga_program *p, const char *verb, hga_stage s)
{
    if (!p) return hga_fail(HGA_EPROGRAM, "%s: no program", verb);
    const stage_rule *rule = &program_rules[program_kind(&s)];
    for (int r = 0; r < N_ROLES; r++) {
        hga_id f = program_role(&s, (stage_role)r);
        if (rule->width[r] && (f < 1 || f > p->n_fields))
            return hga_fail(HGA_EPROGRAM, "%s: field %d of %d", verb, f, p->n_fields);
    }
    if (p->n_stages < HGA_MAX_STAGES) name_stage(p, verb, s.out, s.name);
    return hga_program_add_stage(p, &s);
}

hga_status hga_program_mean(hga_program *p, hga_id relation, hga_id x, hga_id out, int by_mass)
{
    hga_stage s = stage_of_kind(KIND_MEAN, relation, x, out);
    s.by_mass = by_mass;
    return add_named(p, "mean", s);
}

hga_status hga_program_coarsen(hga_program *p, hga_id x)
{
    hga_stage s = stage_of_kind(KIND_MEAN, HGA_TREE_UP, x, x);
    s.by_mass = 1;
    return add_named(p, "coarsen", s);
}

hga_status hga_program_coarsen_along(hga_program *p, hga_id relation, hga_id x)
{
    return add_named(p, "coarsen", stage_of_kind(KIND_MEAN, relation, x, x));
}

hga_status hga_program_sum(hga_program *p, hga_id relation, hga_id x, hga_id out)
{
    return add_named(p, "sum", stage_of_kind(KIND_SUM, relation, x, out));
}

hga_status hga_program_weighted_sum(hga_program *p, hga_id relation, hga_id x, hga_id out)
{
    return add_named(p, "weighted sum", stage_of_kind(KIND_WEIGHTED_SUM, relation, x, out));
}

static hga_status add_attending(hga_program *p, stage_kind kind, hga_stage s)
{
    const stage_rule *rule = &program_rules[kind];
    s.message = rule->message, s.reduce = rule->reduce, s.update = rule->update;
    return add_named(p, rule->name, s);
}

hga_status hga_program_attend(hga_program *p, hga_id relation, hga_id query, hga_id key, hga_id value, hga_id out,
                              int by_mass)
{
    hga_stage s = {.relation = relation, .query = query, .key = key, .value = value, .out = out, .by_mass = by_mass};
    return add_attending(p, KIND_ATTEND, s);
}

hga_status hga_program_attend_more(hga_program *p, hga_id relation, hga_id query, hga_id key, hga_id value, hga_id out,
                                   int by_mass)
{
    hga_stage s = {.relation = relation, .query = query, .key = key, .value = value, .out = out, .by_mass = by_mass};
    return add_attending(p, KIND_ATTEND_MORE, s);
}

/* Merges the stage that attends and the energies of its states into one stage. */
static void go_inside(hga_program *p)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        for (hga_id e = i + 1; e < p->n_stages; e++) {
            hga_stage *s = &p->stage[i], *energy = &p->stage[e];
            if (program_kind(s) != KIND_ATTEND || program_kind(energy) != KIND_ENERGY || energy->value != s->out)
                continue;
            s->update = HGA_UPDATE_INSIDE, s->order = HGA_LEVELS_UP, s->gate = energy->out;
            settle_roles(s);
            memmove(energy, energy + 1, (size_t)(--p->n_stages - e) * sizeof *energy);
        }
}

/* Splits a stage that attends with the energies of its states into two again. */
static hga_status come_out(hga_program *p)
{
    hga_status st = HGA_OK;
    for (hga_id i = 0; i < p->n_stages; i++) {
        hga_stage *s = &p->stage[i];
        const hga_id psi = s->gate, n = p->n_stages;
        if (program_kind(s) != KIND_ATTEND_INSIDE) continue;
        s->update = HGA_REPLACE, s->order = HGA_FLAT;
        settle_roles(s);
        HGA_TRY(hga_program_energy(p, s->out, psi));
        const hga_stage energy = p->stage[n];
        memmove(s + 2, s + 1, (size_t)(n - i - 1) * sizeof *s);
        s[1] = energy;
    }
done:
    return st;
}

hga_status hga_program_normalise(hga_program *p, hga_normaliser normaliser, double alpha)
{
    int attends = 0;
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].message == HGA_SCORE)
            p->stage[i].normaliser = normaliser, p->stage[i].alpha = alpha, attends = 1;
    if (!attends) return hga_fail(HGA_EPROGRAM, "no stage attends, so there is nothing to normalise");
    if ((unsigned)normaliser >= HGA_N_NORMALISERS) return HGA_OK; /* the plan refuses it */
    const unsigned is = program_normaliser_is(p);
    if (!(is & NORMALISER_HAS_LSE)) p->has_lse = 0;
    if (is & NORMALISER_HAS_LSE || !(is & NORMALISER_SHARES_OUT)) return come_out(p);
    go_inside(p);
    return HGA_OK;
}

hga_status hga_program_spread(hga_program *p, hga_id relation, hga_id state)
{
    hga_stage s = stage_of_kind(KIND_SPREAD, relation, state, state);
    s.order = HGA_LEVELS_DOWN;
    return add_named(p, "spread", s);
}

hga_status hga_program_energy(hga_program *p, hga_id state, hga_id psi)
{
    hga_stage s = stage_of_kind(KIND_ENERGY, HGA_TREE_UP, state, psi);
    s.by_mass = 1, s.key = psi;
    return add_named(p, "energy", s);
}

hga_status hga_program_descend(hga_program *p, hga_id state, hga_id psi, hga_id keep, hga_id out)
{
    hga_stage s = stage_of_kind(KIND_DESCEND, HGA_TREE_DOWN, state, out);
    s.gate = psi, s.keep = keep;
    return add_named(p, "descend", s);
}

/* ---- whole programs ---- */

/* The caller's query, key, value and output on tokens, with rows for `query_rows` and `key_rows`. */
typedef struct four_fields {
    hga_id query, key, value, out;
} four_fields;

static hga_status add_fields(hga_program *p, hga_field_rows query_rows, hga_field_rows key_rows, four_fields *f)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_program_add_field(p, "query", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, query_rows, &f->query));
    HGA_TRY(hga_program_add_field(p, "key", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, key_rows, &f->key));
    HGA_TRY(hga_program_add_field(p, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, key_rows, &f->value));
    HGA_TRY(hga_program_add_field(p, "out", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, query_rows, &f->out));
done:
    return st;
}

hga_status hga_program_attention(hga_program *p, hga_id relation)
{
    four_fields f;
    hga_status st = HGA_OK;
    hga_program_init(p);
    HGA_TRY(add_fields(p, HGA_ROWS_QUERIES, HGA_ROWS_KEYS, &f));
    HGA_TRY(hga_program_attend(p, relation, f.query, f.key, f.value, f.out, 0));
    p->has_lse = 1;
done:
    return st;
}

/* Whether the relation has an edge into, or out of, a node above the tokens; a block counts by the last node that it
   reaches. */
static void reach_above(const hga_graph *g, hga_id relation, int *into, int *out_of)
{
    hga_nodes n = hga_graph_nodes(g);
    hga_relation r = hga_graph_relation(g, relation);
    hga_id tokens = n.level_ptr[1];
    for (hga_id v = tokens; r.ptr && v < n.n && !*into; v++) *into = r.ptr[v + 1] > r.ptr[v];
    for (hga_pos e = 0; e < r.n_explicit && !*out_of; e++) *out_of = r.src[e] >= tokens;
    for (hga_block_walk w = {0}; hga_relation_next(&r, &w);) {
        const hga_block *k = &w.block;
        int64_t more = k->count > 1 ? k->count - 1 : 0;
        for (int64_t i = k->dst, end = i + more * k->dst_step + k->n_dst; i < end && !*into; i++)
            *into = (r.dst_order ? r.dst_order[i] : (hga_id)end - 1) >= tokens;
        for (int64_t i = k->src, end = i + more * k->src_step + k->n_src; i < end && !*out_of; i++)
            *out_of = (r.src_order ? r.src_order[i] : (hga_id)end - 1) >= tokens;
    }
}

hga_status hga_program_hierarchy(hga_program *p, const hga_graph *g, const hga_id *relations, hga_id n_relations)
{
    hga_status st = HGA_OK;
    four_fields f;
    int coarse_queries = 0, coarse_keys = 0;
    if (!p || !g || !relations || n_relations < 1)
        return hga_fail(HGA_EINVAL, "hierarchy: no %s", !p ? "program" : !g ? "graph" : "relations");
    hga_nodes n = hga_graph_nodes(g);
    for (hga_id i = 0; i < n_relations; i++) {
        if (relations[i] < 0 || relations[i] >= n.n_relations)
            return hga_fail(HGA_EINVAL, "hierarchy: relation %d of %d", relations[i], n.n_relations);
        reach_above(g, relations[i], &coarse_queries, &coarse_keys);
    }
    if ((coarse_queries || coarse_keys) && !n.parent)
        return hga_fail(HGA_EPROGRAM, "hierarchy: edges end above the %d tokens, but no node has a parent",
                        n.level_ptr[1]);
    hga_program_init(p);
    HGA_TRY(add_fields(p, coarse_queries ? HGA_ROWS_QUERY_SIDE : HGA_ROWS_QUERIES,
                       coarse_keys ? HGA_ROWS_KEY_SIDE : HGA_ROWS_KEYS, &f));
    if (coarse_queries) HGA_TRY(hga_program_coarsen(p, f.query));
    if (coarse_keys) HGA_TRY(hga_program_coarsen(p, f.key));
    if (coarse_keys) HGA_TRY(hga_program_coarsen(p, f.value));
    for (hga_id i = 0; i < n_relations; i++)
        HGA_TRY((i ? hga_program_attend_more : hga_program_attend)(p, relations[i], f.query, f.key, f.value, f.out, 1));
    if (coarse_queries) HGA_TRY(hga_program_spread(p, HGA_TREE_DOWN, f.out));
    p->has_lse = 1;
    HGA_TRY(program_check(p, g));
done:
    if (st) hga_program_init(p);
    return st;
}
