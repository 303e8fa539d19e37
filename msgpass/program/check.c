/* check.c: checks a program against the legal table and its graph before it is lowered. */
#include "call.h"
#include "program_check.h"
#include "regions.h"

#include <stdio.h>
#include <string.h>

static const char *const role_name[N_ROLES] = {"query", "key", "value", "gate", "keep", "out"};
static const char *const width_name[HGA_WIDTH_SCALAR + 1] = {"key", "kv key", "value", "state", "out", "scalar"};
enum { MOST_STATE_BYTES = 1 << 30 }; /* of a user's aggregate: every thread allocates two */
enum { N_WIDTHS = sizeof width_name / sizeof width_name[0] };

/* The text of a fixed array that may lack its end. */
static int is_text(const char *name) { return memchr(name, 0, HGA_NAME_BYTES) != NULL; }

/* ---- fields ---- */

/* Whether a tensor of the field's binding may have the field's width. */
static hga_status check_binding(const hga_field *f)
{
    static const unsigned allowed[HGA_IO_USER + 1] = {
        [HGA_INTERNAL] = ~0u,
        [HGA_IO_QUERY] = 1u << HGA_WIDTH_KEY,
        [HGA_IO_KEY] = 1u << HGA_WIDTH_KV_KEY,
        [HGA_IO_VALUE] = 1u << HGA_WIDTH_VALUE,
        [HGA_IO_OUT] = 1u << HGA_WIDTH_STATE | 1u << HGA_WIDTH_OUT,
        [HGA_IO_USER] = ~(1u << HGA_WIDTH_STATE),
    };
    if ((unsigned)f->binding >= sizeof allowed / sizeof allowed[0])
        return hga_fail(HGA_EPROGRAM, "field '%s': binding %d", f->name, (int)f->binding);
    if (!(allowed[f->binding] >> f->width & 1u))
        return hga_fail(HGA_EPROGRAM, "field '%s': the caller's tensor cannot have width %s", f->name,
                        width_name[f->width]);
    return HGA_OK;
}

/* The first of the caller's rows on which the field does not exist. */
static hga_id first_outside(const hga_nodes *nodes, const hga_field *f)
{
    hga_id v = 0;
    while (v < nodes->n && !(program_row(nodes, f->io, v) && !program_row(nodes, f->rows, v))) v++;
    return v;
}

/* The field's name is unique, and its width, rows and binding agree. */
static hga_status check_field(const hga_program *p, hga_id i, const hga_nodes *nodes)
{
    const hga_field *f = &p->field[i];
    if (!is_text(f->name) || !f->name[0])
        return hga_fail(HGA_EPROGRAM, "field %d has no name of 1 to %d bytes", i, HGA_NAME_BYTES - 1);
    for (hga_id j = 1; j < i; j++)
        if (strcmp(p->field[j].name, f->name) == 0)
            return hga_fail(HGA_EPROGRAM, "fields %d and %d are both named '%s'", j, i, f->name);
    if ((unsigned)f->width >= N_WIDTHS) return hga_fail(HGA_EPROGRAM, "field '%s': width %d", f->name, (int)f->width);
    if ((unsigned)f->rows > HGA_ROWS_ABOVE || (unsigned)f->io > HGA_ROWS_ABOVE)
        return hga_fail(HGA_EPROGRAM, "field '%s': rows %d, io %d", f->name, (int)f->rows, (int)f->io);
    if (f->binding != HGA_INTERNAL && !program_rows_within(nodes, f->io, f->rows))
        return hga_fail(HGA_EPROGRAM, "field '%s': the caller's rows have node %d, where the field does not exist",
                        f->name, first_outside(nodes, f));
    if (f->binding != HGA_INTERNAL && nodes->side && (f->io == HGA_ROWS_QUERY_SIDE || f->io == HGA_ROWS_KEY_SIDE))
        return hga_fail(HGA_EPROGRAM,
                        "field '%s': the caller's rows are the nodes of one side, which are no range of nodes",
                        f->name);
    return check_binding(f);
}

