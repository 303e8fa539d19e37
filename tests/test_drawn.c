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

static int64_t met[N_TRAITS][N_TRAITS], refused[N_TRAITS][N_TRAITS];

static void count(int64_t (*pairs)[N_TRAITS], uint64_t traits)
{
    for (int a = 0; a < N_TRAITS; a++)
        for (int b = 0; b < N_TRAITS; b++) pairs[a][b] += traits >> a & 1 && traits >> b & 1;
}

/* The traits that are there because gradients are. */
static uint64_t without_gradients(uint64_t t) { return t & ((UINT64_C(1) << TRAIT_GRADIENT) - 1); }

/* keep_fields and rows of the output: refused, and for that reason. */
static int is_refused_together(const drawn_call *c, const call_fate *fate)
{
    if (!c->options.keep_fields || !c->options.ranges) return 0;
    if (fate->forward == HGA_OK) draw_fail("keep_fields and ranges are accepted together");
    return fate->forward == HGA_EUNSUPPORTED && strstr(fate->refused, "keep_fields") != NULL;
}

/* Slices with gradients or keep_fields: refused, and for that reason. */
static int refuses_slices(const drawn_call *c)
{
    hga_plan *plan = NULL;
    hga_options o = c->options;
    if (!o.gradient && !o.keep_fields) return 0;
    o.slices = 1;
    hga_status st = hga_plan_create(c->graph, c->program, &c->shape, &o, &plan);
    hga_plan_destroy(plan);
    if (!st) draw_fail("slices are accepted with gradients or keep_fields");
    const char *says = hga_error_detail();
    return st == HGA_EUNSUPPORTED && (strstr(says, "slices: keep_fields") || strstr(says, "slices: a gradient"));
}

static int64_t n_forward, n_backward, n_fast, n_on_ranks, n_back_on_ranks;

/* On ranks a call goes without the options that ranks refuse. */
static void count_ranks(const drawn_call *c, const call_fate *fate, uint64_t traits)
{
    static const struct {
        unsigned without;
        uint64_t traits;
    } refuses[] = {{RANKS_WITHOUT_RANGES, UINT64_C(1) << TRAIT_RANGES | UINT64_C(1) << TRAIT_LISTED_ROWS},
                   {RANKS_WITHOUT_SLICES, UINT64_C(1) << TRAIT_SLICES},
                   {RANKS_WITHOUT_KEPT_FIELDS, UINT64_C(1) << TRAIT_KEEP_FIELDS}};
    const uint64_t on_ranks = UINT64_C(1) << TRAIT_RANKS;
    uint64_t alone = 0;
    for (int i = 0; i < 3; i++) {
        if (fate->ranks_without & refuses[i].without) count(refused, (traits & refuses[i].traits) | on_ranks);
        alone |= refuses[i].traits;
    }
    const uint64_t cross = UINT64_C(1) << TRAIT_CROSS;
    if (fate->on_ranks == HGA_EUNSUPPORTED && strstr(fate->refused_on_ranks, "are different tokens"))
        count(refused, (traits & cross) | on_ranks);
    if (fate->on_ranks) return;
    int back = c->options.gradient && !fate->back_on_ranks;
    count(met, ((back ? traits : without_gradients(traits)) & ~alone) | on_ranks);
    n_on_ranks++, n_back_on_ranks += back;
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
        in_hand = &call, call.oracle = compare_with_slow;
        call_fate fate = call_hold(&call);
        call_hold_on_ranks(&call, &fate);
        uint64_t traits = traits_of(&call);
        int forward = fate.forward == HGA_OK, backward = forward && call.options.gradient && fate.backward == HGA_OK;
        if (forward) count(met, backward ? traits : without_gradients(traits));
        if (is_refused_together(&call, &fate)) count(refused, traits);
        if (forward && refuses_slices(&call)) count(refused, traits | UINT64_C(1) << TRAIT_SLICES);
        count_ranks(&call, &fate, traits);
        n_forward += forward, n_backward += backward, n_fast += backward && fate.fast;
        in_hand = NULL;
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
        "on ranks, %lld gone back from there\n",
        n, (long long)n_forward, (long long)n_compared, (long long)n_backward, (long long)n_fast, (long long)n_on_ranks,
        (long long)n_back_on_ranks);
    assert_true(n_forward > n / 3 && n_compared > n / 8 && n_backward > n / 8 && n_fast > n / 16);
    assert_true(n_on_ranks > n / 4 && n_back_on_ranks > n / 10);
}

/* Calls that failed at 2722f5c: bfloat16 with dropout; a gradient that nobody wrote; addresses of nothing, of sides of
   tokens and of a scale's gradient; an old tape; bits that hung on strides, and on which rows were asked for. Later:
   keys that a rank read, and did not have, since none of its rows wants them (569). */
