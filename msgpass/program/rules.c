/* rules.c: the legal table and the helpers that write programs, stage by stage. */
#include "program.h"

#include <stdio.h>
#include <string.h>

#define ROLE(r)   (1u << ROLE_##r)
#define WIDTH(w)  (1u << HGA_WIDTH_##w)
#define ANY_PLAIN (WIDTH(KEY) | WIDTH(KV_KEY) | WIDTH(VALUE) | WIDTH(OUT) | WIDTH(SCALAR))
#define ANY_WIDTH (ANY_PLAIN | WIDTH(STATE))
#define ANY_ORDER (1u << HGA_FLAT | 1u << HGA_LEVELS_UP | 1u << HGA_LEVELS_DOWN)
#define ANYWHERE  (ON_RELATION | ON_TREE_UP | ON_TREE_DOWN)

const stage_rule program_rules[N_KINDS] = {
    [KIND_MEAN] = {.name = "mean",
                   .message = HGA_COPY,
                   .reduce = HGA_MEAN,
                   .update = HGA_REPLACE,
                   .relations = ANYWHERE,
                   .orders = ANY_ORDER,
                   .width = {[ROLE_VALUE] = ANY_PLAIN, [ROLE_OUT] = ANY_PLAIN},
                   .source_reads = ROLE(VALUE),
                   .writes = ROLE(OUT),
                   .ready = ROLE(VALUE),
                   .may_be_out = ROLE(VALUE),
                   .carries = 1,
                   .carry_source = ROLE(VALUE)},
    [KIND_SUM] = {.name = "sum",
                  .message = HGA_COPY,
                  .reduce = HGA_SUM,
                  .update = HGA_REPLACE,
                  .relations = ANYWHERE,
                  .orders = ANY_ORDER,
                  .width = {[ROLE_VALUE] = ANY_PLAIN, [ROLE_OUT] = ANY_PLAIN},
                  .source_reads = ROLE(VALUE),
                  .writes = ROLE(OUT),
                  .ready = ROLE(VALUE),
                  .may_be_out = ROLE(VALUE),
                  .carries = 1,
                  .carry_source = ROLE(VALUE)},
    [KIND_WEIGHTED_SUM] = {.name = "weighted sum",
                           .message = HGA_SCALED,
                           .reduce = HGA_SUM,
                           .update = HGA_REPLACE,
                           .relations = ON_RELATION,
                           .orders = 1u << HGA_FLAT,
                           .width = {[ROLE_VALUE] = WIDTH(VALUE) | WIDTH(OUT), [ROLE_OUT] = WIDTH(OUT)},
                           .source_reads = ROLE(VALUE),
                           .writes = ROLE(OUT),
                           .ready = ROLE(VALUE),
                           .carries = 1,
                           .carry_source = ROLE(VALUE)},
    [KIND_ATTEND] = {.name = "attend",
                     .message = HGA_SCORE,
                     .reduce = HGA_SOFTMAX,
                     .update = HGA_REPLACE,
                     .relations = ON_RELATION,
                     .orders = 1u << HGA_FLAT,
                     .width = {[ROLE_QUERY] = WIDTH(KEY),
                               [ROLE_KEY] = WIDTH(KV_KEY),
                               [ROLE_VALUE] = WIDTH(VALUE),
                               [ROLE_OUT] = WIDTH(STATE)},
                     .source_reads = ROLE(KEY) | ROLE(VALUE),
                     .own_reads = ROLE(QUERY),
                     .writes = ROLE(OUT),
                     .ready = ROLE(QUERY) | ROLE(KEY) | ROLE(VALUE),
                     .carries = 1,
                     .carry_source = ROLE(VALUE)},
    [KIND_ATTEND_MORE] = {.name = "attend more",
                          .message = HGA_SCORE,
                          .reduce = HGA_SOFTMAX,
                          .update = HGA_UPDATE_MERGE,
                          .relations = ON_RELATION,
                          .orders = 1u << HGA_FLAT,
                          .width = {[ROLE_QUERY] = WIDTH(KEY),
                                    [ROLE_KEY] = WIDTH(KV_KEY),
                                    [ROLE_VALUE] = WIDTH(VALUE),
                                    [ROLE_OUT] = WIDTH(STATE)},
                          .source_reads = ROLE(KEY) | ROLE(VALUE),
                          .own_reads = ROLE(QUERY) | ROLE(OUT),
                          .lone_reads = ROLE(OUT),
                          .writes = ROLE(OUT),
                          .ready = ROLE(QUERY) | ROLE(KEY) | ROLE(VALUE) | ROLE(OUT),
                          .carries = 1,
                          .carry_source = ROLE(VALUE),
                          .carry_own = ROLE(OUT)},
    [KIND_SPREAD] = {.name = "spread",
                     .message = HGA_STATE,
                     .reduce = HGA_MERGE,
                     .update = HGA_UPDATE_MERGE,
                     .relations = ON_RELATION | ON_TREE_DOWN,
                     .orders = 1u << HGA_LEVELS_DOWN,
                     .width = {[ROLE_VALUE] = WIDTH(STATE), [ROLE_OUT] = WIDTH(STATE)},
                     .source_reads = ROLE(VALUE),
                     .own_reads = ROLE(OUT),
                     .lone_reads = ROLE(OUT),
                     .writes = ROLE(OUT),
                     .ready = ROLE(VALUE),
                     .must_be_out = ROLE(VALUE),
                     .carries = 1,
                     .carry_source = ROLE(VALUE),
                     .carry_own = ROLE(OUT)},
    [KIND_ENERGY] = {.name = "energy",
                     .message = HGA_ENERGY,
                     .reduce = HGA_MEAN,
                     .update = HGA_REPLACE,
                     .relations = ON_TREE_UP,
                     .orders = 1u << HGA_LEVELS_UP,
                     .width = {[ROLE_VALUE] = WIDTH(STATE), [ROLE_KEY] = WIDTH(SCALAR), [ROLE_OUT] = WIDTH(SCALAR)},
                     .source_reads = ROLE(VALUE) | ROLE(KEY),
                     .writes = ROLE(OUT),
                     .ready = ROLE(VALUE),
                     .must_be_out = ROLE(KEY)},
    [KIND_DESCEND] = {.name = "descend",
                      .message = HGA_GATE,
                      .reduce = HGA_SUM,
                      .update = HGA_DESCEND,
                      .relations = ON_TREE_DOWN,
                      .orders = 1u << HGA_LEVELS_DOWN,
                      .width = {[ROLE_VALUE] = WIDTH(STATE),
                                [ROLE_GATE] = WIDTH(SCALAR),
                                [ROLE_KEEP] = WIDTH(SCALAR),
                                [ROLE_OUT] = WIDTH(OUT)},
                      .source_reads = ROLE(OUT) | ROLE(KEEP),
                      .own_reads = ROLE(VALUE) | ROLE(GATE),
                      .lone_reads = ROLE(VALUE) | ROLE(GATE),
                      .gating_reads = ROLE(GATE), /* sigmoid(-inf - psi) = 0 */
                      .writes = ROLE(OUT) | ROLE(KEEP),
                      .ready = ROLE(VALUE) | ROLE(GATE),
                      .carries = 1,
                      .carry_source = ROLE(OUT),
                      .carry_own = ROLE(VALUE)},
    /* what a user stage reads and writes are its own sets; `value`, where it names one, is what its edges hand on */
    [KIND_USER] = {.name = "user",
                   .message = HGA_MESSAGE_USER,
                   .reduce = HGA_REDUCE_USER,
                   .update = HGA_UPDATE_USER,
                   .relations = ANYWHERE,
                   .orders = ANY_ORDER,
                   .width = {[ROLE_QUERY] = WIDTH(KEY),
                             [ROLE_KEY] = WIDTH(KV_KEY),
                             [ROLE_VALUE] = ANY_WIDTH,
                             [ROLE_GATE] = ANY_WIDTH,
                             [ROLE_KEEP] = ANY_WIDTH,
                             [ROLE_OUT] = ANY_WIDTH},
                   .may_be_out = ROLE(VALUE) | ROLE(GATE) | ROLE(KEEP),
                   .carries = 1,
                   .carry_source = ROLE(VALUE)},
};