/* The output is one field; queries, keys and values are one each at most. */
static hga_status check_bound_once(const hga_program *p)
{
    static const char *const name[HGA_IO_USER + 1] = {"internal", "query", "key", "value", "out", "user"};
    hga_id count[HGA_IO_USER + 1] = {0};
    for (hga_id f = 1; f <= p->n_fields; f++) count[p->field[f].binding]++;
    for (int b = HGA_IO_QUERY; b <= HGA_IO_OUT; b++)
        if (count[b] > 1) return hga_fail(HGA_EPROGRAM, "%d fields are bound to %s", count[b], name[b]);
    if (count[HGA_IO_OUT] == 0) return hga_fail(HGA_EPROGRAM, "no field is bound to out");
    if (count[HGA_IO_USER] > HGA_MAX_USER_TENSORS)
        return hga_fail(HGA_EPROGRAM, "%d fields are bound to user tensors, more than %d", count[HGA_IO_USER],
                        HGA_MAX_USER_TENSORS);
    return HGA_OK;
}

/* ---- stages ---- */

/* The stage runs along a relation that its kind allows, in an order that fits it. */
static hga_status check_relation(const hga_stage *s, const stage_rule *rule, const hga_nodes *nodes)
{
    if (s->relation < HGA_TREE_DOWN || s->relation >= nodes->n_relations)
        return hga_fail(HGA_EPROGRAM, "stage '%s': relation %d of %d", s->name, s->relation, nodes->n_relations);
    unsigned where = s->relation == HGA_TREE_UP     ? ON_TREE_UP
                     : s->relation == HGA_TREE_DOWN ? ON_TREE_DOWN
                                                    : ON_RELATION;
    if (!(rule->relations & where))
        return hga_fail(HGA_EPROGRAM, "stage '%s': %s does not run along %s", s->name, rule->name,
                        where == ON_RELATION ? "a relation" : "the tree that way");
    if ((unsigned)s->order > HGA_LEVELS_DOWN || !(rule->orders >> s->order & 1u))
        return hga_fail(HGA_EPROGRAM, "stage '%s': %s does not run in order %d", s->name, rule->name, (int)s->order);
    if (where == ON_TREE_UP && s->order != HGA_LEVELS_UP)
        return hga_fail(HGA_EPROGRAM, "stage '%s' runs up the tree but not level by level upwards", s->name);
    if (where == ON_TREE_DOWN && s->order != HGA_LEVELS_DOWN)
        return hga_fail(HGA_EPROGRAM, "stage '%s' runs down the tree but not level by level downwards", s->name);
    return HGA_OK;
}

/* A user stage may leave out any role but out. */
static hga_status check_role(const hga_program *p, const hga_stage *s, const stage_rule *rule, stage_role role)
{
    hga_id f = program_role(s, role);
    int optional = rule == &program_rules[KIND_USER] && role != ROLE_OUT;
    if (!rule->width[role] || (optional && !f)) return HGA_OK;
    if (f < 1 || f > p->n_fields)
        return hga_fail(HGA_EPROGRAM, "stage '%s': %s is field %d of %d", s->name, role_name[role], f, p->n_fields);
    const hga_field *field = &p->field[f];
    if (!(rule->width[role] >> field->width & 1u))
        return hga_fail(HGA_EPROGRAM, "stage '%s': %s of %s cannot be field '%s' of width %s", s->name, role_name[role],
                        rule->name, field->name, width_name[field->width]);
    if (role == ROLE_OUT) return HGA_OK;
    if (f == s->out && !((rule->may_be_out | rule->must_be_out) >> role & 1u))
        return hga_fail(HGA_EPROGRAM, "stage '%s': field '%s' is both %s and out", s->name, field->name,
                        role_name[role]);
    if (f != s->out && rule->must_be_out >> role & 1u)
        return hga_fail(HGA_EPROGRAM, "stage '%s': %s must be the out field, not '%s'", s->name, role_name[role],
                        field->name);
    return HGA_OK;
}

