/* json.c: a program as a JSON object and back. The one file of msgpass that includes jansson. {"fields": [{"name",
   "width", "binding", "io", "rows"}, ..], "stages": [{"name", "kind", "relation", "order", "by_mass", "query", "key",
   "value", "gate", "keep", "out"}, ..], "default_scale", "lse"} Fields and relations go by name; the tree is "tree up"
   and "tree down". A stage says its kind, or "message", "reduce" and "update". */
#include "call.h"
#include "program_check.h"
#include "written.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

typedef const char *const *names;

static const char *const width_names[HGA_WIDTH_SCALAR + 2] = {"key", "kv key", "value", "state", "out", "scalar", NULL};
static const char *const binding_names[HGA_IO_USER + 2] = {"internal", "query", "key", "value", "out", "user", NULL};
static const char *const rows_names[HGA_ROWS_ABOVE + 2] = {"queries",  "keys",  "nodes", "query side",
                                                           "key side", "above", NULL};
static const char *const order_names[HGA_LEVELS_DOWN + 2] = {"flat", "levels up", "levels down", NULL};
static const char *const message_names[HGA_MESSAGE_USER + 2] = {"copy",   "scaled", "score", "state",
                                                                "energy", "gate",   "user",  NULL};
static const char *const reduce_names[HGA_REDUCE_USER + 2] = {"mean", "sum", "softmax", "merge", "user", NULL};
static const char *const update_names[HGA_UPDATE_INSIDE + 2] = {"replace", "merge", "descend", "user", "inside", NULL};
static const char *const role_names[N_ROLES + 1] = {"query", "key", "value", "gate", "keep", "out", NULL};
static const char *const tree_names[] = {"tree up", "tree down", NULL};

/* Besides the numbers of hga_call_tables(). */
static const char *const program_members[] = {"fields", "stages", "scores", "negative_slope", "lse", NULL};
static const char *const field_members[] = {"name", "width", "binding", "io", "rows", NULL};
static const char *const stage_members[] = {"name",  "kind",    "message",    "reduce", "update", "relation",
                                            "order", "by_mass", "query",      "key",    "value",  "gate",
                                            "keep",  "out",     "normaliser", "alpha",  NULL};

/* ---- writing ---- */

static hga_status no_memory(void) { return hga_fail(HGA_ENOMEM, "no memory for the program's JSON"); }

/* Puts a new value into an object; both jansson failures, of the value and of the object, are lack of memory or text
   that is not UTF-8. */
static hga_status put_member(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0
               ? HGA_OK
               : hga_fail(HGA_ENOMEM, "cannot write member '%s': no memory, or not UTF-8", name);
}

/* A new array in an object, which owns it. */
static hga_status put_array(json_t *object, const char *name, json_t **array)
{
    *array = json_array();
    return put_member(object, name, *array);
}

/* One item of `fields`. */
static hga_status write_field(const hga_field *f, json_t *array)
{
    hga_status st = HGA_OK;
    json_t *object = json_object();
    if (!object || json_array_append_new(array, object) != 0) return no_memory();
    HGA_TRY(put_member(object, "name", json_string(f->name)));
    HGA_TRY(put_member(object, "width", json_string(width_names[f->width])));
    HGA_TRY(put_member(object, "binding", json_string(binding_names[f->binding])));
    if (f->binding != HGA_INTERNAL) HGA_TRY(put_member(object, "io", json_string(rows_names[f->io])));
    HGA_TRY(put_member(object, "rows", json_string(rows_names[f->rows])));
done:
    return st;
}

static hga_status relation_name(const hga_graph *g, hga_id relation, const char **name)
{
    *name = relation < 0 ? tree_names[-1 - relation] : hga_graph_relation(g, relation).name;
    if (relation >= 0 && (strcmp(*name, tree_names[0]) == 0 || strcmp(*name, tree_names[1]) == 0))
        return hga_fail(HGA_EUNSUPPORTED, "a relation called '%s' cannot be distinguished from the tree in JSON",
                        *name);
    return HGA_OK;
}

