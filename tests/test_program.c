/* test_program.c: programs are written by helpers and held to the legal table. */
#include "by_hand.h"
#include "hierarchies.h"
#include "program_check.h"

#include <stdlib.h>
#include <string.h>

static void refused_with(hga_status status, const hga_program *p, const char *because)
{
    hga_graph *g = small_graph();
    assert_status(status, program_check(p, g));
    if (!strstr(hga_error_detail(), because)) fail_msg("'%s' does not say '%s'", hga_error_detail(), because);
    hga_graph_destroy(g);
}

static void refused(const hga_program *p, const char *because) { refused_with(HGA_EPROGRAM, p, because); }

static void accepted(const hga_program *p)
{
    hga_graph *g = small_graph();
    assert_ok(program_check(p, g));
    hga_graph_destroy(g);
}

/* ---- helpers ---- */

static void attention_initialises_what_it_is_given(void **state)
{
    (void)state;
    hga_program clean, dirty;
    hga_program_init(&clean);
    memset(&dirty, 0xA5, sizeof dirty);
    assert_ok(hga_program_attention(&clean, NEAR));
    assert_ok(hga_program_attention(&dirty, NEAR));
    assert_memory_equal(&dirty, &clean, sizeof clean);
}

static void attention_is_four_fields_and_one_stage(void **state)
{
    (void)state;
    hga_program p;
    hga_program_init(&p);
    assert_ok(hga_program_attention(&p, NEAR));
    assert_int_equal(p.n_fields, 4);
    assert_int_equal(p.n_stages, 1);
    assert_string_equal(p.field[1].name, "query");
    assert_string_equal(p.field[4].name, "out");
    assert_int_equal(p.field[4].width, HGA_WIDTH_STATE);
    assert_int_equal(p.has_lse, 1);
    assert_string_equal(program_stage_kind(&p.stage[0]), "attend");
    accepted(&p);
}

static void helpers_fill_what_stages_read_and_write(void **state)
{
    (void)state;
    hga_program p = energies(); /* query 1, key 2, value 3, out 4, state 5, psi 6, keep 7 */
    assert_int_equal(p.stage[0].reads, 1 << 1);
    assert_int_equal(p.stage[0].writes, 1 << 1);
    assert_int_equal(p.stage[3].reads, 1 << 1 | 1 << 2 | 1 << 3);
    assert_int_equal(p.stage[3].writes, 1 << 5);
    assert_int_equal(p.stage[4].reads, 1 << 5 | 1 << 6);
    assert_int_equal(p.stage[4].writes, 1 << 6);
    assert_int_equal(p.stage[5].reads, 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7);
    assert_int_equal(p.stage[5].writes, 1 << 4 | 1 << 7);
    accepted(&p);
}

static void unused_roles_name_no_field(void **state)
{
    (void)state;
    hga_program p = hierarchy();
    assert_int_equal(p.stage[0].query, 0);
    assert_int_equal(p.stage[0].keep, 0);
    assert_int_equal(p.stage[3].gate, 0);
}

static void stages_get_names_of_their_own(void **state)
{
    (void)state;
    hga_program p = hierarchy();
    assert_string_equal(p.stage[0].name, "coarsen query");
    assert_ok(hga_program_spread(&p, DOWN, 4));
    assert_string_equal(p.stage[4].name, "spread out");
    assert_string_equal(p.stage[5].name, "spread out 2");
    accepted(&p);
}

static void long_field_names_still_give_stage_names(void **state)
{
    (void)state;
    hga_program p;
    hga_id x;
    hga_program_init(&p);
    assert_ok(hga_program_add_field(&p, "abcdefghijklmnopqrstuvwxyz01234", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS,
                                    HGA_ROWS_NODES, &x));
    assert_ok(hga_program_coarsen(&p, x));
    assert_ok(hga_program_coarsen(&p, x));
    assert_string_equal(p.stage[0].name, "coarsen abcdefghijklmnopqrstuvw");
    assert_string_equal(p.stage[1].name, "coarsen abcdefghijklmnopqrstu 2");
}

