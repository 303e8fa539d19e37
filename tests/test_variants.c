/* test_variants.c: the registry says what the builders do. */
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* a structure of any variant */
typedef union any {
    max_align_t alignment;
    char bytes[1024];
} any;

static const hga_variant *named(const char *name)
{
    const hga_variant *v = hga_variant_named(name);
    if (!v) fail_msg("no variant %s", name);
    return v;
}

static void every_variant_says_what_it_is(void **state)
{
    (void)state;
    int n = 0;
    for (const hga_variant *v = hga_variants(); v->name; v++, n++) {
        assert_true(v->says && *v->says && v->paper && *v->paper && v->build && v->edges && v->defaults);
        assert_ptr_equal(hga_variant_named(v->name), v);
        assert_true(v->bytes <= sizeof(any) && v->tokens < v->bytes && (v->keys == HGA_NOWHERE || v->keys < v->bytes));
        assert_int_equal(v->keys != HGA_NOWHERE, (v->can & HGA_CAN_CROSS) != 0);
        assert_int_equal(v->tokens_of != NULL, (v->can & HGA_ROWS_ARE_NODES) != 0);
        assert_int_equal(v->shows[0] != NULL, !(v->can & HGA_NEEDS_DRAFTS)); /* no text has drafts */
    }
    assert_int_equal(n, 13);
    assert_null(hga_variant_named("nosuch"));
    assert_ptr_equal(hga_variant_named("treeformer_fine"), hga_variant_named("treeformer-fine"));
    assert_null(hga_variant_named("treeformer fine"));
    assert_null(hga_variant_named("treeformer_fin"));
}

/* Are the settings those of a user: is none, "interpolation=linear" or the like, there for study? */
static int is_used(const hga_variant *v, const char *words)
{
    for (const char *word = words; *word; word += strcspn(word, " "), word += strspn(word, " ")) {
        size_t name = strcspn(word, "="), value = strcspn(word + name, " ");
        const hga_parameter *p = hga_variant_parameter(v, word, name);
        assert_non_null(p);
        if (p->study && value - 1 == strlen(p->study) && strncmp(word + name + 1, p->study, value - 1) == 0) return 0;
    }
    return 1;
}

/* `hga choose` tries the sweeps, `hga run` what shows a variant. */
static void nobody_is_offered_what_is_for_study(void **state)
{
    (void)state;
    int n = 0;
    for (const hga_variant *v = hga_variants(); v->name; v++) {
        for (const char *const *words = v->shows; *words; words++) assert_true(is_used(v, *words));
        for (const hga_sweep *s = v->sweeps; s && s->words; s++) assert_true(is_used(v, s->words));
        for (const hga_parameter *p = v->parameters; p->name; p++) {
            any x;
            hga_variant_defaults(v, &x);
            if (!p->study) continue;
            n++;
            assert_string_not_equal(p->standard, p->study);
            assert_ok(hga_variant_set(v, &x, p->name, p->study));
        }
    }
    assert_int_equal(n, 4);
    assert_false(is_used(hga_variant_named("bpt"), "k=4 rule=algorithm1"));
    assert_false(is_used(hga_variant_named("htransformer"), "interpolation=linear block=4"));
    assert_true(is_used(hga_variant_named("hsa"), "branching=2 mode=frontier self=0"));
    assert_false(is_used(hga_variant_named("hsa"), "branching=2 self=1"));
}

static int64_t number_at(const hga_parameter *p, const any *x)
{
    hga_id value;
    memcpy(&value, x->bytes + p->offset, sizeof value);
    return value;
}