/* Writes one item of `stages`: its kind's roles name fields, and defaults are left out. */
static hga_status write_stage(const hga_program *p, const hga_stage *s, const hga_graph *g, json_t *array)
{
    hga_status st = HGA_OK;
    const stage_rule *rule = &program_rules[program_kind(s)];
    const char *relation;
    json_t *object = json_object();
    if (!object || json_array_append_new(array, object) != 0) return no_memory();
    if (program_kind(s) == KIND_USER)
        return hga_fail(HGA_EUNSUPPORTED, "stage '%s' is a user function, which JSON cannot hold", s->name);
    HGA_TRY(relation_name(g, s->relation, &relation));
    HGA_TRY(put_member(object, "name", json_string(s->name)));
    HGA_TRY(put_member(object, "kind", json_string(rule->name)));
    HGA_TRY(put_member(object, "relation", json_string(relation)));
    HGA_TRY(put_member(object, "order", json_string(order_names[s->order])));
    if (s->by_mass) HGA_TRY(put_member(object, "by_mass", json_true()));
    if (s->normaliser) HGA_TRY(put_member(object, "normaliser", json_string(program_normaliser_names[s->normaliser])));
    if (s->alpha != 0) HGA_TRY(put_member(object, "alpha", json_real(s->alpha)));
    for (int r = 0; r < N_ROLES; r++)
        if (rule->width[r])
            HGA_TRY(put_member(object, role_names[r], json_string(p->field[program_role(s, (stage_role)r)].name)));
done:
    return st;
}

/* Writes the program's own numbers. */
static hga_status write_numbers(const hga_program *p, json_t *root)
{
    hga_status st = HGA_OK;
    for (const hga_call_row *row = hga_call_tables(); row->name && !st; row++)
        if (row->member && *call_standard(row, p) != 0)
            st = put_member(root, row->member, json_real((double)*call_standard(row, p)));
    return st;
}

hga_status hga_program_to_json(const hga_program *p, const hga_graph *g, char **text)
{
    hga_status st = HGA_OK;
    json_t *root = NULL;
    if (!text) return hga_fail(HGA_EINVAL, "program_to_json: nowhere to put the text");
    *text = NULL;
    HGA_TRY(program_check(p, g));
    root = json_object();
    json_t *fields, *stages;
    HGA_TRY(put_array(root, "fields", &fields));
    HGA_TRY(put_array(root, "stages", &stages));
    for (hga_id f = 1; f <= p->n_fields; f++) HGA_TRY(write_field(&p->field[f], fields));
    for (hga_id s = 0; s < p->n_stages; s++) HGA_TRY(write_stage(p, &p->stage[s], g, stages));
    HGA_TRY(write_numbers(p, root));
    if (p->scores) HGA_TRY(put_member(root, "scores", json_string(program_scores_names[p->scores])));
    if (p->negative_slope != 0) HGA_TRY(put_member(root, "negative_slope", json_real((double)p->negative_slope)));
    HGA_TRY(put_member(root, "lse", json_boolean(p->has_lse)));
    errno = 0;
    *text = json_dumps(root, JSON_INDENT(1));
    /* jansson omits a name that it cannot store and continues, but malloc reports it by errno */
    if (*text && errno == ENOMEM) hga_text_free(*text), *text = NULL;
    if (!*text) st = no_memory();
done:
    json_decref(root);
    return st;
}

/* ---- reading ---- */

static int find_name(names list, const char *name)
{
    for (int i = 0; list[i]; i++)
        if (strcmp(list[i], name) == 0) return i;
    return -1;
}

/* `where` is "program", "field 'x'" or "stage 3" in the messages. */
static hga_status only_members(json_t *object, const char *where, names allowed)
{
    const char *name;
    json_t *value;
    if (!json_is_object(object)) return hga_fail(HGA_EFORMAT, "%s is not a JSON object", where);
    json_object_foreach(object, name, value) if (find_name(allowed, name) < 0) return hga_fail(
        HGA_EFORMAT, "%s: unknown member '%s'", where, name);
    return HGA_OK;
}

static hga_status text_member(json_t *object, const char *where, const char *name, const char **text)
{
    json_t *value = json_object_get(object, name);
    *text = json_string_value(value);
    if (!value) return hga_fail(HGA_EFORMAT, "%s has no member '%s'", where, name);
    if (!*text) return hga_fail(HGA_EFORMAT, "%s: '%s' is not a string", where, name);
    return HGA_OK;
}