static void full_tables_are_refused(void **state)
{
    (void)state;
    hga_program p;
    hga_program_init(&p);
    char name[] = "a";
    for (int i = 0; i < HGA_MAX_FIELDS; i++, name[0]++)
        assert_ok(hga_program_add_field(&p, name, HGA_WIDTH_VALUE, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, NULL));
    assert_status(HGA_EPROGRAM, hga_program_add_field(&p, "more", HGA_WIDTH_VALUE, HGA_INTERNAL, HGA_ROWS_NODES,
                                                      HGA_ROWS_NODES, NULL));
    for (int i = 0; i < HGA_MAX_STAGES; i++) assert_ok(hga_program_coarsen(&p, 1));
    assert_status(HGA_EPROGRAM, hga_program_coarsen(&p, 1));
    assert_int_equal(p.n_stages, HGA_MAX_STAGES);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    hga_program p;
    hga_program_init(&p);
    assert_status(HGA_EPROGRAM,
                  hga_program_add_field(&p, "", HGA_WIDTH_KEY, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, NULL));
    assert_status(HGA_EPROGRAM, hga_program_add_field(&p, "a name that has more than 31 bytes", HGA_WIDTH_KEY,
                                                      HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, NULL));
    assert_ok(hga_program_add_field(&p, "x", HGA_WIDTH_KEY, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, NULL));
    assert_status(HGA_EPROGRAM,
                  hga_program_add_field(&p, "x", HGA_WIDTH_KEY, HGA_INTERNAL, HGA_ROWS_NODES, HGA_ROWS_NODES, NULL));
    assert_status(HGA_EPROGRAM, hga_program_coarsen(&p, 2));
    assert_status(HGA_EPROGRAM, hga_program_coarsen(&p, -1));
    assert_status(HGA_EPROGRAM, hga_program_attention(NULL, 0));
    assert_status(HGA_EPROGRAM,
                  hga_program_add_stage(&p, &(hga_stage){.name = "odd", .message = HGA_GATE, .reduce = HGA_SOFTMAX}));
    assert_int_equal(p.n_stages, 0);
}

/* ---- the table ---- */

static void combinations_have_the_names_of_the_header(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        hga_message message;
        hga_reduce reduce;
        hga_update update;
    } row[] = {
        {"mean", HGA_COPY, HGA_MEAN, HGA_REPLACE},
        {"sum", HGA_COPY, HGA_SUM, HGA_REPLACE},
        {"weighted sum", HGA_SCALED, HGA_SUM, HGA_REPLACE},
        {"attend", HGA_SCORE, HGA_SOFTMAX, HGA_REPLACE},
        {"attend more", HGA_SCORE, HGA_SOFTMAX, HGA_UPDATE_MERGE},
        {"spread", HGA_STATE, HGA_MERGE, HGA_UPDATE_MERGE},
        {"energy", HGA_ENERGY, HGA_MEAN, HGA_REPLACE},
        {"descend", HGA_GATE, HGA_SUM, HGA_DESCEND},
        {"user", HGA_MESSAGE_USER, HGA_REDUCE_USER, HGA_UPDATE_USER},
    };
    int legal = 0;
    for (int m = 0; m <= HGA_MESSAGE_USER; m++)
        for (int r = 0; r <= HGA_REDUCE_USER; r++)
            for (int u = 0; u <= HGA_UPDATE_USER; u++) {
                hga_stage s = {.message = (hga_message)m, .reduce = (hga_reduce)r, .update = (hga_update)u};
                legal += program_kind(&s) != KIND_NONE;
            }
    assert_int_equal(legal, 9);
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        hga_stage s = {.message = row[i].message, .reduce = row[i].reduce, .update = row[i].update};
        assert_string_equal(program_stage_kind(&s), row[i].name);
    }
}

static void a_combination_without_meaning_names_its_stage(void **state)
{
    (void)state;
    hga_program p = hierarchy();
    p.stage[3].reduce = HGA_MEAN;
    refused(&p, "stage 'attend out'");
}

static void fields_must_have_the_width_of_their_role(void **state)
{
    (void)state;
    hga_program p = hierarchy();
    p.stage[3].query = 2, p.stage[3].reads = 1 << 2 | 1 << 3;
    refused(&p, "query of attend cannot be field 'key'");
    p = hierarchy();
    p.field[4].width = HGA_WIDTH_OUT;
    refused(&p, "out of attend cannot be field 'out' of width out");
}