/* "64" and "shifted" are what hga_defaults() gives windows and bpt */
static void defaults_as_typed_are_those_of_the_functions(void **state)
{
    (void)state;
    for (const hga_variant *v = hga_variants(); v->name; v++) {
        any plain, typed;
        hga_variant_defaults(v, &plain);
        for (const hga_parameter *p = v->parameters; p->name; p++) {
            if (p->kind >= HGA_PARAMETER_IDS || !p->standard) continue;
            memset(&typed, 0xff, sizeof typed);
            hga_variant_defaults(v, &typed);
            memset(typed.bytes + p->offset, 0x55, sizeof(hga_id));
            assert_ok(hga_variant_set(v, &typed, p->name, p->standard));
            assert_true(number_at(p, &typed) == number_at(p, &plain));
        }
    }
    any w;
    hga_variant_defaults(named("window"), &w);
    const hga_window *window = (const void *)&w;
    assert_true(window->left == 64 && window->right == 64 && window->stride == 1 && window->global == 0);
}

/* A struct's row in HGA_BUILDER_STRUCTS names a variant that takes such a struct: hga_defaults writes no more than it
   holds, and every byte of its own. */
#define IS_AS_LONG(type, name) assert_int_equal(sizeof(type), named(name)->bytes), n++;

static void a_struct_knows_its_variant(void **state)
{
    (void)state;
    int n = 0;
    HGA_BUILDER_STRUCTS(IS_AS_LONG)
    assert_int_equal(n, 12); /* both treeformers take one */
    hga_window window;
    hga_bpt bpt;
    hga_htransformer htransformer;
    hga_treeformer treeformer;
    hga_draft draft;
    hga_routed routed;
    hga_defaults(&window), hga_defaults(&bpt), hga_defaults(&htransformer);
    hga_defaults(&treeformer), hga_defaults(&draft), hga_defaults(&routed);
    assert_true(window.left == 64 && window.right == 64 && window.stride == 1 && window.n_tokens == 0);
    assert_true(bpt.k == 4 && bpt.clip == 10 && htransformer.block == 16 && treeformer.n_tree_heads == 1);
    assert_true(draft.prefix == -1 && routed.n_choosers == 1 && routed.block == 64 && routed.choose.k == 16);
    assert_true(routed.reserved[1] == 0 && window.reserved[3] == 0);
}

static void offsets_stay_inside_and_words_are_there(void **state)
{
    (void)state;
    for (const hga_variant *v = hga_variants(); v->name; v++)
        for (const hga_parameter *p = v->parameters; p->name; p++) {
            int own = p->place == HGA_IN_BUILDER || p->place == HGA_IN_CHOICE;
            size_t bytes = own ? v->bytes : p->place == HGA_IN_IO ? sizeof(hga_io) : sizeof(hga_router);
            assert_true(p->offset + sizeof(hga_id) <= bytes);
            assert_true(p->says && *p->says);
            if (p->kind == HGA_PARAMETER_WORD) assert_non_null(strstr(p->words, p->standard));
            if (p->kind >= HGA_PARAMETER_IDS && p->place == HGA_IN_BUILDER) assert_true(p->count < v->bytes);
            assert_ptr_equal(hga_variant_parameter(v, p->name, strlen(p->name)), p);
        }
}

static int64_t edges_of(const hga_graph *g)
{
    int64_t edges = 0;
    for (hga_id r = 0; r < hga_graph_nodes(g).n_relations; r++) edges += hga_graph_relation(g, r).n_edges;
    return edges;
}

static void words_build_what_the_structure_builds(void **state)
{
    static const hga_id windows[] = {2, 4, 8};
    (void)state;
    hga_graph *words, *typed;
    hga_program p, q;
    hga_bpt b;
    hga_defaults(&b);
    b.n_tokens = 77, b.k = 3, b.causal = 1, b.rule = HGA_BPT_TEXT;
    assert_ok(hga_build("bpt k=3 causal=1  rule=text", 77, &words, &p));
    assert_ok(hga_build_bpt(&b, &typed, &q));
    assert_true(edges_of(words) == edges_of(typed));
    hga_graph_destroy(words), hga_graph_destroy(typed);
    hga_hsa h;
    hga_defaults(&h);
    h.n_tokens = 100, h.branching = windows, h.n_branching = 3;
    assert_ok(hga_build("hsa:branching=2,4,8:tokens=100", 0, &words, &p));
    assert_ok(hga_build_hsa(&h, &typed, &q));
    assert_true(edges_of(words) == edges_of(typed) && hga_graph_nodes(words).n == hga_graph_nodes(typed).n);
    hga_graph_destroy(words), hga_graph_destroy(typed);
    assert_ok(hga_build("dense keys=20", 30, &words, &p));
    assert_int_equal(hga_graph_nodes(words).n_keys, 20);
    hga_graph_destroy(words);
    assert_ok(hga_build("segments:query_segment=0,0,1 :key-segment=0,1,1,1", 0, &words, &p));
    assert_true(edges_of(words) == 2 + 3);
    hga_graph_destroy(words);
}