/* A member that is one of a list of words. */
static hga_status word_member(json_t *object, const char *where, const char *name, names words, int *index)
{
    const char *text;
    hga_status st = text_member(object, where, name, &text);
    if (st) return st;
    *index = find_name(words, text);
    return *index >= 0 ? HGA_OK : hga_fail(HGA_EFORMAT, "%s: '%s' cannot be '%s'", where, name, text);
}

/* A member that may be missing, and is `otherwise` then. */
static hga_status flag_member(json_t *object, const char *where, const char *name, int otherwise, int *flag)
{
    json_t *value = json_object_get(object, name);
    *flag = value ? json_is_true(value) : otherwise;
    return !value || json_is_boolean(value) ? HGA_OK
                                            : hga_fail(HGA_EFORMAT, "%s: '%s' is neither true nor false", where, name);
}

static hga_status number_member(json_t *object, const char *where, const char *name, double *number)
{
    json_t *value = json_object_get(object, name);
    *number = json_number_value(value);
    return !value || json_is_number(value) ? HGA_OK : hga_fail(HGA_EFORMAT, "%s: '%s' is not a number", where, name);
}

static hga_status float_member(json_t *object, const char *where, const char *name, float *number)
{
    double x;
    hga_status st = number_member(object, where, name, &x);
    *number = (float)x;
    return st;
}

/* One item of `fields`, added to the program. */
static hga_status read_field(json_t *object, const char *where, hga_program *p)
{
    hga_status st = HGA_OK;
    const char *name;
    int width, binding, rows, io;
    HGA_TRY(only_members(object, where, field_members));
    HGA_TRY(text_member(object, where, "name", &name));
    HGA_TRY(word_member(object, where, "width", width_names, &width));
    HGA_TRY(word_member(object, where, "binding", binding_names, &binding));
    HGA_TRY(word_member(object, where, "rows", rows_names, &rows));
    io = rows;
    if (binding != HGA_INTERNAL || json_object_get(object, "io"))
        HGA_TRY(word_member(object, where, "io", rows_names, &io));
    HGA_TRY(hga_program_add_field(p, name, (hga_width)width, (hga_binding)binding, (hga_field_rows)io,
                                  (hga_field_rows)rows, NULL));
done:
    return st;
}

/* By "kind", or by "message", "reduce" and "update"; both may be given when they agree. */
static hga_status read_kind(json_t *object, const char *where, hga_stage *s)
{
    hga_status st = HGA_OK;
    const char *kind = NULL;
    int message, reduce, update, k = KIND_NONE + 1, named = json_object_get(object, "kind") != NULL;
    int spelled =
        json_object_get(object, "message") || json_object_get(object, "reduce") || json_object_get(object, "update");
    if (named) {
        HGA_TRY(text_member(object, where, "kind", &kind));
        while (k < N_KINDS && strcmp(program_rules[k].name, kind) != 0) k++;
        if (k == N_KINDS) return hga_fail(HGA_EFORMAT, "%s: 'kind' cannot be '%s'", where, kind);
        s->message = program_rules[k].message, s->reduce = program_rules[k].reduce, s->update = program_rules[k].update;
    }
    if (spelled || !named) {
        HGA_TRY(word_member(object, where, "message", message_names, &message));
        HGA_TRY(word_member(object, where, "reduce", reduce_names, &reduce));
        HGA_TRY(word_member(object, where, "update", update_names, &update));
        s->message = (hga_message)message, s->reduce = (hga_reduce)reduce, s->update = (hga_update)update;
    }
    if (named && program_kind(s) != (stage_kind)k)
        return hga_fail(HGA_EFORMAT, "%s: kind '%s' contradicts message, reduce and update", where, kind);
    if (program_kind(s) == KIND_USER)
        return hga_fail(HGA_EUNSUPPORTED, "%s is a user function, which JSON cannot hold", where);
done:
    return st;
}