static void fields_out_of_range_are_refused(void **state)
{
    (void)state;
    hga_program p = hierarchy();
    p.stage[3].value = 9;
    refused(&p, "field 9 of 4");
}

static void relations_must_exist_and_go_the_right_way(void **state)
{
    (void)state;
    hga_program p = hierarchy();
    p.stage[3].relation = 2;
    refused(&p, "relation 2 of 2");
    p = hierarchy();
    p.stage[3].relation = HGA_TREE_UP;
    refused(&p, "attend does not run along the tree");
    p = energies();
    p.stage[4].relation = HGA_TREE_DOWN, p.stage[4].order = HGA_LEVELS_DOWN;
    refused(&p, "energy does not run along the tree that way");
    p = hierarchy();
    p.stage[4].order = HGA_FLAT;
    refused(&p, "spread does not run in order 0");
    p = hierarchy();
    p.stage[0].order = HGA_LEVELS_DOWN;
    refused(&p, "up the tree but not level by level upwards");
}

static void a_stage_in_place_must_go_level_by_level(void **state)
{
    (void)state;
    hga_program p = hierarchy();
    p.stage[0].relation = NEAR, p.stage[0].order = HGA_FLAT;
    refused(&p, "must go level by level");
    p.stage[0].order = HGA_LEVELS_UP;
    refused(&p, "has an edge from node 3 of level 0 to node 0 of level 0");
}

static void nothing_is_read_before_it_is_written(void **state)
{
    (void)state;
    hga_program p = energies();
    hga_stage attend = p.stage[3];
    p.stage[3] = p.stage[4], p.stage[4] = attend;
    refused(&p, "stage 'energy psi' reads field 'state'");
}

static void inputs_are_not_written_over(void **state)
{
    (void)state;
    hga_program p = hierarchy();
    p.field[1].io = HGA_ROWS_NODES;
    refused(&p, "writes over the caller's rows of field 'query'");
}

/* A tensor of the user's is an input or, where a stage writes it, an output: not what an execution reads and then
   changes, which the next one and a gradient would read. */
static void what_is_read_of_the_users_is_not_written_over(void **state)
{
    (void)state;
    for (int way = 0; way < 5; way++) {
        hga_program p;
        hga_program_init(&p);
        hga_field_rows io = way == 4 ? HGA_ROWS_QUERIES : HGA_ROWS_NODES;
        hga_id v = field_on_nodes(&p, "v", HGA_WIDTH_VALUE, HGA_IO_VALUE),
               m = field_on_nodes(&p, "m", HGA_WIDTH_VALUE, HGA_INTERNAL),
               u = field(&p, "u", HGA_WIDTH_VALUE, HGA_IO_USER, io, HGA_ROWS_NODES),
               out = field(&p, "out", HGA_WIDTH_OUT, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES);
        if (way == 0) { /* read, then written */
            assert_ok(hga_program_mean(&p, 0, u, m, 0));
            assert_ok(hga_program_mean(&p, 0, v, u, 0));
        } else if (way == 1) { /* written, then read */
            assert_ok(hga_program_mean(&p, 0, v, u, 0));
            assert_ok(hga_program_mean(&p, 0, u, m, 0));
        } else if (way == 2) { /* tokens are read, nodes written, and then both read and nodes written once more */
            assert_ok(hga_program_coarsen(&p, u));
            assert_ok(hga_program_mean(&p, 0, u, m, 0));
            hga_stage again = p.stage[0];
            snprintf(again.name, sizeof again.name, "again");
            assert_ok(hga_program_add_stage(&p, &again));
        } else { /* all are read, nodes written: which are the caller's, or not */
            assert_ok(hga_program_mean(&p, 0, u, m, 0));
            assert_ok(hga_program_coarsen(&p, u));
        }
        if (way == 4) p.stage[0] = p.stage[1], p.stage[0].name[0] = 'C', assert_ok(hga_program_mean(&p, 0, v, m, 0));
        assert_ok(hga_program_weighted_sum(&p, 0, way == 1 || way == 2 ? m : v, out));
        if (way == 0) refused(&p, "stage 'mean u' writes over the caller's rows of field 'u', which a stage before it");
        if (way == 3) refused(&p, "stage 'coarsen u' writes over the caller's rows of field 'u', which a stage before");
        if (way % 3) accepted(&p);
    }
}