/* A flat stage must not write what it reads at its sources: some rows would see old values, others new ones. */
static hga_status check_index(const hga_program *p, const hga_stage *s)
{
    uint32_t both = program_in_place(s);
    if (s->order != HGA_FLAT || !both) return HGA_OK;
    return hga_fail(HGA_EPROGRAM, "stage '%s' reads field '%s' that it writes, so it must go level by level", s->name,
                    p->field[__builtin_ctz(both)].name);
}

/* Checks conditions on two roles. */
static hga_status check_pairs(const hga_program *p, const hga_stage *s, stage_kind kind)
{
    if ((kind == KIND_MEAN || kind == KIND_SUM) && p->field[s->value].width != p->field[s->out].width)
        return hga_fail(HGA_EPROGRAM, "stage '%s': '%s' is %s, '%s' is %s", s->name, p->field[s->value].name,
                        width_name[p->field[s->value].width], p->field[s->out].name,
                        width_name[p->field[s->out].width]);
    if (kind == KIND_ATTEND_INSIDE && p->field[s->gate].rows != p->field[s->out].rows)
        return hga_fail(HGA_EPROGRAM, "stage '%s': '%s' and '%s' are on different nodes", s->name,
                        p->field[s->gate].name, p->field[s->out].name);
    if (kind == KIND_DESCEND && s->gate == s->keep)
        return hga_fail(HGA_EPROGRAM, "stage '%s': field '%s' is both gate and keep", s->name, p->field[s->gate].name);
    return HGA_OK;
}

/* A user function is complete, and reads and writes fields that exist. */
static hga_status check_user(const hga_program *p, const hga_stage *s)
{
    uint32_t fields = (UINT32_C(2) << p->n_fields) - 2; /* 1 .. n_fields */
    if (!s->udf.begin || !s->udf.edge || !s->udf.finish)
        return hga_fail(HGA_EPROGRAM, "stage '%s': the user function has no %s", s->name,
                        !s->udf.begin  ? "begin"
                        : !s->udf.edge ? "edge"
                                       : "finish");
    if (s->udf.state_bytes > MOST_STATE_BYTES)
        return hga_fail(HGA_EOVERFLOW, "stage '%s': a state of %zu bytes, more than %d", s->name, s->udf.state_bytes,
                        MOST_STATE_BYTES);
    if (!s->query != !s->key) return hga_fail(HGA_EPROGRAM, "stage '%s': a score needs both query and key", s->name);
    if ((s->reads | s->writes) & ~fields)
        return hga_fail(HGA_EPROGRAM, "stage '%s': reads 0x%x, writes 0x%x, of %d fields", s->name, s->reads, s->writes,
                        p->n_fields);
    if (!(s->writes >> s->out & 1u))
        return hga_fail(HGA_EPROGRAM, "stage '%s': out field '%s' is not among its writes", s->name,
                        p->field[s->out].name);
    return HGA_OK;
}

static hga_status check_sets(const hga_program *p, const hga_stage *s, stage_kind kind)
{
    const stage_rule *rule = &program_rules[kind];
    if (kind == KIND_USER) return check_user(p, s);
    uint32_t reads = program_fields(s, rule->reads.source | rule->reads.own), writes = program_fields(s, rule->writes);
    if (s->reads != reads || s->writes != writes)
        return hga_fail(HGA_EPROGRAM, "stage '%s': reads 0x%x, writes 0x%x should be 0x%x, 0x%x", s->name, s->reads,
                        s->writes, reads, writes);
    return HGA_OK;
}

/* No field is read before it holds values. A stage in place reads what others have written or what it writes itself. */
static hga_status check_ready(const hga_program *p, const hga_stage *s, stage_kind kind, const program_values *before)
{
    uint32_t scored = program_fields(s, 1u << ROLE_QUERY | 1u << ROLE_KEY);
    uint32_t ready =
        kind == KIND_USER ? (s->reads & ~s->writes) | scored : program_fields(s, program_rules[kind].ready);
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (ready >> f & 1u && !before->holds[f])
            return hga_fail(HGA_EPROGRAM, "stage '%s' reads field '%s', which is neither an input nor written before",
                            s->name, p->field[f].name);
    return HGA_OK;
}

