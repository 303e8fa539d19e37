/* Calls whose options are drawn together, and which options have met. */
#include "option_pairs.h"
#include "testing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 2000 };

/* ---- what fails, and where ---- */

static uint64_t seed_in_hand;
static const drawn_call *in_hand;

void draw_fail(const char *format, ...)
{
    char text[1000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (in_hand) draw_describe(in_hand->graph, in_hand->program), call_describe(in_hand);
    fail_msg("drawn_calls hold %llu 1: %s", (unsigned long long)seed_in_hand, text);
    abort();
}

/* ---- the oracle ---- */

/* Does the oracle know what the call asks for? It has no functions of the user's, and drops nothing. */
static int is_known(const drawn_call *c)
{
    return !find_stage(c->program, HGA_MESSAGE_USER) && c->options.dropout == 0;
}

static int64_t n_compared;

/* Rounding to bfloat16 of queries, keys and values moves scores, which the oracle's are not. */
static void compare_with_slow(const drawn_call *c, const hga_io *io)
{
    double *out = NULL, *lse = NULL, near = c->options.precision == HGA_PRECISION_BF16 ? 6e-2 : 1e-4;
    hga_id values = c->shape.dim_v ? c->shape.dim_v : c->shape.dim;
    array a = {.rows = c->out_rows, .heads = c->shape.n_heads, .columns = values, .dtype = io->out.dtype};
    a.head_stride = values, a.row_stride = (ptrdiff_t)a.heads * values;
    if (!is_known(c) || !io->out.data) return;
    if (a.dtype != HGA_F32) near += a.dtype == HGA_F16 ? 0x1p-10 : 0x1p-7;
    slow_execute(c->graph, c->program, &c->shape, io, &out, &lse);
    for (int64_t i = 0; i < a.rows * a.heads * values; i++) {
        float got = memory_at(&a, io->out.data, 0, 0, i);
        if (!(fabs((double)got - out[i]) <= near * fmax(1, fabs(out[i]))) && !(isnan(out[i]) && isnan(got)))
            draw_fail("the oracle: number %lld is %.9g, not %.9g", (long long)i, (double)got, out[i]);
    }
    n_compared++;
    free(out), free(lse);
}

/* ---- drawn calls ---- */

static int64_t met[N_TRAITS][N_TRAITS], refused[N_TRAITS][N_TRAITS], met_three[N_TRAITS][N_TRAITS][N_TRAITS];

static void count(int64_t (*pairs)[N_TRAITS], const trait_set *t)
{
    for (int a = 0; a < N_TRAITS; a++)
        for (int b = 0; b < N_TRAITS && t->has[a]; b++) pairs[a][b] += t->has[b];
}

static void count_met(const trait_set *t)
{
    count(met, t);
    for (int i = 0; i < N_TRIPLES_OF; i++)
        for (int j = 0; j < i; j++)
            for (int k = 0; k < j; k++) {
                trait a = triple_table[i], b = triple_table[j], c = triple_table[k];
                met_three[a][b][c] += t->has[a] && t->has[b] && t->has[c];
            }
}

static trait_set with(trait_set t, trait more)
{
    t.has[more] = 1;
    return t;
}

/* Without those from `first` to `last`. */
static trait_set without(trait_set t, trait first, trait last)
{
    memset(&t.has[first], 0, (size_t)(last - first) + 1);
    return t;
}

static trait_set without_gradients(trait_set t) { return without(t, TRAIT_GRADIENT, N_TRAITS - 1); }

/* Those from `first` to `last`, and no others. */
static trait_set only(trait_set t, trait first, trait last)
{
    trait_set some = {{0}};
    memcpy(&some.has[first], &t.has[first], (size_t)(last - first) + 1);
    return some;
}

/* keep_fields and rows of the output: refused, and for that reason. */
static int is_refused_together(const drawn_call *c, const call_fate *fate)
{
    if (!c->options.keep_fields || !c->options.rows) return 0;
    if (fate->forward == HGA_OK) draw_fail("keep_fields and some rows are accepted together");
    return fate->forward == HGA_EUNSUPPORTED && strstr(fate->refused, "keep_fields") != NULL;
}

/* Slices with gradients or keep_fields: refused, and for that reason. */
static int refuses_slices(const drawn_call *c)
{
    hga_plan *plan = NULL;
    hga_options o = c->options;
    if (!o.gradient && !o.keep_fields) return 0;
    o.rows = HGA_ROWS_THAT_STAY;
    hga_status st = hga_plan_create(c->graph, c->program, &c->shape, &o, &plan);
    hga_plan_destroy(plan);
    if (!st) draw_fail("rows that stay are accepted with gradients or keep_fields");
    const char *says = hga_error_detail();
    return st == HGA_EUNSUPPORTED && (strstr(says, "rows: keep_fields") || strstr(says, "rows: a gradient"));
}

/* Whether there are slices depends on the program, whatever the precision. */
static void hold_slices(const drawn_call *c)
{
    hga_status st[2];
    for (int i = 0; i < 2; i++) {
        hga_plan *plan = NULL;
        hga_options o = {
            .rows = HGA_ROWS_THAT_STAY, .threads = 1, .precision = i ? HGA_PRECISION_BF16 : HGA_PRECISION_F32};
        o.generic = c->options.generic;
        st[i] = hga_plan_create(c->graph, c->program, &c->shape, &o, &plan);
        hga_plan_destroy(plan);
    }
    if (st[0] != st[1])
        draw_fail("slices in float32: %s, in bfloat16: %s", hga_status_name(st[0]), hga_status_name(st[1]));
}

static int64_t n_forward, n_backward, n_fast, n_on_ranks, n_back_on_ranks, n_decoded;

/* What a call goes without where somebody refuses options of it. */
typedef struct refusal {
    unsigned without;
    trait first, last;
} refusal;

/* The call went without what was refused, which is counted with `beside`; what is left is returned. */
static trait_set count_refused(const refusal *r, int n, unsigned said, trait_set traits, trait beside)
{
    trait_set left = traits;
    for (int i = 0; i < n; i++) {
        trait_set some = with(only(traits, r[i].first, r[i].last), beside);
        if (said & r[i].without) count(refused, &some);
        left = without(left, r[i].first, r[i].last);
    }
    return left;
}

/* Nobody went on, for that reason. */
static void count_reason(const char *said, const char *reason, trait of, const trait_set *traits, trait beside)
{
    trait_set some = with(only(*traits, of, of), beside);
    if (strstr(said, reason)) count(refused, &some);
}

static void count_ranks(const drawn_call *c, const call_fate *fate, trait_set traits)
{
    static const refusal refuses[] = {{RANKS_WITHOUT_SOME_ROWS, TRAIT_SOME_ROWS, TRAIT_INTERVALS},
                                      {RANKS_WITHOUT_ROWS_THAT_STAY, TRAIT_ROWS_STAY, TRAIT_ROWS_STAY},
                                      {RANKS_WITHOUT_KEPT_FIELDS, TRAIT_KEEP_FIELDS, TRAIT_KEEP_FIELDS}};
    traits = without(traits, TRAIT_FOLDS, TRAIT_FOLDS);
    traits = without(without(traits, TRAIT_EDGE_KEY, TRAIT_EDGE_VALUE), TRAIT_D_EDGE_KEY, TRAIT_D_EDGE_OUT);
    trait_set left = count_refused(refuses, 3, fate->ranks_without, traits, TRAIT_RANKS);
    if (fate->on_ranks == HGA_EUNSUPPORTED)
        count_reason(fate->refused_on_ranks, "are different tokens", TRAIT_CROSS, &traits, TRAIT_RANKS);
    if (fate->on_ranks) return;
    int back = c->options.gradient && !fate->back_on_ranks;
    left = with(back ? left : without_gradients(left), TRAIT_RANKS);
    count_met(&left);
    n_on_ranks++, n_back_on_ranks += back;
}

static void count_decoding(const call_fate *fate, trait_set traits)
{
    static const refusal refuses[] = {{DECODING_WITHOUT_GRADIENTS, TRAIT_GRADIENT, N_TRAITS - 1},
                                      {DECODING_WITHOUT_DROPOUT, TRAIT_DROPOUT, TRAIT_DROPOUT},
                                      {DECODING_WITHOUT_KEPT_FIELDS, TRAIT_KEEP_FIELDS, TRAIT_KEEP_FIELDS},
                                      {DECODING_WITHOUT_EDGE_BIAS, TRAIT_EDGE_BIAS, TRAIT_EDGE_BIAS_HEADS},
                                      {DECODING_WITHOUT_EDGE_KEY, TRAIT_EDGE_KEY, TRAIT_EDGE_KEY},
                                      {DECODING_WITHOUT_EDGE_VALUE, TRAIT_EDGE_VALUE, TRAIT_EDGE_VALUE},
                                      {DECODING_WITHOUT_SOME_ROWS, TRAIT_SOME_ROWS, TRAIT_INTERVALS},
                                      {DECODING_WITHOUT_TYPES, TRAIT_F16_TENSORS, TRAIT_BF16_TENSORS},
                                      {DECODING_WITHOUT_FOLDS, TRAIT_FOLDS, TRAIT_FOLDS},
                                      {DECODING_WITHOUT_RANKS, TRAIT_RANKS, TRAIT_RANKS}};
    enum { N_REFUSES = sizeof refuses / sizeof *refuses };
    if (fate->decoded) {
        count_reason(fate->refused_decoding, "HGA_IO_USER", TRAIT_USER_TENSORS, &traits, TRAIT_DECODING);
        count_reason(fate->refused_decoding, "HGA_IO_USER", TRAIT_D_USER, &traits, TRAIT_DECODING);
        count_reason(fate->refused_decoding, "is of self-attention", TRAIT_CROSS, &traits, TRAIT_DECODING);
        return;
    }
    trait_set left =
        count_refused(refuses, N_REFUSES, fate->decoding_without, with(traits, TRAIT_RANKS), TRAIT_DECODING);
    left = with(without(left, TRAIT_UPDATED, TRAIT_UPDATED), TRAIT_DECODING);
    count_met(&left);
    n_decoded++;
}

static void hold_call(drawn_call *call)
{
    in_hand = call, call->oracle = compare_with_slow;
    call_fate fate = call_hold(call);
    call_hold_on_ranks(call, &fate);
    trait_set traits = traits_of(call), bare = without_gradients(traits);
    int forward = fate.forward == HGA_OK, backward = forward && call->options.gradient && fate.backward == HGA_OK;
    if (forward) count_met(backward ? &traits : &bare);
    if (is_refused_together(call, &fate)) count(refused, &traits);
    traits = with(traits, TRAIT_ROWS_STAY);
    if (forward && refuses_slices(call)) count(refused, &traits);
    traits = traits_of(call);
    count_ranks(call, &fate, traits);
    if (forward) hold_slices(call), call_hold_decoding(call, &fate), count_decoding(&fate, traits);
    n_forward += forward, n_backward += backward, n_fast += backward && fate.fast;
    in_hand = NULL;
}

static void hold_drawn(uint64_t seed)
{
    choices c = choices_of_seed(seed);
    hga_graph *g;
    hga_program p;
    drawn_call call;
    seed_in_hand = seed, in_hand = NULL;
    if (draw_hierarchy(&c, NULL, &g, &p)) {
        call_draw(&c, g, &p, &call);
        hold_call(&call);
        call_clear(&call);
    }
    hga_graph_destroy(g);
}

static void drawn_calls_hold(void **state)
{
    (void)state;
    int n = thinned(CALLS);
    for (int i = 1; i <= n; i++) hold_drawn((uint64_t)i);
    print_message(
        "%d drawn: %lld executed, %lld compared with the oracle, %lld gone back from, %lld of them fast, %lld "
        "on ranks, %lld gone back from there, %lld token by token\n",
        n, (long long)n_forward, (long long)n_compared, (long long)n_backward, (long long)n_fast, (long long)n_on_ranks,
        (long long)n_back_on_ranks, (long long)n_decoded);
    assert_true(n_forward > n / 3 && n_compared > n / 8 && n_backward > n / 8 && n_fast > n / 16);
    assert_true(n_on_ranks > n / 4 && n_back_on_ranks > n / 10 && n_decoded > n / 20);
}

/* Calls that failed at 2722f5c: bfloat16 with dropout; a gradient that nobody wrote; addresses of nothing, of sides of
   tokens and of a scale's gradient; an old tape; bits that depended on strides, and on which rows were asked for.
   Later: keys that a rank read, and did not have, since none of its rows wants them (569); spans that were read behind
   the last node, of an empty top level (5303), and bits of no rows (20079), which sanitizers see. */
static void calls_that_found_something_hold(void **state)
{
    static const uint64_t seeds[] = {5361, 85, 1409, 3319, 5, 1368, 7461, 7890, 569, 5303, 20079};
    (void)state;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) hold_drawn(seeds[i]);
}