static void a_parameter_is_given_once(void **state)
{
    static const struct {
        const char *words;
        hga_id tokens;
        const char *says;
    } twice[] = {
        {"window left=3 right=3 left=5", 20, "window: left is given twice"},
        {"window:left=3:left=3", 20, "window: left is given twice"},
        {"hsa branching=2,4 branching=3", 20, "hsa: branching is given twice"},
        {"bpt rule=text rule=shifted", 20, "bpt: rule is given twice"},
        {"routed threshold=0.5 threshold=0.5", 20, "routed: threshold is given twice"},
        {"treeformer-fine query-leaf=0,1,2 key-leaf=0,0 query_leaf=0,0", 2, "query-leaf is given twice"},
        {"dense keys=20 keys=30", 20, "dense: keys is given twice"},
        {"dense tokens=20 tokens=20", 0, "dense: tokens is given twice"},
        {"dense tokens=20", 30, "dense: tokens is given twice"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof twice / sizeof *twice; i++) {
        hga_graph *g;
        hga_program p;
        assert_status(HGA_EINVAL, hga_build(twice[i].words, twice[i].tokens, &g, &p));
        assert_non_null(strstr(hga_error_detail(), twice[i].says));
    }
}

/* Words are read once, and copies of their structure are changed and built. */
static void words_that_are_read_are_built_several_times(void **state)
{
    hga_words w;
    hga_graph *g, *built;
    hga_program p;
    (void)state;
    assert_ok(hga_words_read(" hsa:branching=2,4 self=0", &w));
    assert_ptr_equal(w.variant, named("hsa"));
    for (const hga_parameter *row = w.variant->parameters; row->name; row++)
        assert_int_equal(w.declared >> (row - w.variant->parameters) & 1,
                         strcmp(row->name, "branching") == 0 || strcmp(row->name, "self") == 0);
    assert_false(w.declared >> HGA_DECLARED_TOKENS & 1 || w.declared >> HGA_DECLARED_KEYS & 1);
    for (hga_id n = 20; n < 60; n += 20) {
        hga_hsa copy;
        memcpy(&copy, w.parameters, sizeof copy);
        assert_ok(hga_variant_set(w.variant, &copy, "causal", "1"));
        copy.n_tokens = n;
        assert_ok(w.variant->build(&copy, &g, &p));
        assert_ok(hga_build("hsa branching=2,4 causal=1", n, &built, &p));
        assert_int_equal(edges_of(g), edges_of(built));
        hga_graph_destroy(g), hga_graph_destroy(built);
    }
    hga_words_clear(&w);
    hga_words_clear(&w);
    assert_ok(hga_words_read("dense tokens=20 keys=30", &w));
    assert_true(w.declared >> HGA_DECLARED_TOKENS & 1 && w.declared >> HGA_DECLARED_KEYS & 1);
    assert_ok(w.variant->build(w.parameters, &g, &p));
    assert_int_equal(edges_of(g), 600);
    hga_graph_destroy(g);
    hga_words_clear(&w);
    assert_status(HGA_EINVAL, hga_words_read("dense tokens", &w));
    assert_true(!w.variant && !w.parameters && !w.declared);
}

static void a_colon_stands_between_words_alone(void **state)
{
    static const char *const wrong[] = {":window", " :window:left=3", ":", "window:", "window left=3: \n", "window::"};
    static const char *const right[] = {" window left=3", "window::left=3", "window \t left=3\n"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hga_graph *g;
        hga_program p;
        assert_status(HGA_EINVAL, hga_build(wrong[i], 20, &g, &p));
        assert_non_null(strstr(hga_error_detail(), i < 3 ? "begins with its name" : "ends with a colon"));
        assert_null(g);
    }
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        hga_graph *g;
        hga_program p;
        assert_ok(hga_build(right[i], 20, &g, &p));
        hga_graph_destroy(g);
    }
}