stage_kind program_kind(const hga_stage *s)
{
    for (int k = KIND_NONE + 1; k < N_KINDS; k++) {
        const stage_rule *r = &program_rules[k];
        if (r->message == s->message && r->reduce == s->reduce && r->update == s->update) return (stage_kind)k;
    }
    return KIND_NONE;
}

const char *program_stage_kind(const hga_stage *s)
{
    const char *name = program_rules[program_kind(s)].name;
    return name ? name : "none";
}

hga_id program_role(const hga_stage *s, stage_role role)
{
    const hga_id field[N_ROLES] = {[ROLE_QUERY] = s->query, [ROLE_KEY] = s->key,   [ROLE_VALUE] = s->value,
                                   [ROLE_GATE] = s->gate,   [ROLE_KEEP] = s->keep, [ROLE_OUT] = s->out};
    return field[role];
}

uint32_t program_fields(const hga_stage *s, unsigned roles)
{
    uint32_t set = 0;
    for (int r = 0; r < N_ROLES; r++) {
        hga_id f = program_role(s, (stage_role)r);
        if (roles >> r & 1u && f > 0 && f <= HGA_MAX_FIELDS) set |= UINT32_C(1) << f;
    }
    return set;
}

uint32_t program_in_place(const hga_stage *s)
{
    const stage_rule *r = &program_rules[program_kind(s)];
    if (program_kind(s) == KIND_USER) return (s->reads | program_fields(s, ROLE(KEY))) & s->writes;
    return program_fields(s, r->source_reads) & program_fields(s, r->writes);
}

