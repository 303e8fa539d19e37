/* test_renamed.c: names mean nothing: variants whose fields and stages have other names are the same. */
#include "testing.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names mean nothing ---- */

/* value of a member, with an x in front; tree relations keep their names. */
static void rename_member(json_t *object, const char *member)
{
    char name[96];
    const char *old = json_string_value(json_object_get(object, member));
    if (!old || strncmp(old, "tree ", 5) == 0) return;
    snprintf(name, sizeof name, "x%.30s", old);
    assert_int_equal(json_object_set_new(object, member, json_string(name)), 0);
}

static void rename_members(json_t *objects, const char *const *members)
{
    size_t i;
    json_t *object;
    json_array_foreach(objects, i, object) for (const char *const *m = members; *m; m++) rename_member(object, *m);
}

/* Every name in the file that a person could have chosen otherwise. */
static void rename_file(const char *path)
{
    static const char *const name[] = {"name", NULL}, *const stage[] = {"name", "relation", "query", "key", "value",
                                                                        "gate", "keep",     "out",   NULL};
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error), *program = json_object_get(root, "program");
    if (!root) fail_msg("%s: %s", path, error.text);
    assert_non_null(program);
    rename_members(json_object_get(root, "relations"), name);
    rename_members(json_object_get(json_object_get(root, "longer"), "relations"), name);
    rename_members(json_object_get(program, "fields"), name);
    rename_members(json_object_get(program, "stages"), stage);
    assert_int_equal(json_dump_file(root, path, JSON_INDENT(1)), 0);
    json_decref(root);
}

/* Write graph and program, rename, read back. */
static void round_trip(const problem *p, hga_graph **g, hga_program *program)
{
    const char *path = "renamed.json";
    char *text, *members;
    assert_ok(hga_program_to_json(&p->program, p->graph, &text));
    size_t bytes = strlen(text) + 16;
    members = memory((int64_t)bytes, 1);
    snprintf(members, bytes, "\"program\": %s", text);
    hga_text_free(text);
    assert_ok(hga_graph_write_json(p->graph, members, path));
    free(members);
    rename_file(path);
    assert_ok(hga_graph_read_json(NULL, path, g, &text));
    assert_non_null(text);
    assert_ok(hga_program_from_json(text, *g, program));
    hga_text_free(text);
    remove(path);
}

/* What a plan says of its stages, their names left out: kernels, edges, panels, phases. */
static json_t *explain(const hga_graph *g, const hga_program *program, const hga_shape *shape)
{
    hga_plan *plan;
    char *text;
    json_error_t error;
    assert_ok(hga_plan_create(g, program, shape, &(hga_options){.threads = 2}, &plan));
    assert_ok(hga_plan_explain(plan, NULL, HGA_JSON, &text));
    json_t *root = json_loads(text, 0, &error), *stages = json_incref(json_object_get(root, "stages")), *stage;
    size_t i;
    assert_int_equal(json_array_size(stages), program->n_stages);
    json_array_foreach(stages, i, stage)
    {
        assert_non_null(json_object_get(stage, "kernel"));
        json_object_del(stage, "name"), json_object_del(stage, "relation");
    }
    json_decref(root);
    hga_text_free(text);
    hga_plan_destroy(plan);
    return stages;
}

/* A variant written to a file, renamed and read back runs with the same kernels and gives the same bits. */
static void renamed_variants_are_the_same(void **state)
{
    (void)state;
    hga_shape shape = {.n_heads = 2, .dim = 16, .pos_dim = 3};
    for (int i = 0; i < n_variants(); i++) {
        problem p;
        hga_graph *g;
        hga_program program;
        variant_build(i, 83, 12, &shape, &p);
        problem_run(&p);
        round_trip(&p, &g, &program);
        assert_int_equal(hga_graph_find_relation(g, hga_graph_relation(p.graph, 0).name), -1);
        problem renamed = p;
        renamed.graph = g, renamed.program = program;
        float *out = problem_out(&renamed, &p.options, NULL);
        assert_same_bits(p.name, out, p.io.out.data, out_count(&p));
        json_t *a = explain(p.graph, &p.program, &p.shape), *b = explain(g, &program, &p.shape);
        if (!json_equal(a, b)) fail_msg("%s: another plan after renaming", p.name);
        json_decref(a), json_decref(b), free(out);
        hga_graph_destroy(g);
        problem_clear(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renamed_variants_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