/* "tree parent=4,5,4,5,6,6,-1" */
static void arrays_of_a_caller_are_borrowed_by_name(void **state)
{
    static const hga_id parent[] = {4, 5, 4, 5, 6, 6, -1};
    static const int32_t leaf[] = {0, 1, 1, 0, 2, 3};
    (void)state;
    any x;
    hga_graph *g;
    hga_program p;
    hga_variant_defaults(named("hsa"), &x);
    assert_ok(hga_variant_set_array(named("hsa"), &x, "parent", parent, 7, 0));
    assert_ok(named("hsa")->build(&x, &g, &p));
    assert_int_equal(hga_graph_nodes(g).n, 7);
    hga_graph_destroy(g);
    hga_variant_defaults(named("treeformer-fine"), &x);
    assert_ok(hga_variant_set(named("treeformer-fine"), &x, "height", "2"));
    assert_ok(hga_variant_set_array(named("treeformer-fine"), &x, "query-leaf", leaf, 3, 2));
    const hga_treeformer *t = (const void *)&x;
    assert_true(t->n_queries == 3 && t->n_tree_heads == 2 && t->query_leaf == leaf);
    assert_ok(named("treeformer-fine")->build(&x, &g, &p));
    hga_graph_destroy(g);
}

/* A number for all, or one for each; the last that is set counts. */
static void a_number_may_be_an_array(void **state)
{
    static const hga_id each[] = {3, 99, 5};
    (void)state;
    const hga_variant *v = named("routed");
    hga_words w;
    any x;
    const hga_routed *p = (const void *)&x;
    hga_variant_defaults(v, &x);
    assert_true(p->choose.k == 16 && !p->choose.k_each && !p->choose.n_k_each);
    assert_ok(hga_variant_set_array(v, &x, "k", each, 3, 0));
    assert_true(p->choose.k_each == each && p->choose.n_k_each == 3);
    assert_ok(hga_variant_set(v, &x, "k", "7"));
    assert_true(p->choose.k == 7 && !p->choose.k_each && !p->choose.n_k_each);
    assert_status(HGA_EINVAL, hga_variant_set_array(v, &x, "k", (hga_id[]){3, 0}, 2, 0));
    assert_string_equal(hga_error_detail(), "k: number 1 is 0, at least 1 is needed");
    assert_status(HGA_EINVAL, hga_variant_set_array(v, &x, "k", (hga_id[]){3, 4}, 1, 2));
    assert_string_equal(hga_error_detail(), "k: 2 columns; it has one axis");
    assert_status(HGA_EINVAL, hga_variant_set_array(v, &x, "k", each, 0, 0));
    assert_string_equal(hga_error_detail(), "k: 0 numbers, at least 1 is needed");
    assert_status(HGA_EINVAL, hga_variant_set_array(v, &x, "block", each, 3, 0));
    assert_string_equal(hga_error_detail(), "block: is a number");
    assert_true(p->choose.k == 7 && !p->choose.k_each);
    assert_status(HGA_EINVAL, hga_variant_set_array(named("hsa"), &x, "branching", each, 1, 3));
    assert_ok(hga_words_read("routed:block=4:k=3,99,5", &w));
    p = w.parameters;
    assert_int_equal(p->choose.n_k_each, 3);
    assert_memory_equal(p->choose.k_each, each, sizeof each);
    hga_words_clear(&w);
    assert_status(HGA_EINVAL, hga_words_read("routed k=3,0", &w));
    assert_string_equal(hga_error_detail(), "k: 0 is not in 1 .. 2147483647");
    assert_status(HGA_EINVAL, hga_words_read("routed k=3,4 k=2", &w));
    assert_string_equal(hga_error_detail(), "routed: k is given twice");
    assert_status(HGA_EINVAL, hga_words_read("routed k=3,", &w));
}

