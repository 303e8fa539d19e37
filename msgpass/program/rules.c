/* rules.c: the legal table, and functions of it for a stage. */
#include "call.h"
#include "regions.h"

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
                   .reads.source = ROLE(VALUE),
                   .writes = ROLE(OUT),
                   .ready = ROLE(VALUE),
                   .may_be_out = ROLE(VALUE),
                   .carry.on = 1,
                   .carry.source = ROLE(VALUE),
                   .cost = {.column = 2}},
    [KIND_SUM] = {.name = "sum",
                  .message = HGA_COPY,
                  .reduce = HGA_SUM,
                  .update = HGA_REPLACE,
                  .relations = ANYWHERE,
                  .orders = ANY_ORDER,
                  .width = {[ROLE_VALUE] = ANY_PLAIN, [ROLE_OUT] = ANY_PLAIN},
                  .reads.source = ROLE(VALUE),
                  .writes = ROLE(OUT),
                  .ready = ROLE(VALUE),
                  .may_be_out = ROLE(VALUE),
                  .carry.on = 1,
                  .carry.source = ROLE(VALUE),
                  .cost = {.column = 2}},
    [KIND_WEIGHTED_SUM] = {.name = "weighted sum",
                           .message = HGA_SCALED,
                           .reduce = HGA_SUM,
                           .update = HGA_REPLACE,
                           .relations = ON_RELATION,
                           .orders = 1u << HGA_FLAT,
                           .width = {[ROLE_VALUE] = WIDTH(VALUE) | WIDTH(OUT), [ROLE_OUT] = WIDTH(OUT)},
                           .reads.source = ROLE(VALUE),
                           .writes = ROLE(OUT),
                           .ready = ROLE(VALUE),
                           .carry.on = 1,
                           .carry.source = ROLE(VALUE),
                           .cost = {.column = 2}},
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
                     .reads.source = ROLE(KEY) | ROLE(VALUE),
                     .reads.own = ROLE(QUERY),
                     .writes = ROLE(OUT),
                     .ready = ROLE(QUERY) | ROLE(KEY) | ROLE(VALUE),
                     .carry.on = 1,
                     .carry.source = ROLE(VALUE),
                     .attends = 1,
                     .cost = {.key = 2, .value = 2}},
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
                          .reads.source = ROLE(KEY) | ROLE(VALUE),
                          .reads.own = ROLE(QUERY) | ROLE(OUT),
                          .reads.lone = ROLE(OUT),
                          .writes = ROLE(OUT),
                          .ready = ROLE(QUERY) | ROLE(KEY) | ROLE(VALUE) | ROLE(OUT),
                          .carry.on = 1,
                          .carry.source = ROLE(VALUE),
                          .carry.own = ROLE(OUT),
                          .attends = 1,
                          .starts_from_out = 1,
                          .cost = {.key = 2, .value = 2}},
    [KIND_SPREAD] = {.name = "spread",
                     .message = HGA_STATE,
                     .reduce = HGA_MERGE,
                     .update = HGA_UPDATE_MERGE,
                     .relations = ON_RELATION | ON_TREE_DOWN,
                     .orders = 1u << HGA_LEVELS_DOWN,
                     .width = {[ROLE_VALUE] = WIDTH(STATE), [ROLE_OUT] = WIDTH(STATE)},
                     .reads.source = ROLE(VALUE),
                     .reads.own = ROLE(OUT),
                     .reads.lone = ROLE(OUT),
                     .writes = ROLE(OUT),
                     .ready = ROLE(VALUE),
                     .must_be_out = ROLE(VALUE),
                     .carry.on = 1,
                     .carry.source = ROLE(VALUE),
                     .carry.own = ROLE(OUT),
                     .starts_from_out = 1,
                     .cost = {.value = 3}},
    [KIND_ENERGY] = {.name = "energy",
                     .message = HGA_ENERGY,
                     .reduce = HGA_MEAN,
                     .update = HGA_REPLACE,
                     .relations = ON_TREE_UP,
                     .orders = 1u << HGA_LEVELS_UP,
                     .width = {[ROLE_VALUE] = WIDTH(STATE), [ROLE_KEY] = WIDTH(SCALAR), [ROLE_OUT] = WIDTH(SCALAR)},
                     .reads.source = ROLE(VALUE) | ROLE(KEY),
                     .writes = ROLE(OUT),
                     .ready = ROLE(VALUE),
                     .must_be_out = ROLE(KEY),
                     .cost = {.head = 4}},
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
                      .reads.source = ROLE(OUT) | ROLE(KEEP),
                      .reads.own = ROLE(VALUE) | ROLE(GATE),
                      .reads.lone = ROLE(VALUE) | ROLE(GATE),
                      .reads.gating = ROLE(GATE), /* sigmoid(-inf - psi) = 0 */
                      .gives_slot = ROLE(VALUE),
                      .writes = ROLE(OUT) | ROLE(KEEP),
                      .ready = ROLE(VALUE) | ROLE(GATE),
                      .carry.on = 1,
                      .carry.source = ROLE(OUT),
                      .carry.own = ROLE(VALUE),
                      .cost = {.value = 2}},
    [KIND_ATTEND_INSIDE] = {.name = "attend inside",
                            .message = HGA_SCORE,
                            .reduce = HGA_SOFTMAX,
                            .update = HGA_UPDATE_INSIDE,
                            .relations = ON_RELATION,
                            .orders = 1u << HGA_LEVELS_UP,
                            .width = {[ROLE_QUERY] = WIDTH(KEY),
                                      [ROLE_KEY] = WIDTH(KV_KEY),
                                      [ROLE_VALUE] = WIDTH(VALUE),
                                      [ROLE_GATE] = WIDTH(SCALAR),
                                      [ROLE_OUT] = WIDTH(STATE)},
                            .reads.source = ROLE(KEY) | ROLE(VALUE),
                            .reads.own = ROLE(QUERY),
                            .reads.child = ROLE(GATE) | ROLE(OUT),
                            .writes = ROLE(GATE) | ROLE(OUT),
                            .ready = ROLE(QUERY) | ROLE(KEY) | ROLE(VALUE),
                            .carry.on = 1,
                            .carry.source = ROLE(VALUE),
                            .attends = 1,
                            .cost = {.key = 2, .value = 2, .head = 4}},
    /* a user stage declares its reads and writes; `value`, if it has one, is what its edges pass on */
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
                   .carry.on = 1,
                   .carry.source = ROLE(VALUE)},
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
    return program_fields(s, r->reads.source) & program_fields(s, r->writes);
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