/* ---- calls that are asked for ---- */

enum { MOST_TRIES = 3000 };

/* Does the call of the seed have the options of the wish that it may have? Then it is held. */
static int hold_wished(uint64_t seed, const trait_set *wish)
{
    choices c = choices_of_seed(seed);
    hga_graph *g;
    hga_program p;
    drawn_call call;
    const trait_set own = without(without(*wish, TRAIT_RANKS, TRAIT_RANKS), TRAIT_DECODING, TRAIT_DECODING);
    int drawn = wish->has[TRAIT_DECODING] ? draw_causal(&c, seed % 3 == 0, &g, &p) : draw_hierarchy(&c, NULL, &g, &p),
        fits = 0;
    seed_in_hand = seed, in_hand = NULL;
    if (drawn) {
        call_draw_wish(&c, g, &p, wish, &call);
        trait_set traits = traits_of(&call);
        fits = traits_within(&own, &traits);
        if (fits) hold_call(&call);
        call_clear(&call);
    }
    hga_graph_destroy(g);
    return fits;
}

static int n_wished;

static void wish_for(const trait *some, int n, const int64_t *found)
{
    static uint64_t seed = 1000000;
    trait_set wish = {{0}};
    for (int i = 0; i < n; i++) wish.has[some[i]] = 1;
    for (int i = 0; i < MOST_TRIES && !*found; i++) n_wished += hold_wished(seed++, &wish);
}