/* over many settings of every variant, those of the sweeps among them */
static void formulas_count_what_graphs_have(void **state)
{
    static const char *const settings[] = {"causal=1",
                                           "left=5 global=3 stride=2",
                                           "k=1",
                                           "k=3 causal=1",
                                           "block=4",
                                           "block=8 structure=siblings causal=1",
                                           "branching=3",
                                           "branching=2,5 causal=1 mode=self",
                                           "branching=4 self=1",
                                           "segments=5,13 dilations=2,3",
                                           "segments=6,6 dilations=9,1 causal=1",
                                           "kernel=5 dilation=3 causal=1",
                                           "shape=2,4,2 kernel=3 dilation=2,1,3 causal=0,1,0",
                                           ""};
    (void)state;
    int known = 0;
    for (const hga_variant *v = hga_variants(); v->name; v++)
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
            for (hga_id n = 1; n < 80; n = n * 2 + (n == 16 ? -3 : 0)) {
                char words[160], text[160], *rest = NULL;
                hga_graph *g;
                hga_program program;
                any x;
                hga_id list[4][4], used = 0;
                snprintf(words, sizeof words, "%s %s", v->name, settings[i]);
                if (hga_build(words, n, &g, &program)) continue;
                snprintf(text, sizeof text, "%s", settings[i]);
                hga_variant_defaults(v, &x);
                for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
                    char *value = strchr(word, '=');
                    *value++ = 0;
                    const hga_parameter *p = hga_variant_parameter(v, word, strlen(word));
                    if (p->kind != HGA_PARAMETER_IDS) {
                        assert_ok(hga_variant_set(v, &x, word, value));
                        continue;
                    }
                    hga_id count = 0;
                    for (char *end = value; *value; value = end + (*end == ','))
                        list[used][count++] = (hga_id)strtol(value, &end, 10);
                    assert_ok(hga_variant_set_array(v, &x, word, list[used++], count, 0));
                }
                memcpy(x.bytes + v->tokens, &n, sizeof n);
                double want = v->edges(&x), got = 0;
                for (hga_id s = 0; s < program.n_stages; s++)
                    if (program.stage[s].message == HGA_SCORE)
                        got += (double)hga_graph_relation(g, program.stage[s].relation).n_edges;
                if (!isnan(want)) {
                    known++;
                    if (want != got) fail_msg("%s of %d tokens: %g edges by formula, %g counted", words, n, want, got);
                }
                hga_graph_destroy(g);
            }
    assert_true(known > 100);
}