static void calls_that_found_something_hold(void **state)
{
    static const uint64_t seeds[] = {5361, 85, 1409, 3319, 5, 1368, 7461, 7890, 569};
    (void)state;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) hold_drawn(seeds[i]);
}

/* ---- which options have met ---- */

static void every_pair_of_options_is_tested_or_refused_or_cannot_meet(void **state)
{
    (void)state;
    int wrong = 0;
    if (getenv("HGA_TEST_QUICK")) skip();
    for (trait a = 0; a < N_TRAITS; a++)
        for (trait b = 0; b <= a; b++) {
            const pair_row *row = pair_find(a, b);
            pair_fate fate = row ? row->fate : PAIR_TESTED;
            if ((fate == PAIR_TESTED) == (met[a][b] > 0) && (fate == PAIR_REFUSED) == (refused[a][b] > 0 && !met[a][b]))
                continue;
            print_error("%s and %s: met %lld times, refused %lld times\n", trait_table[a].name, trait_table[b].name,
                        (long long)met[a][b], (long long)refused[a][b]);
            wrong++;
        }
    assert_int_equal(wrong, 0);
}

/* ---- the table as a page ---- */

static const char letter[] = {[PAIR_TESTED] = 't', [PAIR_REFUSED] = 'r', [PAIR_NEVER] = '.'};

/* A row for each option, a letter for each that stands above it and for itself. */
static void write_page(FILE *to)
{
    fprintf(to,
            "# Options that meet\n\nEvery option of a call, and which two of them are drawn together by test_drawn:\n"
            "t tested, r refused together, . cannot meet. The columns are the rows above, in their order.\n"
            "`test_drawn page` writes this page; a public member without a row fails test_drawn.\n\n```\n");
    for (trait a = 0; a < N_TRAITS; a++) {
        fprintf(to, "%-18s ", trait_table[a].name);
        for (trait b = 0; b <= a; b++) {
            const pair_row *row = pair_find(a, b);
            fputc(letter[row ? row->fate : PAIR_TESTED], to);
        }
        fputc('\n', to);
    }
    fprintf(to, "```\n\n");
    for (int i = 0; i < N_PAIR_ROWS; i++)
        fprintf(to, "- %s, %s: %s: %s\n", trait_table[pair_table[i].a].name, trait_table[pair_table[i].b].name,
                pair_table[i].fate == PAIR_REFUSED ? "refused" : "cannot meet", pair_table[i].why);
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
    char start[64], member[128];
    int n = 0;
    char *text = text_of(fopen(header, "r"));
    blank_comments(text);
    snprintf(start, sizeof start, "typedef struct %s {", name);
    const char *at = strstr(text, start), *close = at ? strchr(at, '}') : NULL, *last;
    if (!close) fail_msg("%s has no struct %s", header, name);
    for (at += strlen(start); (last = strpbrk(at, ",;")) && last < close; at = last + 1) {
        const char *word;
        size_t length = name_of(at, last, &word);
        snprintf(member, sizeof member, "%s.%.*s", name, (int)length, word);
        if (!is_known_member(member)) fail_msg("%s has no row in tests/draws/traits.c", member);
        n++;
    }
    free(text);
    return n;
}

static void every_public_member_is_an_option_or_none(void **state)
{
    (void)state;
    assert_in_range(check_struct(HGA_PLAN_HEADER, "hga_shape"), 6, 64);
    assert_in_range(check_struct(HGA_PLAN_HEADER, "hga_options"), 17, 64);
    assert_in_range(check_struct(HGA_PLAN_HEADER, "hga_tensor"), 5, 64);
    assert_in_range(check_struct(HGA_PLAN_HEADER, "hga_io"), 24, 64);
    assert_in_range(check_struct(HGA_PLAN_HEADER, "hga_modifiers"), 3, 64);
    assert_in_range(check_struct(HGA_PLAN_HEADER, "hga_rows"), 3, 64);
    assert_in_range(check_struct(HGA_PLAN_HEADER, "hga_interval"), 2, 64);
    assert_in_range(check_struct(HGA_GRADIENT_HEADER, "hga_grad_io"), 15, 64);
    assert_false(is_known_member("hga_options.an_option_of_tomorrow"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_calls_hold),
        cmocka_unit_test(calls_that_found_something_hold),
        cmocka_unit_test(every_pair_of_options_is_tested_or_refused_or_cannot_meet),
        cmocka_unit_test(the_page_of_options_is_current),
        cmocka_unit_test(every_public_member_is_an_option_or_none),
    };
    if (argc > 1 && strcmp(argv[1], "page") == 0) return write_page(stdout), 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