/* Three options that no call had are asked for; and two, where a decoder is one of them. */
static void calls_that_are_asked_for_hold(void **state)
{
    (void)state;
    if (getenv("HGA_TEST_QUICK")) skip();
    for (int i = 0; i < N_TRIPLES_OF; i++)
        for (int j = 0; j < i; j++)
            for (int k = 0; k < j; k++) {
                const trait some[] = {triple_table[i], triple_table[j], triple_table[k]};
                if (triple_fate_of(some[0], some[1], some[2]) == PAIR_TESTED)
                    wish_for(some, 3, &met_three[some[0]][some[1]][some[2]]);
            }
    for (trait a = 0; a < N_TRAITS; a++) {
        const trait some[] = {TRAIT_DECODING, a};
        if (pair_fate_of(TRAIT_DECODING, a) == PAIR_TESTED) wish_for(some, 2, &met[TRAIT_DECODING][a]);
    }
    print_message("%d asked for\n", n_wished);
}

/* ---- which options have met ---- */

static void every_pair_of_options_is_tested_or_refused_or_cannot_meet(void **state)
{
    (void)state;
    int wrong = 0;
    if (getenv("HGA_TEST_QUICK")) skip();
    for (trait a = 0; a < N_TRAITS; a++)
        for (trait b = 0; b <= a; b++) {
            pair_fate fate = pair_fate_of(a, b);
            if ((fate == PAIR_TESTED) == (met[a][b] > 0) && (fate == PAIR_REFUSED) == (refused[a][b] > 0 && !met[a][b]))
                continue;
            print_error("%s and %s: met %lld times, refused %lld times\n", trait_table[a].name, trait_table[b].name,
                        (long long)met[a][b], (long long)refused[a][b]);
            wrong++;
        }
    assert_int_equal(wrong, 0);
}

