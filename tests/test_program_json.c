/* test_program_json.c: programs survive a journey through JSON, and what is wrong in a file is named. */
#include "hierarchies.h"
#include "program.h"

#include <stdlib.h>
#include <string.h>

static void assert_same_stage(const hga_stage *a, const hga_stage *b)
{
    const int x[] = {a->relation, (int)a->order, (int)a->message, (int)a->reduce, (int)a->update, a->by_mass,
                     a->query,    a->key,        a->value,        a->gate,        a->keep,        a->out};
    const int y[] = {b->relation, (int)b->order, (int)b->message, (int)b->reduce, (int)b->update, b->by_mass,
                     b->query,    b->key,        b->value,        b->gate,        b->keep,        b->out};
    assert_string_equal(a->name, b->name);
    assert_memory_equal(x, y, sizeof x);
    assert_int_equal(a->reads, b->reads);
    assert_int_equal(a->writes, b->writes);
}

static void assert_same_program(const hga_program *a, const hga_program *b)
{
    assert_int_equal(a->n_fields, b->n_fields);
    assert_int_equal(a->n_stages, b->n_stages);
    assert_int_equal(a->has_lse, b->has_lse);
    assert_true(a->default_scale >= b->default_scale && a->default_scale <= b->default_scale);
    assert_memory_equal(a->field, b->field, sizeof a->field);
    for (hga_id s = 0; s < a->n_stages; s++) assert_same_stage(&a->stage[s], &b->stage[s]);
}

static void survives_json(const hga_program *p)
{
    hga_graph *g = small_graph();
    hga_program back;
    char *text, *again;
    assert_ok(hga_program_to_json(p, g, &text));
    assert_ok(hga_program_from_json(text, g, &back));
    assert_same_program(&back, p);
    assert_ok(hga_program_to_json(&back, g, &again));
    assert_string_equal(again, text);
    hga_text_free(text);
    hga_text_free(again);
    hga_graph_destroy(g);
}

static void programs_survive_json(void **state)
{
    (void)state;
    hga_program p = hierarchy();
    p.default_scale = 0.1f;
    survives_json(&p);
    p = energies();
    survives_json(&p);
    hga_program_init(&p);
    assert_ok(hga_program_attention(&p, NEAR));
    survives_json(&p);
}

static void user_functions_cannot_be_written(void **state)
{
    (void)state;
    hga_graph *g = small_graph();
    hga_program p = with_user_stage();
    char *text;
    assert_status(HGA_EUNSUPPORTED, hga_program_to_json(&p, g, &text));
    assert_null(text);
    hga_graph_destroy(g);
}

#define FIELDS                                                                                                     \
    "{\"fields\": [{\"name\": \"q\", \"width\": \"key\", \"binding\": \"query\", \"io\": \"queries\", \"rows\": "  \
    "\"queries\"},"                                                                                                \
    "{\"name\": \"k\", \"width\": \"kv key\", \"binding\": \"key\", \"io\": \"keys\", \"rows\": \"nodes\"},"       \
    "{\"name\": \"v\", \"width\": \"value\", \"binding\": \"value\", \"io\": \"keys\", \"rows\": \"nodes\"},"      \
    "{\"name\": \"o\", \"width\": \"state\", \"binding\": \"out\", \"io\": \"queries\", \"rows\": \"queries\"}], " \
    "\"stages\": ["
#define ATTEND "\"query\": \"q\", \"key\": \"k\", \"value\": \"v\", \"out\": \"o\""

static void reads(const char *text, hga_program *p)
{
    hga_graph *g = small_graph();
    assert_ok(hga_program_from_json(text, g, p));
    hga_graph_destroy(g);
}

static void rejects(hga_status status, const char *text, const char *because)
{
    hga_graph *g = small_graph();
    hga_program p;
    assert_status(status, hga_program_from_json(text, g, &p));
    assert_int_equal(p.n_fields, 0);
    if (!strstr(hga_error_detail(), because)) fail_msg("'%s' does not say '%s'", hga_error_detail(), because);
    hga_graph_destroy(g);
}

static void a_person_may_write_kinds_or_triples(void **state)
{
    (void)state;
    hga_program a, b;
    reads(FIELDS "{\"name\": \"look\", \"kind\": \"attend\", \"relation\": \"near\", " ATTEND "}]}", &a);
    reads(FIELDS "{\"name\": \"look\", \"message\": \"score\", \"reduce\": \"softmax\", \"update\": \"replace\", "
                 "\"relation\": \"near\", " ATTEND "}]}",
          &b);
    assert_same_program(&a, &b);
    assert_int_equal(a.stage[0].order, HGA_FLAT);
    assert_int_equal(a.has_lse, 0);
}

static void what_json_gets_wrong_is_named(void **state)
{
    (void)state;
    rejects(HGA_EFORMAT, "{\"fields\": [", "line 1");
    rejects(HGA_EFORMAT, "{\"stages\": []}", "'fields' is not an array");
    rejects(HGA_EFORMAT, FIELDS "], \"colour\": 1}", "unknown member 'colour'");
    rejects(HGA_EFORMAT, FIELDS "{\"name\": \"x\", \"kind\": \"attend\", \"relation\": \"far\", " ATTEND "}]}",
            "no relation 'far'");
    rejects(HGA_EFORMAT, FIELDS "{\"name\": \"x\", \"kind\": \"guess\", \"relation\": \"near\", " ATTEND "}]}",
            "'kind' cannot be 'guess'");
    rejects(HGA_EFORMAT,
            FIELDS "{\"name\": \"x\", \"kind\": \"attend\", \"relation\": \"near\", \"gate\": \"q\", " ATTEND "}]}",
            "attend has no 'gate'");
    rejects(HGA_EFORMAT,
            FIELDS
            "{\"name\": \"x\", \"kind\": \"mean\", \"relation\": \"tree up\", \"value\": \"z\", \"out\": \"k\"}]}",
            "names field 'z'");
    rejects(HGA_EFORMAT,
            FIELDS "{\"name\": \"x\", \"kind\": \"mean\", \"relation\": \"tree up\", \"by_mass\": 3, \"value\": \"k\", "
                   "\"out\": \"k\"}]}",
            "neither true nor false");
    rejects(HGA_EFORMAT,
            FIELDS "{\"name\": \"x\", \"kind\": \"attend\", \"update\": \"merge\", \"message\": \"score\", \"reduce\": "
                   "\"softmax\", \"relation\": "
                   "\"near\", " ATTEND "}]}",
            "contradicts");
    rejects(HGA_EFORMAT, "[1]", "not a JSON object");
    rejects(HGA_EPROGRAM, FIELDS "]}", "0 stages");
    rejects(HGA_EUNSUPPORTED, FIELDS "{\"name\": \"x\", \"kind\": \"user\", \"relation\": \"near\", \"out\": \"o\"}]}",
            "user function");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(programs_survive_json),
        cmocka_unit_test(user_functions_cannot_be_written),
        cmocka_unit_test(a_person_may_write_kinds_or_triples),
        cmocka_unit_test(what_json_gets_wrong_is_named),
    };
    return cmocka_run_group_tests_name("program_json", tests, NULL, NULL);
}