/* Whether node v is one of these rows. */
int program_row(const hga_nodes *nodes, hga_field_rows rows, hga_id v)
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

int program_rows_within(const hga_nodes *nodes, hga_field_rows a, hga_field_rows b)
{
    if (a == b || b == HGA_ROWS_NODES) return 1;
    return !(program_row_set(a) & ~program_row_set(b) & program_present(nodes));
}

const char *const program_scores_names[HGA_SCORES_ADDITIVE + 2] = {"product", "additive", NULL};

const hga_stage *program_first_attended(const hga_program *p)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].message == HGA_SCORE) return &p->stage[i];
    return NULL;
}

/* Other weights than softmax's: those of alpha 1 are softmax's. */
static int has_other_weights(const hga_stage *s)
{
    return !(normaliser_is(s->normaliser) & NORMALISER_HAS_ALPHA) || s->alpha != 1;
}

int program_has_energies(const hga_program *p)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (kind_has_energies(program_kind(&p->stage[i]))) return 1;
    return 0;
}

hga_normaliser program_normaliser(const hga_program *p)
{
    const hga_stage *s = program_first_attended(p);
    return s && (unsigned)s->normaliser < HGA_N_NORMALISERS && has_other_weights(s) ? s->normaliser
                                                                                    : HGA_NORMALISER_SOFTMAX;
}

unsigned program_normaliser_is(const hga_program *p) { return normaliser_is(program_normaliser(p)); }

static int has_user_stages(const hga_program *p)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (program_kind(&p->stage[i]) == KIND_USER) return 1;
    return 0;
}

int program_is_plain(const hga_program *p)
{
    const unsigned is = program_normaliser_is(p);
    return is & NORMALISER_IS_PLAIN || (is & NORMALISER_IS_PLAIN_BESIDE_USERS && has_user_stages(p)) ||
           (is & NORMALISER_IS_PLAIN_OF_SUMS && p->scores == HGA_SCORES_ADDITIVE) || call_standing_plain(p) != NULL;
}

double program_alpha(const hga_program *p)
{
    const hga_stage *s = program_first_attended(p);
    return s && has_other_weights(s) ? s->alpha : 0;
}

int program_has_scores(const hga_program *p)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].query && p->stage[i].key) return 1;
    return 0;
}