static void every_three_of_some_options_are_tested_or_two_are_not(void **state)
{
    (void)state;
    int wrong = 0;
    if (getenv("HGA_TEST_QUICK")) skip();
    for (int i = 0; i < N_TRIPLES_OF; i++)
        for (int j = 0; j < i; j++)
            for (int k = 0; k < j; k++) {
                trait a = triple_table[i], b = triple_table[j], c = triple_table[k];
                if ((triple_fate_of(a, b, c) == PAIR_TESTED) == (met_three[a][b][c] > 0)) continue;
                print_error("%s, %s and %s: met %lld times\n", trait_table[a].name, trait_table[b].name,
                            trait_table[c].name, (long long)met_three[a][b][c]);
                wrong++;
            }
    assert_int_equal(wrong, 0);
}

/* ---- the table as a page ---- */

static const char letter[] = {[PAIR_TESTED] = 't', [PAIR_REFUSED] = 'r', [PAIR_NEVER] = '.'};

/* A row for each option, a letter for each that stands above it and for itself. */
static void write_pairs(FILE *to)
{
    for (trait a = 0; a < N_TRAITS; a++) {
        fprintf(to, "%-18s ", trait_table[a].name);
        for (trait b = 0; b <= a; b++) fputc(letter[pair_fate_of(a, b)], to);
        fputc('\n', to);
    }
}