int program_is_input(hga_binding binding)
{
    return binding == HGA_IO_QUERY || binding == HGA_IO_KEY || binding == HGA_IO_VALUE || binding == HGA_IO_USER;
}

hga_id program_bound(const hga_program *p, hga_binding binding)
{
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (p->field[f].binding == binding) return f;
    return 0;
}

int program_row(const hga_nodes *nodes, hga_rows rows, hga_id v)
{
    switch (rows) {
    case HGA_ROWS_QUERIES: return v >= nodes->query_first && v - nodes->query_first < nodes->n_queries;
    case HGA_ROWS_KEYS: return v >= nodes->key_first && v - nodes->key_first < nodes->n_keys;
    case HGA_ROWS_QUERY_SIDE: return !nodes->side || nodes->side[v] != HGA_SIDE_KEY;
    case HGA_ROWS_KEY_SIDE: return !nodes->side || nodes->side[v] != HGA_SIDE_QUERY;
    case HGA_ROWS_ABOVE: return v >= nodes->level_ptr[1];
    case HGA_ROWS_NODES: break;
    }
    return 1;
}

int program_rows_within(const hga_nodes *nodes, hga_rows a, hga_rows b)
{
    int self = nodes->query_first == nodes->key_first && nodes->n_queries == nodes->n_keys;
    int tokens = a == HGA_ROWS_QUERIES || a == HGA_ROWS_KEYS;
    if (a == b || b == HGA_ROWS_NODES) return 1;
    if (!nodes->side && (b == HGA_ROWS_QUERY_SIDE || b == HGA_ROWS_KEY_SIDE)) return 1;
    if (a == HGA_ROWS_QUERIES && b == HGA_ROWS_QUERY_SIDE) return 1;
    if (a == HGA_ROWS_KEYS && b == HGA_ROWS_KEY_SIDE) return 1;
    return self && tokens && b != HGA_ROWS_ABOVE;
}

/* ---- writing programs ---- */

void hga_program_init(hga_program *p)
{
    if (p) memset(p, 0, sizeof *p);
}

/* A name that fits its array, is not empty, and is its own. */
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

hga_status hga_program_add_field(hga_program *p, const char *name, hga_width width, hga_binding binding, hga_rows io,
                                 hga_rows rows, hga_id *field)
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

/* Roles a stage of this kind does not use name no field, and reads and writes follow from the others. */
static void settle(hga_stage *s)
{
    const stage_rule *r = &program_rules[program_kind(s)];
    hga_id *field[N_ROLES] = {[ROLE_QUERY] = &s->query, [ROLE_KEY] = &s->key,   [ROLE_VALUE] = &s->value,
                              [ROLE_GATE] = &s->gate,   [ROLE_KEEP] = &s->keep, [ROLE_OUT] = &s->out};
    for (int i = 0; i < N_ROLES; i++)
        if (!r->width[i]) *field[i] = 0;
    s->reads = program_fields(s, r->source_reads | r->own_reads);
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
    if (kind != KIND_USER) settle(&new);
    p->stage[p->n_stages++] = new;
    return HGA_OK;
}

static int name_is_taken(const hga_program *p, const char *name)
{
    for (hga_id s = 0; s < p->n_stages; s++)
        if (strcmp(p->stage[s].name, name) == 0) return 1;
    return 0;
}

/* "verb field", cut to fit, with a number from 2 on where that name is taken. */
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

/* The helpers' way in: fields are in range, then name and add. */
static hga_status add_named(hga_program *p, const char *verb, hga_stage *s)
{
    if (!p) return hga_fail(HGA_EPROGRAM, "%s: no program", verb);
    const stage_rule *rule = &program_rules[program_kind(s)];
    for (int r = 0; r < N_ROLES; r++) {
        hga_id f = program_role(s, (stage_role)r);
        if (rule->width[r] && (f < 1 || f > p->n_fields))
            return hga_fail(HGA_EPROGRAM, "%s: field %d of %d", verb, f, p->n_fields);
    }
    if (p->n_stages < HGA_MAX_STAGES) name_stage(p, verb, s->out, s->name);
    return hga_program_add_stage(p, s);
}

static hga_order order_along(hga_id relation, int in_place)
{
    if (relation == HGA_TREE_DOWN) return HGA_LEVELS_DOWN;
    return relation == HGA_TREE_UP || in_place ? HGA_LEVELS_UP : HGA_FLAT;
}