/* Reads the relation, and the order, by default along the tree level by level, else flat. */
static hga_status read_relation(json_t *object, const char *where, const hga_graph *g, hga_stage *s)
{
    hga_status st = HGA_OK;
    const char *name;
    int order;
    HGA_TRY(text_member(object, where, "relation", &name));
    int tree = find_name(tree_names, name);
    s->relation = tree >= 0 ? -1 - tree : hga_graph_find_relation(g, name);
    if (tree < 0 && s->relation < 0) return hga_fail(HGA_EFORMAT, "%s: the graph has no relation '%s'", where, name);
    order = s->relation == HGA_TREE_UP ? HGA_LEVELS_UP : s->relation == HGA_TREE_DOWN ? HGA_LEVELS_DOWN : HGA_FLAT;
    if (json_object_get(object, "order")) HGA_TRY(word_member(object, where, "order", order_names, &order));
    s->order = (hga_order)order;
done:
    return st;
}

static hga_status read_role(json_t *object, const char *where, const hga_program *p, stage_role role, hga_id *field)
{
    const char *name;
    hga_status st = text_member(object, where, role_names[role], &name);
    if (st) return st;
    for (*field = 1; *field <= p->n_fields; ++*field)
        if (strcmp(p->field[*field].name, name) == 0) return HGA_OK;
    return hga_fail(HGA_EFORMAT, "%s: '%s' names field '%s', which is not there", where, role_names[role], name);
}

/* Reads the fields of the kind's roles; those that must be the out field may be left out, unused ones are refused. */
static hga_status read_roles(json_t *object, const char *where, const hga_program *p, hga_stage *s)
{
    hga_status st = HGA_OK;
    hga_id *field[N_ROLES] = {[ROLE_QUERY] = &s->query, [ROLE_KEY] = &s->key,   [ROLE_VALUE] = &s->value,
                              [ROLE_GATE] = &s->gate,   [ROLE_KEEP] = &s->keep, [ROLE_OUT] = &s->out};
    const stage_rule *rule = &program_rules[program_kind(s)];
    for (int r = N_ROLES - 1; r >= 0; r--) {
        int is_input = json_object_get(object, role_names[r]) != NULL, implied = rule->must_be_out >> r & 1u;
        *field[r] = 0;
        if (is_input && rule->name && !rule->width[r])
            return hga_fail(HGA_EFORMAT, "%s: %s has no '%s'", where, rule->name, role_names[r]);
        if (implied && !is_input)
            *field[r] = s->out;
        else if (rule->width[r])
            HGA_TRY(read_role(object, where, p, (stage_role)r, field[r]));
    }
done:
    return st;
}

static hga_status read_normaliser(json_t *object, const char *where, hga_stage *s)
{
    int which = 0;
    hga_status st = json_object_get(object, "normaliser")
                        ? word_member(object, where, "normaliser", program_normaliser_names, &which)
                        : HGA_OK;
    s->normaliser = (hga_normaliser)which;
    return st ? st : number_member(object, where, "alpha", &s->alpha);
}

/* Reads one item of `stages` and adds it to the program, whose fields exist by now. */
static hga_status read_stage(json_t *object, const char *where, const hga_graph *g, hga_program *p)
{
    hga_status st = HGA_OK;
    hga_stage s = {.relation = 0};
    const char *name;
    HGA_TRY(only_members(object, where, stage_members));
    HGA_TRY(text_member(object, where, "name", &name));
    if (strlen(name) >= HGA_NAME_BYTES)
        return hga_fail(HGA_EFORMAT, "%s: name '%s' has more than %d bytes", where, name, HGA_NAME_BYTES - 1);
    memcpy(s.name, name, strlen(name) + 1);
    HGA_TRY(read_kind(object, where, &s));
    HGA_TRY(read_relation(object, where, g, &s));
    HGA_TRY(flag_member(object, where, "by_mass", 0, &s.by_mass));
    HGA_TRY(read_normaliser(object, where, &s));
    HGA_TRY(read_roles(object, where, p, &s));
    HGA_TRY(hga_program_add_stage(p, &s));
done:
    return st;
}

/* "stage 3 ('attend out')" */
static void write_where(const char *what, size_t i, json_t *object, char *where, size_t bytes)
{
    const char *name = json_string_value(json_object_get(object, "name"));
    if (name)
        snprintf(where, bytes, "%s %zu ('%.40s')", what, i, name);
    else
        snprintf(where, bytes, "%s %zu", what, i);
}