static void write_why(FILE *to, const pair_row *p)
{
    fprintf(to, "- %s, %s", trait_table[p->a].name, trait_table[p->b].name);
    if (p->last) fprintf(to, " to %s", trait_table[p->last].name);
    fprintf(to, ": %s: %s\n", p->fate == PAIR_REFUSED ? "refused" : "cannot meet", p->why);
}

/* For each option its triangle: a row for each that stands above it, a letter for each above that. */
static void write_triples(FILE *to)
{
    for (int i = 2; i < N_TRIPLES_OF; i++) {
        fprintf(to, "%-18s", trait_table[triple_table[i]].name);
        for (int j = 1; j < i; j++) {
            fputc(' ', to);
            for (int k = 0; k < j; k++)
                fputc(letter[triple_fate_of(triple_table[i], triple_table[j], triple_table[k])], to);
        }
        fputc('\n', to);
    }
}

static void write_page(FILE *to)
{
    fprintf(to,
            "# Options that meet\n\nEvery option of a call, and which two of them are drawn together by test_drawn:\n"
            "t tested, r refused together, . cannot meet. The columns are the rows above, in their order.\n"
            "`test_drawn page` writes this page; a public member without a row fails test_drawn.\n\n```\n");
    write_pairs(to);
    fprintf(to, "```\n\n");
    for (int i = 0; i < N_PAIR_ROWS; i++) write_why(to, &pair_table[i]);
    fprintf(to,
            "\n## Three at a time\n\nOf these options every three are drawn together, but for those of which two are "
            "refused or cannot\nmeet, as above:");
    for (int i = 0; i < N_TRIPLES_OF; i++) fprintf(to, "%s %s", i ? "," : "", trait_table[triple_table[i]].name);
    fprintf(to,
            ".\nA row is an option; its groups of letters are the options before it from the second on, and the "
            "letters of a\ngroup the options before that one. So the first letter of all is of %s, %s and %s.\n\n"
            "```\n",
            trait_table[triple_table[2]].name, trait_table[triple_table[1]].name, trait_table[triple_table[0]].name);
    write_triples(to);
    fprintf(to, "```\n");
}

/* All of a file, for free(). */
static char *text_of(FILE *file)
{
    enum { MOST = 1 << 20 };
    char *text = memory(MOST, 1);
    assert_non_null(file);
    rewind(file);
    size_t n = fread(text, 1, MOST - 1, file);
    assert_true(n > 0 && n < MOST - 1);
    fclose(file);
    return text;
}

static void the_page_of_options_is_current(void **state)
{
    (void)state;
    FILE *now = tmpfile();
    assert_non_null(now);
    write_page(now);
    char *want = text_of(now), *got = text_of(fopen(HGA_TESTS "/OPTIONS.md", "r"));
    if (strcmp(got, want) != 0) fail_msg("tests/OPTIONS.md is not what `test_drawn page` writes");
    free(want), free(got);
}

/* ---- options as the headers have them ---- */

/* Is the member of the struct that of an option, or named as none? */
static int is_known_member(const char *member)
{
    size_t n = strlen(member);
    for (int i = 0; i < N_TRAITS; i++)
        for (const char *at = trait_table[i].members; at && *at; at = strchr(at, ' '), at = at ? at + 1 : NULL)
            if (strncmp(at, member, n) == 0 && (at[n] == ' ' || at[n] == 0)) return 1;
    for (int i = 0; trait_others[i]; i++)
        if (strncmp(trait_others[i], member, n) == 0 && trait_others[i][n] == ' ') return 1;
    return 0;
}