/* The caller's rows that still hold his values, and those that a stage has read as such. */
typedef struct input_rows {
    row_set holds[HGA_FIELD_SLOTS], read[HGA_FIELD_SLOTS];
} input_rows;

static void inputs_start(const hga_program *p, input_rows *g)
{
    *g = (input_rows){{0}, {0}};
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (program_is_input(p->field[f].binding)) g->holds[f] = program_row_set(p->field[f].io);
}

/* Updates the sets. A stage in place reads on other levels than it writes; what it writes it has not read before. */
static void inputs_after(const hga_program *p, const hga_stage *s, input_rows *g)
{
    uint32_t reads = s->reads | program_fields(s, 1u << ROLE_QUERY | 1u << ROLE_KEY);
    row_set visited = program_visits(p, s);
    for (hga_id f = 1; f <= p->n_fields; f++) {
        if (s->writes >> f & 1u) g->holds[f] &= (row_set)~visited;
        if (reads >> f & 1u) g->read[f] |= g->holds[f];
    }
}

/* The caller's query, key and value are not overwritten, only rows outside his tensors. User tensors may be, as
   outputs, but not where a stage before has read them: a second execution and a gradient would read changed values. */
static hga_status check_inputs(const hga_program *p, const hga_stage *s, const hga_nodes *nodes, const input_rows *g)
{
    row_set visited = program_visits(p, s);
    for (hga_id f = 1; f <= p->n_fields; f++) {
        const hga_field *field = &p->field[f];
        int input = program_is_input(field->binding) && field->binding != HGA_IO_USER;
        if (!(s->writes >> f & 1u)) continue;
        if (input && visited & program_row_set(field->io))
            return hga_fail(HGA_EPROGRAM, "stage '%s' writes over the caller's rows of field '%s'", s->name,
                            field->name);
        if (visited & g->read[f] & program_present(nodes))
            return hga_fail(HGA_EPROGRAM,
                            "stage '%s' writes over the caller's rows of field '%s', which a stage before it reads",
                            s->name, field->name);
    }
    return HGA_OK;
}

/* Entmax's alpha has a threshold that can be found; others have no alpha. */
static hga_status check_alpha(const hga_stage *s)
{
    const hga_normaliser_row *row = &hga_normalisers()[s->normaliser];
    const int has_alpha = normaliser_is(s->normaliser) & NORMALISER_HAS_ALPHA;
    if (!has_alpha && s->alpha != 0)
        return hga_fail(HGA_EPROGRAM, "stage '%s': alpha %g, which %s has not", s->name, s->alpha, row->name);
    if (has_alpha && !normaliser_takes(s->normaliser, s->alpha))
        return hga_fail(HGA_EPROGRAM, "stage '%s': %s's alpha is %g, not 1 and not from %g to %g", s->name, row->name,
                        s->alpha, row->least, row->most);
    return HGA_OK;
}

/* Refuses merged states where a row has one threshold for all of its scores. */
static hga_status check_merges(const hga_program *p, const hga_stage *s, stage_kind kind)
{
    if (program_normaliser_is(p) & NORMALISER_MERGES || !kind_starts_from_out(kind)) return HGA_OK;
    return hga_fail(HGA_EPROGRAM,
                    "stage '%s': %s merges states, and those of %s cannot be merged: a row has one threshold", s->name,
                    program_rules[kind].name, program_normaliser_names[program_normaliser(p)]);
}

/* Whether the stage's state is one of `attend inside`, which has another number instead of a log-sum-exp. */
static int is_inside(const hga_program *p, const hga_stage *s)
{
    for (const hga_stage *x = p->stage; x < s; x++)
        if (program_kind(x) == KIND_ATTEND_INSIDE && x->out == s->value && x->gate == s->gate) return 1;
    return 0;
}