/* Its graph depends on queries and keys, and counts the blocks that they choose. */
static void routed_counts_k_blocks_a_row(void **state)
{
    (void)state;
    static const char *const settings[] = {"block=4 k=3 causal=1",
                                           "block=4 k=3",
                                           "block=3 k=1 sinks=0 local=0 causal=1",
                                           "block=4 k=2 sinks=2 local=2",
                                           "block=4 k=5 query-block=6 causal=1",
                                           "block=4 k=4 prefill=3",
                                           "block=4 k=4 prefill=6 score=sample sample=3 causal=1",
                                           "block=2 k=5 coarse=4 coarse-k=2 causal=1",
                                           "block=2 k=99"};
    enum { N = 48, DIM = 4 };
    float x[2 * N * DIM];
    uint64_t rng = 3;
    for (int i = 0; i < 2 * N * DIM; i++) x[i] = (float)random_below(&rng, 1000) / 500 - 1;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        char text[160], *rest = NULL;
        hga_routed p;
        hga_defaults(&p);
        hga_selection how;
        hga_chosen chosen;
        hga_graph *g;
        hga_program program;
        snprintf(text, sizeof text, "%s", settings[i]);
        for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
            char *value = strchr(word, '=');
            *value++ = 0;
            assert_ok(hga_variant_set(named("routed"), &p, word, value));
        }
        p.n_tokens = N;
        assert_status(HGA_EINVAL, named("routed")->build(&p, &g, &program));
        assert_non_null(strstr(hga_error_detail(), "needs their choice"));
        assert_ok(hga_routed_selection(&p, &how));
        hga_select_input in = {.n_tokens = N, .shape = {.n_heads = 1, .dim = DIM}};
        in.query = (hga_tensor){.data = x, .rows = N}, in.key = (hga_tensor){.data = x + N * DIM, .rows = N};
        assert_ok(hga_select_blocks(&how, &in, &chosen));
        p.choice = chosen.block, p.choice_first = chosen.first;
        assert_ok(named("routed")->build(&p, &g, &program));
        if (edges_of(g) != (int64_t)named("routed")->edges(&p))
            fail_msg("%s: %g edges by formula, %lld counted", settings[i], named("routed")->edges(&p),
                     (long long)edges_of(g));
        hga_chosen_clear(&chosen);
        hga_graph_destroy(g);
    }
    hga_routed p;
    hga_defaults(&p);
    hga_selection how;
    p.n_tokens = N;
    assert_true(named("routed")->edges(&p) == N * N);
    assert_ok(hga_variant_set(named("routed"), &p, "threshold", "0.5"));
    assert_true(isnan(named("routed")->edges(&p)));
    assert_ok(hga_routed_selection(&p, &how));
    assert_true(how.k == 0 && how.threshold == 0.5);
    assert_status(HGA_EINVAL, hga_variant_set(named("routed"), &p, "threshold", "half"));
    assert_status(HGA_EINVAL, hga_variant_set(named("routed"), &p, "threshold", "-1"));
    p.choose.prefill = 4, p.query_block = 2;
    assert_status(HGA_EINVAL, hga_routed_selection(&p, &how));
    p.query_block = 1, p.choose.prefill = -1;
    assert_status(HGA_EINVAL, hga_routed_selection(&p, &how));
    assert_string_equal(hga_error_detail(), "prefill is -1; it must be at least 0");
    p.choose.prefill = 0;
    assert_ok(hga_routed_selection(&p, &how));
    assert_int_equal(how.query_block, 1);
}

static void segments_and_leaves_have_a_formula_too(void **state)
{
    (void)state;
    static const int32_t query[] = {0, 0, 1, -1, 3}, key[] = {0, 1, 1, 1, 2, 3};
    hga_segmented s;
    hga_defaults(&s);
    s.n_tokens = 5, s.n_keys = 6, s.query_segment = query, s.key_segment = key;
    assert_true(named("segments")->edges(&s) == 2 + 3 + 1);
    s.n_keys = 0, s.causal = 1;
    assert_true(named("segments")->edges(&s) == 3 + 1 + 1);
    hga_treeformer t;
    hga_defaults(&t);
    t.n_queries = 5, t.query_leaf = query;
    assert_true(named("treeformer-fine")->edges(&t) == 4 + 1 + 1);
    t.causal = 1;
    assert_true(named("treeformer-fine")->edges(&t) == 3 + 1 + 1);
    t.height = 2, t.causal = 0;
    assert_true(named("treeformer-coarse")->edges(&t) == 4 * 3);
}

static void refused(const char *words, hga_id n, const char *says)
{
    hga_graph *g = (hga_graph *)&(char){0};
    hga_program program;
    assert_status(HGA_EINVAL, hga_build(words, n, &g, &program));
    assert_null(g);
    if (!strstr(hga_error_detail(), says)) fail_msg("'%s' does not say '%s'", hga_error_detail(), says);
}

static void flags_are_said_in_several_words(void **state)
{
    static const char *const yes[] = {"window causal=1",       "window causal",     "window causal=true",
                                      "window causal=True",    "window causal=yes", "window:causal=on:left=256",
                                      "window:left=256:causal"},
                             *const no[] = {"window causal=0", "window causal=no", "window causal=False",
                                            "window:causal=off"};
    (void)state;
    for (size_t i = 0; i < sizeof yes / sizeof *yes + sizeof no / sizeof *no; i++) {
        const size_t n_yes = sizeof yes / sizeof *yes;
        hga_graph *g;
        hga_program p;
        assert_ok(hga_build(i < n_yes ? yes[i] : no[i - n_yes], 40, &g, &p));
        assert_int_equal(hga_graph_nodes(g).claims & HGA_CLAIM_CAUSAL ? 1 : 0, i < n_yes);
        hga_graph_destroy(g);
    }
}