static void bindings_are_unique_and_out_is_there(void **state)
{
    (void)state;
    hga_program p = hierarchy();
    p.field[2].binding = HGA_IO_VALUE, p.field[2].width = HGA_WIDTH_VALUE;
    refused(&p, "2 fields are bound to value");
    p = hierarchy();
    p.field[4].binding = HGA_INTERNAL;
    refused(&p, "no field is bound to out");
    p = energies();
    p.n_stages = 5;
    refused(&p, "no stage writes the out field 'out'");
}

static void names_are_unique(void **state)
{
    (void)state;
    hga_program p = hierarchy();
    strcpy(p.field[3].name, "key");
    refused(&p, "fields 2 and 3 are both named 'key'");
    p = hierarchy();
    strcpy(p.stage[1].name, p.stage[0].name);
    refused(&p, "stages 0 and 1 are both named 'coarsen query'");
    p.stage[1].name[0] = 0;
    refused(&p, "stage 1 has no name");
    memset(p.stage[1].name, 'x', sizeof p.stage[1].name);
    refused(&p, "stage 1 has no name of 1 to 31 bytes");
}

static void an_lse_is_promised_of_states_only(void **state)
{
    (void)state;
    hga_program p = energies();
    p.has_lse = 1;
    refused(&p, "promises an LSE");
}

static void fields_must_exist_where_they_are_read(void **state)
{
    (void)state;
    hga_program p = hierarchy();
    p.field[2].rows = HGA_ROWS_KEYS;
    p.stage[1] = p.stage[2], p.stage[2] = p.stage[3], p.stage[3] = p.stage[4], p.n_stages = 4;
    refused(&p, "stage 'attend out' needs field 'key' on node 4");
    p.field[1].rows = HGA_ROWS_QUERIES;
    p.n_stages = 1, p.stage[0] = p.stage[2];
    refused(&p, "stage 'attend out' needs field 'query' on node 4");
}

/* ---- user stages ---- */

static void user_stages_need_their_functions(void **state)
{
    (void)state;
    hga_program p = with_user_stage();
    accepted(&p);
    p.stage[3].udf.edge = NULL;
    refused(&p, "stage 'mine': the user function has no edge");
    p = with_user_stage();
    p.stage[3].udf.state_bytes = (size_t)1 << 30;
    accepted(&p);
    p.stage[3].udf.state_bytes++;
    refused_with(HGA_EOVERFLOW, &p, "a state of 1073741825 bytes, more than 1073741824");
    p = with_user_stage();
    p.stage[3].writes = 0;
    refused(&p, "out field 'out' is not among its writes");
    p = with_user_stage();
    p.stage[3].key = 0;
    refused(&p, "needs both query and key");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_initialises_what_it_is_given),
        cmocka_unit_test(attention_is_four_fields_and_one_stage),
        cmocka_unit_test(helpers_fill_what_stages_read_and_write),
        cmocka_unit_test(unused_roles_name_no_field),
        cmocka_unit_test(stages_get_names_of_their_own),
        cmocka_unit_test(long_field_names_still_give_stage_names),
        cmocka_unit_test(full_tables_are_refused),
        cmocka_unit_test(wrong_arguments_are_refused),
        cmocka_unit_test(combinations_have_the_names_of_the_header),
        cmocka_unit_test(a_combination_without_meaning_names_its_stage),
        cmocka_unit_test(fields_must_have_the_width_of_their_role),
        cmocka_unit_test(fields_out_of_range_are_refused),
        cmocka_unit_test(relations_must_exist_and_go_the_right_way),
        cmocka_unit_test(a_stage_in_place_must_go_level_by_level),
        cmocka_unit_test(nothing_is_read_before_it_is_written),
        cmocka_unit_test(inputs_are_not_written_over),
        cmocka_unit_test(what_is_read_of_the_users_is_not_written_over),
        cmocka_unit_test(bindings_are_unique_and_out_is_there),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(an_lse_is_promised_of_states_only),
        cmocka_unit_test(fields_must_exist_where_they_are_read),
        cmocka_unit_test(user_stages_need_their_functions),
    };
    return cmocka_run_group_tests_name("program", tests, NULL, NULL);
}