/* All stages that attend have the same normaliser; energies need log-sum-exps. */
static hga_status check_normaliser(const hga_program *p, const hga_stage *s, stage_kind kind)
{
    const hga_normaliser all = program_normaliser(p);
    const unsigned is = normaliser_is(all);
    const hga_stage *first = program_first_attended(p);
    if ((unsigned)s->normaliser >= HGA_N_NORMALISERS)
        return hga_fail(HGA_EPROGRAM, "stage '%s': normaliser %d", s->name, (int)s->normaliser);
    if (!kind_attends(kind) && s->normaliser != HGA_NORMALISER_SOFTMAX)
        return hga_fail(HGA_EPROGRAM, "stage '%s': %s has no normaliser %s", s->name, program_rules[kind].name,
                        program_normaliser_names[s->normaliser]);
    hga_status st = check_alpha(s);
    if (st) return st;
    if (kind_attends(kind) && s->normaliser != first->normaliser)
        return hga_fail(HGA_EPROGRAM, "stage '%s': normaliser %s, where a stage before it has %s", s->name,
                        program_normaliser_names[s->normaliser], program_normaliser_names[first->normaliser]);
    if (kind_attends(kind) && s->alpha != first->alpha)
        return hga_fail(HGA_EPROGRAM, "stage '%s': alpha %g, where a stage before it has %g", s->name, s->alpha,
                        first->alpha);
    if (!(is & NORMALISER_SHARES_OUT) && kind == KIND_ATTEND_INSIDE)
        return hga_fail(HGA_EPROGRAM, "stage '%s': %s shares a row's weights out, which %s does not", s->name,
                        program_rules[kind].name, program_normaliser_names[all]);
    int needs_lse = kind == KIND_ENERGY || (kind == KIND_DESCEND && !is_inside(p, s));
    if (!(is & NORMALISER_HAS_LSE) && needs_lse)
        return hga_fail(HGA_EPROGRAM, "stage '%s': %s reads log-sum-exps, which normaliser %s has not", s->name,
                        program_rules[kind].name, program_normaliser_names[all]);
    return check_merges(p, s, kind);
}

/* Checks a stage against `values` and `inputs` of the stages before it, and updates them. */
static hga_status check_stage(const hga_program *p, hga_id i, const hga_nodes *nodes, program_values *values,
                              input_rows *inputs)
{
    const hga_stage *s = &p->stage[i];
    if (!is_text(s->name) || !s->name[0])
        return hga_fail(HGA_EPROGRAM, "stage %d has no name of 1 to %d bytes", i, HGA_NAME_BYTES - 1);
    for (hga_id j = 0; j < i; j++)
        if (strcmp(p->stage[j].name, s->name) == 0)
            return hga_fail(HGA_EPROGRAM, "stages %d and %d are both named '%s'", j, i, s->name);
    stage_kind kind = program_kind(s);
    if (kind == KIND_NONE)
        return hga_fail(HGA_EPROGRAM, "stage '%s': message %d, reduce %d, update %d go together in no row of the table",
                        s->name, (int)s->message, (int)s->reduce, (int)s->update);
    hga_status st = HGA_OK;
    HGA_TRY(check_normaliser(p, s, kind));
    for (int r = 0; r < N_ROLES; r++) HGA_TRY(check_role(p, s, &program_rules[kind], (stage_role)r));
    HGA_TRY(check_pairs(p, s, kind));
    HGA_TRY(check_relation(s, &program_rules[kind], nodes));
    HGA_TRY(check_sets(p, s, kind));
    HGA_TRY(check_index(p, s));
    HGA_TRY(check_ready(p, s, kind, values));
    HGA_TRY(check_inputs(p, s, nodes, inputs));
    program_values_after(p, s, values), inputs_after(p, s, inputs);
done:
    return st;
}

/* Reserved words must be 0: others are for newer libraries. */
static hga_status check_reserved(const hga_program *p)
{
    hga_status st = hga_check_reserved("hga_program", p->reserved, sizeof p->reserved);
    for (hga_id i = 0; !st && i < p->n_stages; i++) {
        char what[2 * HGA_NAME_BYTES];
        snprintf(what, sizeof what, "hga_stage '%.*s'", HGA_NAME_BYTES - 1, p->stage[i].name);
        st = hga_check_reserved(what, p->stage[i].reserved, sizeof p->stage[i].reserved);
    }
    return st;
}