/* What people type first elsewhere is refused by what it is here, and that can be built. */
static void names_of_elsewhere_can_be_built(void **state)
{
    static const char *const names[] = {"longformer",       "natten",         "longnet",
                                        "h_transformer_1d", "bp-transformer", "full"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        hga_graph *g;
        hga_program p;
        assert_null(hga_variant_named(names[i]));
        assert_ok(hga_build(hga_variant_elsewhere(names[i]), 1024, &g, &p));
        hga_graph_destroy(g);
    }
    assert_non_null(hga_variant_elsewhere("Top-K")), assert_non_null(hga_variant_elsewhere("documents"));
    assert_null(hga_variant_elsewhere("")), assert_null(hga_variant_elsewhere("window")),
        assert_null(hga_variant_elsewhere("nothing"));
}

static void wrong_words_are_named(void **state)
{
    (void)state;
    refused("", 4, "no variant ''; there are: dense window bpt");
    refused("bptt k=4", 4, "no variant 'bptt'");
    refused("bpt kk=4", 4, "bpt has no parameter 'kk'; it has: k causal rule clip tokens");
    refused("window width=4", 4, "no parameter 'width'; it has: left right global stride causal tokens keys");
    refused("bpt k", 4, "'k' is not name=value");
    refused("bpt k=4x", 4, "k: '4x' is not a whole number");
    refused("bpt k=0", 4, "k: 0 is not in 1 .. 2147483647");
    refused("bpt causal=2", 4, "causal: '2' is neither 0 nor 1");
    refused("bpt causal=yess", 4, "causal: 'yess' is neither 0 nor 1");
    refused("bpt causal=", 4, "causal: '' is neither 0 nor 1");
    refused("bpt causal causal=1", 4, "causal is given twice");
    refused("longformer", 4, "no variant 'longformer': here it is window left=256 right=256 global=1");
    refused("Sliding-Window left=4", 4, "no variant 'Sliding-Window': here it is window");
    refused("bpt rule=odd", 4, "rule: 'odd' is not one of: shifted text algorithm1");
    refused("bpt keys=3", 4, "bpt has no parameter 'keys'");
    refused("hsa branching=2,0", 4, "branching: 0 is not in 1");
    refused("treeformer-fine height=2 branching=2,2,2", 4, "branching: 3 numbers where 2");
    refused("treeformer-fine branching=2,2,2 height=2", 4, "branching: 3 numbers where 2");
    refused("treeformer-fine weights=3", 4, "weights is an array, which '3' does not give");
    refused("dense", 0, "tokens: 0");
    refused("segments query-segment=0,1", 3, "tokens: 3, but query-segment has 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_says_what_it_is),
        cmocka_unit_test(nobody_is_offered_what_is_for_study),
        cmocka_unit_test(defaults_as_typed_are_those_of_the_functions),
        cmocka_unit_test(a_struct_knows_its_variant),
        cmocka_unit_test(offsets_stay_inside_and_words_are_there),
        cmocka_unit_test(words_build_what_the_structure_builds),
        cmocka_unit_test(a_parameter_is_given_once),
        cmocka_unit_test(words_that_are_read_are_built_several_times),
        cmocka_unit_test(a_colon_stands_between_words_alone),
        cmocka_unit_test(arrays_of_a_caller_are_borrowed_by_name),
        cmocka_unit_test(formulas_count_what_graphs_have),
        cmocka_unit_test(routed_counts_k_blocks_a_row),
        cmocka_unit_test(a_number_may_be_an_array),
        cmocka_unit_test(segments_and_leaves_have_a_formula_too),
        cmocka_unit_test(flags_are_said_in_several_words),
        cmocka_unit_test(names_of_elsewhere_can_be_built),
        cmocka_unit_test(wrong_words_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