/* Fields come first, since stages name them. */
static hga_status read_arrays(json_t *root, const hga_graph *g, hga_program *p)
{
    hga_status st = HGA_OK;
    char where[80];
    json_t *fields = json_object_get(root, "fields"), *stages = json_object_get(root, "stages");
    if (!json_is_array(fields)) return hga_fail(HGA_EFORMAT, "program: 'fields' is not an array");
    if (!json_is_array(stages)) return hga_fail(HGA_EFORMAT, "program: 'stages' is not an array");
    for (size_t i = 0; i < json_array_size(fields); i++) {
        write_where("field", i, json_array_get(fields, i), where, sizeof where);
        HGA_TRY(read_field(json_array_get(fields, i), where, p));
    }
    for (size_t i = 0; i < json_array_size(stages); i++) {
        write_where("stage", i, json_array_get(stages, i), where, sizeof where);
        HGA_TRY(read_stage(json_array_get(stages, i), where, g, p));
    }
done:
    return st;
}

/* jansson reports an allocation that failed amid a token as bad syntax at that token. Text that is good at a second try
   was never bad. */
static hga_status parse_json(const char *text, json_t **root)
{
    json_error_t error;
    *root = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (*root) return HGA_OK;
    json_t *again = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, NULL);
    int good = again != NULL;
    memory_is_written(&error, sizeof error);
    json_decref(again);
    if (good || json_error_code(&error) == json_error_out_of_memory || !error.text[0]) return no_memory();
    return hga_fail(HGA_EFORMAT, "program, line %d, column %d: %s", error.line, error.column, error.text);
}

/* The default program: all relations of the graph attended jointly over its tree. */
static hga_status read_program_word(const char *word, const hga_graph *g, hga_program *p)
{
    hga_id relation[HGA_MAX_STAGES], n = hga_graph_nodes(g).n_relations;
    if (strcmp(word, "attend") != 0)
        return hga_fail(HGA_EFORMAT, "program: '%s' is not a program; the word \"attend\" is", word);
    if (n > HGA_MAX_STAGES)
        return hga_fail(HGA_EPROGRAM, "program: %d relations are more than %d stages", n, HGA_MAX_STAGES);
    for (hga_id r = 0; r < n; r++) relation[r] = r;
    return hga_program_hierarchy(p, g, relation, n);
}

static hga_status read_scores(json_t *root, hga_program *p)
{
    int which = 0;
    hga_status st =
        json_object_get(root, "scores") ? word_member(root, "program", "scores", program_scores_names, &which) : HGA_OK;
    p->scores = (hga_scores)which;
    return st ? st : float_member(root, "program", "negative_slope", &p->negative_slope);
}

/* Reads the program's own numbers; refuses unknown members. */
static hga_status read_numbers(json_t *root, hga_program *p)
{
    const char *known[sizeof program_members / sizeof *program_members + HGA_N_TABLES];
    hga_status st = HGA_OK;
    int n = 0;
    while (program_members[n]) known[n] = program_members[n], n++;
    for (const hga_call_row *row = hga_call_tables(); row->name; row++)
        if (row->member) known[n++] = row->member;
    known[n] = NULL;
    HGA_TRY(only_members(root, "program", known));
    for (const hga_call_row *row = hga_call_tables(); row->name; row++)
        if (row->member) HGA_TRY(float_member(root, "program", row->member, call_standard(row, p)));
done:
    return st;
}

hga_status hga_program_from_json(const char *text, const hga_graph *g, hga_program *out)
{
    hga_status st = HGA_OK;
    hga_program p;
    if (!text || !g || !out)
        return hga_fail(HGA_EINVAL, "program_from_json: no %s", !text ? "text" : !g ? "graph" : "program");
    hga_program_init(&p);
    hga_program_init(out);
    json_t *root;
    HGA_TRY(parse_json(text, &root));
    if (json_is_string(root)) {
        HGA_TRY(read_program_word(json_string_value(root), g, &p));
        *out = p;
        goto done;
    }
    HGA_TRY(read_numbers(root, &p));
    HGA_TRY(read_scores(root, &p));
    HGA_TRY(flag_member(root, "program", "lse", 0, &p.has_lse));
    HGA_TRY(read_arrays(root, g, &p));
    HGA_TRY(program_check(&p, g));
    *out = p;
done:
    json_decref(root);
    return st;
}