/* Additive scores need a stage with scores; only they have a slope. */
static hga_status check_scores(const hga_program *p)
{
    if ((unsigned)p->scores > HGA_SCORES_ADDITIVE) return hga_fail(HGA_EPROGRAM, "scores %d", (int)p->scores);
    if (p->scores != HGA_SCORES_PRODUCT && !program_has_scores(p))
        return hga_fail(HGA_EPROGRAM, "scores are additive, but no stage has scores");
    if (!(p->negative_slope > -1e30f && p->negative_slope < 1e30f))
        return hga_fail(HGA_EPROGRAM, "negative_slope %g is not finite", (double)p->negative_slope);
    if (p->negative_slope != 0 && p->scores == HGA_SCORES_PRODUCT)
        return hga_fail(HGA_EPROGRAM, "negative_slope %g, but scores are products", (double)p->negative_slope);
    return HGA_OK;
}

/* The out field is written, and a program has an LSE only where its output is a softmax state. */
static hga_status check_out(const hga_program *p, const program_values *values)
{
    hga_id out = program_bound(p, HGA_IO_OUT);
    if (!values->holds[out]) return hga_fail(HGA_EPROGRAM, "no stage writes the out field '%s'", p->field[out].name);
    if (p->has_lse && p->field[out].width != HGA_WIDTH_STATE)
        return hga_fail(HGA_EPROGRAM, "the program promises an LSE, but out field '%s' is of width %s",
                        p->field[out].name, width_name[p->field[out].width]);
    if (p->has_lse && !(program_normaliser_is(p) & NORMALISER_HAS_LSE))
        return hga_fail(HGA_EPROGRAM, "the program promises an LSE, which normaliser %s has not",
                        program_normaliser_names[program_normaliser(p)]);
    return call_check_standing(p);
}

/* Refuses entmax of energies on causal graphs: left siblings alone would leave a first child without edges, and eq. 51
   is not defined there. */
static hga_status check_energies(const hga_program *p, const hga_nodes *nodes)
{
    const hga_stage *s = p->stage, *end = s + p->n_stages;
    while (s < end && program_kind(s) != KIND_ATTEND_INSIDE) s++;
    if (s == end || !(nodes->claims & HGA_CLAIM_CAUSAL) || program_normaliser(p) == HGA_NORMALISER_SOFTMAX)
        return HGA_OK;
    return hga_fail(HGA_EPROGRAM, "stage '%s': entmax of energies is not defined on causal graphs", s->name);
}

/* Checks fields, then stages in order, then the whole program. */
hga_status program_check(const hga_program *p, const hga_graph *g)
{
    if (!p || !g) return hga_fail(HGA_EINVAL, "no %s", p ? "graph" : "program");
    if (p->n_fields < 1 || p->n_fields > HGA_MAX_FIELDS)
        return hga_fail(HGA_EPROGRAM, "%d fields, not 1 to %d", p->n_fields, HGA_MAX_FIELDS);
    if (p->n_stages < 1 || p->n_stages > HGA_MAX_STAGES)
        return hga_fail(HGA_EPROGRAM, "%d stages, not 1 to %d", p->n_stages, HGA_MAX_STAGES);
    hga_nodes nodes = hga_graph_nodes(g);
    hga_status st = HGA_OK;
    program_values values;
    input_rows inputs;
    HGA_TRY(check_reserved(p));
    for (hga_id f = 1; f <= p->n_fields; f++) HGA_TRY(check_field(p, f, &nodes));
    HGA_TRY(check_bound_once(p));
    program_values_start(p, &values), inputs_start(p, &inputs);
    for (hga_id s = 0; s < p->n_stages; s++) HGA_TRY(check_stage(p, s, &nodes, &values, &inputs));
    HGA_TRY(check_out(p, &values));
    HGA_TRY(check_scores(p));
    HGA_TRY(check_energies(p, &nodes));
    HGA_TRY(program_check_rows(p, g));
done:
    return st;
}