/* Blanks in place of comments. */
static void blank_comments(char *text)
{
    for (char *from = strstr(text, "/*"); from; from = strstr(from, "/*")) {
        char *end = strstr(from, "*/");
        assert_non_null(end);
        memset(from, ' ', (size_t)(end + 2 - from));
    }
}

static int is_letter(char x)
{
    return (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z') || x == '_' || (x >= '0' && x <= '9');
}

/* The name that a declarator ends in, before its brackets; returns its length. */
static size_t name_of(const char *from, const char *end, const char **name)
{
    const char *bracket = memchr(from, '[', (size_t)(end - from));
    if (bracket) end = bracket;
    while (end > from && !is_letter(end[-1])) end--;
    const char *at = end;
    while (at > from && is_letter(at[-1])) at--;
    *name = at;
    return (size_t)(end - at);
}

/* Every member of `typedef struct NAME {` in the header has a place among the options; returns how many there are. */
static int check_struct(const char *header, const char *name)
{
    char start[64], end[64], member[128];
    int n = 0;
    char *text = text_of(fopen(header, "r"));
    blank_comments(text);
    snprintf(start, sizeof start, "typedef struct %s {", name);
    const char *at = strstr(text, start), *last;
    snprintf(end, sizeof end, "} %s;", name);
    const char *close = at ? strstr(at, end) : NULL;
    if (!close) fail_msg("%s has no struct %s", header, name);
    for (at += strlen(start); (last = strpbrk(at, ",;")) && last < close; at = last + 1) {
        const char *word;
        size_t length = name_of(at, last, &word);
        if (!length) continue;
        snprintf(member, sizeof member, "%s.%.*s", name, (int)length, word);
        if (!is_known_member(member)) fail_msg("%s has no row in tests/draws/traits.c", member);
        n++;
    }
    free(text);
    return n;
}

static void check_row(const hga_call_row *row)
{
    char input[64], wanted[64];
    snprintf(input, sizeof input, "hga_io.%s", row->name);
    snprintf(wanted, sizeof wanted, "hga_grad_io.d_%s", row->name);
    if (!(row->is & HGA_CALL_OF_GRAPH) && !is_known_member(input)) fail_msg("%s: no row in traits.c", input);
    if (row->is & HGA_CALL_GRADIENT && !is_known_member(wanted)) fail_msg("%s: no row in traits.c", wanted);
}

static void every_public_member_is_an_option_or_none(void **state)
{
    (void)state;
    assert_in_range(check_struct(HGA_PLAN_HEADER, "hga_shape"), 6, 64);
    assert_in_range(check_struct(HGA_PLAN_HEADER, "hga_options"), 16, 64);
    assert_in_range(check_struct(HGA_PLAN_HEADER, "hga_tensor"), 5, 64);
    assert_in_range(check_struct(HGA_PLAN_HEADER, "hga_io"), 13, 64);
    assert_in_range(check_struct(HGA_CALL_HEADER, "hga_table"), 4, 64);
    assert_in_range(check_struct(HGA_PLAN_HEADER, "hga_rows"), 3, 64);
    assert_in_range(check_struct(HGA_PLAN_HEADER, "hga_interval"), 2, 64);
    assert_in_range(check_struct(HGA_GRADIENT_HEADER, "hga_grad_io"), 9, 64);
    assert_in_range(check_struct(HGA_DECODE_HEADER, "hga_decode_options"), 6, 64);
    assert_false(is_known_member("hga_options.an_option_of_tomorrow"));
    for (const hga_call_row *row = hga_call_tables(); row->name; row++) check_row(row);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_calls_hold),
        cmocka_unit_test(calls_that_found_something_hold),
        cmocka_unit_test(calls_that_are_asked_for_hold),
        cmocka_unit_test(every_pair_of_options_is_tested_or_refused_or_cannot_meet),
        cmocka_unit_test(every_three_of_some_options_are_tested_or_two_are_not),
        cmocka_unit_test(the_page_of_options_is_current),
        cmocka_unit_test(every_public_member_is_an_option_or_none),
    };
    if (argc > 1 && strcmp(argv[1], "page") == 0) return write_page(stdout), 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