hga_status hga_program_mean(hga_program *p, hga_id relation, hga_id x, hga_id out, int by_mass)
{
    hga_stage s = {.relation = relation,
                   .order = order_along(relation, x == out),
                   .message = HGA_COPY,
                   .reduce = HGA_MEAN,
                   .update = HGA_REPLACE,
                   .by_mass = by_mass,
                   .value = x,
                   .out = out};
    return add_named(p, "mean", &s);
}

hga_status hga_program_coarsen(hga_program *p, hga_id x)
{
    hga_stage s = {.relation = HGA_TREE_UP,
                   .order = HGA_LEVELS_UP,
                   .message = HGA_COPY,
                   .reduce = HGA_MEAN,
                   .update = HGA_REPLACE,
                   .by_mass = 1,
                   .value = x,
                   .out = x};
    return add_named(p, "coarsen", &s);
}

hga_status hga_program_coarsen_along(hga_program *p, hga_id relation, hga_id x)
{
    hga_stage s = {.relation = relation,
                   .order = HGA_LEVELS_UP,
                   .message = HGA_COPY,
                   .reduce = HGA_MEAN,
                   .update = HGA_REPLACE,
                   .value = x,
                   .out = x};
    return add_named(p, "coarsen", &s);
}

hga_status hga_program_weighted_sum(hga_program *p, hga_id relation, hga_id x, hga_id out)
{
    hga_stage s = {.relation = relation,
                   .order = HGA_FLAT,
                   .message = HGA_SCALED,
                   .reduce = HGA_SUM,
                   .update = HGA_REPLACE,
                   .value = x,
                   .out = out};
    return add_named(p, "weighted sum", &s);
}

hga_status hga_program_attend(hga_program *p, hga_id relation, hga_id query, hga_id key, hga_id value, hga_id out,
                              int by_mass)
{
    hga_stage s = {.relation = relation,
                   .order = HGA_FLAT,
                   .message = HGA_SCORE,
                   .reduce = HGA_SOFTMAX,
                   .update = HGA_REPLACE,
                   .by_mass = by_mass,
                   .query = query,
                   .key = key,
                   .value = value,
                   .out = out};
    return add_named(p, "attend", &s);
}

hga_status hga_program_attend_more(hga_program *p, hga_id relation, hga_id query, hga_id key, hga_id value, hga_id out,
                                   int by_mass)
{
    hga_stage s = {.relation = relation,
                   .order = HGA_FLAT,
                   .message = HGA_SCORE,
                   .reduce = HGA_SOFTMAX,
                   .update = HGA_UPDATE_MERGE,
                   .by_mass = by_mass,
                   .query = query,
                   .key = key,
                   .value = value,
                   .out = out};
    return add_named(p, "attend more", &s);
}

hga_status hga_program_spread(hga_program *p, hga_id relation, hga_id state)
{
    hga_stage s = {.relation = relation,
                   .order = HGA_LEVELS_DOWN,
                   .message = HGA_STATE,
                   .reduce = HGA_MERGE,
                   .update = HGA_UPDATE_MERGE,
                   .value = state,
                   .out = state};
    return add_named(p, "spread", &s);
}

hga_status hga_program_energy(hga_program *p, hga_id state, hga_id psi)
{
    hga_stage s = {.relation = HGA_TREE_UP,
                   .order = HGA_LEVELS_UP,
                   .message = HGA_ENERGY,
                   .reduce = HGA_MEAN,
                   .update = HGA_REPLACE,
                   .by_mass = 1,
                   .value = state,
                   .key = psi,
                   .out = psi};
    return add_named(p, "energy", &s);
}

hga_status hga_program_descend(hga_program *p, hga_id state, hga_id psi, hga_id keep, hga_id out)
{
    hga_stage s = {.relation = HGA_TREE_DOWN,
                   .order = HGA_LEVELS_DOWN,
                   .message = HGA_GATE,
                   .reduce = HGA_SUM,
                   .update = HGA_DESCEND,
                   .value = state,
                   .gate = psi,
                   .keep = keep,
                   .out = out};
    return add_named(p, "descend", &s);
}

hga_status hga_program_attention(hga_program *p, hga_id relation)
{
    hga_id query, key, value, out;
    hga_status st = HGA_OK;
    HGA_TRY(hga_program_add_field(p, "query", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES, &query));
    HGA_TRY(hga_program_add_field(p, "key", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_KEYS, &key));
    HGA_TRY(hga_program_add_field(p, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_KEYS, &value));
    HGA_TRY(hga_program_add_field(p, "out", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES, &out));
    HGA_TRY(hga_program_attend(p, relation, query, key, value, out, 0));
    p->has_lse = 1;
done:
    return st;
}
