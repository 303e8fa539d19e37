/* test_layouts.c: a row's bits depend on numbers, never on where the caller has them: strides, gaps, heads outermost,
   and numbers of 16 bits that are the same numbers. */
#include "engine_cases.h"
#include "random_program.h"
#include "halves.h"

#include "filling.h"
#include "kernels.h"
#include "machine.h"

/* A tensor of the caller's in another place. */
typedef struct moved {
    hga_tensor t;
    int64_t rows;
    hga_id heads, columns;
} moved;

enum { PACKED, GAPS, HEADS_FIRST, N_PLACES };

static moved place(int64_t rows, hga_id heads, hga_id columns, int how, hga_dtype type)
{
    moved m = {{.rows = rows, .dtype = type}, rows, heads, columns};
    if (how == GAPS) m.t.head_stride = columns + 3, m.t.row_stride = heads * (columns + 3) + 5;
    if (how == HEADS_FIRST) m.t.row_stride = columns + 1, m.t.head_stride = rows * (columns + 1) + 7;
    int64_t capacity = how == HEADS_FIRST ? heads * (rows * (columns + 1) + 7) : rows * (heads * (columns + 3) + 5);
    m.t.data = memory(capacity + 1, sizeof(float));
    return m;
}

static int64_t offset_of(const moved *m, int64_t i, hga_id h)
{
    int64_t head = m->t.head_stride ? m->t.head_stride : m->columns,
            row = m->t.row_stride ? m->t.row_stride : (int64_t)m->heads * m->columns;
    return i * row + h * head;
}

static moved move_in(const hga_tensor *from, int64_t rows, hga_id heads, hga_id columns, int how, hga_dtype type)
{
    moved m = place(rows, heads, columns, how, type);
    const float *x = from->data;
    for (int64_t i = 0; i < rows; i++)
        for (hga_id h = 0; h < heads; h++, x += columns)
            if (type == HGA_F32)
                memcpy((float *)m.t.data + offset_of(&m, i, h), x, (size_t)columns * sizeof *x);
            else
                narrow_row(type == HGA_F16, x, (uint16_t *)m.t.data + offset_of(&m, i, h), columns);
    return m;
}

static void assert_moved(const char *what, const moved *m, const float *want)
{
    for (int64_t i = 0; i < m->rows; i++)
        for (hga_id h = 0; h < m->heads; h++, want += m->columns)
            assert_same_bits(what, (const float *)m->t.data + offset_of(m, i, h), want, m->columns);
}

/* Numbers that are the same in 8 bits of mantissa. */
static void shorten(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] = (float)(int)(x[i] * 32) / 32;
}

static void shorten_inputs(problem *p)
{
    hga_id kv = p->shape.n_kv_heads ? p->shape.n_kv_heads : p->shape.n_heads,
           dim_v = p->shape.dim_v ? p->shape.dim_v : p->shape.dim;
    shorten(p->io.query.data, p->n_query * p->shape.n_heads * p->shape.dim);
    shorten(p->io.key.data, p->n_key * kv * p->shape.dim);
    shorten(p->io.value.data, p->n_value * kv * dim_v);
}

/* How each of query, key, value, output and log-sum-exp lies, and the types of the first three. */
typedef struct layout {
    int how[5];
    hga_dtype type[3];
} layout;

static const layout layouts[] = {
    {{GAPS, GAPS, GAPS, GAPS, GAPS}, {HGA_F32, HGA_F32, HGA_F32}},
    {{HEADS_FIRST, HEADS_FIRST, HEADS_FIRST, HEADS_FIRST, HEADS_FIRST}, {HGA_F32, HGA_F32, HGA_F32}},
    {{PACKED, GAPS, PACKED, HEADS_FIRST, PACKED}, {HGA_F32, HGA_F32, HGA_F32}},
    {{HEADS_FIRST, PACKED, GAPS, PACKED, GAPS}, {HGA_F32, HGA_F32, HGA_F32}},
    {{PACKED, PACKED, PACKED, PACKED, PACKED}, {HGA_F16, HGA_BF16, HGA_F16}},
    {{GAPS, HEADS_FIRST, GAPS, GAPS, PACKED}, {HGA_BF16, HGA_F32, HGA_BF16}},
};
enum { N_LAYOUTS = sizeof layouts / sizeof *layouts };

static void check_layouts(problem *p, const hga_options *options)
{
    hga_id heads = p->shape.n_heads, kv = p->shape.n_kv_heads ? p->shape.n_kv_heads : heads, dim = p->shape.dim,
           dim_v = p->shape.dim_v ? p->shape.dim_v : dim;
    float *want_lse, *want = problem_out(p, options, &want_lse);
    hga_io packed = p->io;
    for (int i = 0; i < N_LAYOUTS; i++) {
        char what[200];
        const layout *l = &layouts[i];
        moved q = move_in(&packed.query, p->n_query, heads, dim, l->how[0], l->type[0]),
              k = move_in(&packed.key, p->n_key, kv, dim, l->how[1], l->type[1]),
              v = move_in(&packed.value, p->n_value, kv, dim_v, l->how[2], l->type[2]),
              o = place(p->n_out, heads, dim_v, l->how[3], HGA_F32),
              lse = place(p->n_out, heads, 1, l->how[4], HGA_F32);
        hga_io io = packed;
        if (p->n_query) io.query = q.t;
        if (p->n_key) io.key = k.t;
        if (p->n_value) io.value = v.t;
        io.out = o.t;
        if (p->program.has_lse) io.lse = lse.t;
        snprintf(what, sizeof what, "%s, %d heads of %d, layout %d, generic %d, precision %d, %s", p->name, heads, dim,
                 i, options->generic, (int)options->precision, options->isa ? options->isa : "best");
        assert_ok(hga_attention(p->graph, &p->program, &p->shape, options, &io));
        assert_moved(what, &o, want);
        if (p->program.has_lse) assert_moved(what, &lse, want_lse);
        free(q.t.data), free(k.t.data), free(v.t.data), free(o.t.data), free(lse.t.data);
    }
    free(want), free(want_lse);
}

static const hga_shape many[] = {
    {.n_heads = 4, .dim = 16, .pos_dim = 2},
    {.n_heads = 6, .n_kv_heads = 2, .dim = 17, .dim_v = 5, .pos_dim = 3},
    {.n_heads = 8, .n_kv_heads = 4, .dim = 32, .dim_v = 24, .pos_dim = 3},
    {.n_heads = 4, .n_kv_heads = 1, .dim = 8, .pos_dim = 3},
    {.n_heads = 2, .dim = 40, .pos_dim = 1},
};
enum { N_MANY = sizeof many / sizeof *many };

static void check_ways(problem *p, int i)
{
    char isa[32];
    static const hga_options options[] = {{.threads = 2},
                                          {.threads = 1, .precision = HGA_PRECISION_BF16},
                                          {.threads = 2, .cut_edges = 32},
                                          {.threads = 2, .dropout = 0.2f},
                                          {.threads = 1, .generic = 1}};
    shorten_inputs(p);
    hga_options o = options[i % 5];
    check_layouts(p, &options[0]);
    if (!isa_name(i % 3, isa, sizeof isa)) isa_name(0, isa, sizeof isa);
    o.isa = isa;
    check_layouts(p, &o);
}

static void layouts_change_no_bit(void **state)
{
    (void)state;
    for (int i = 0; i < 3 * n_variants(); i++) {
        problem p;
        if (passed_over(i)) continue;
        variant_build(i / 3, 120 + 7 * (hga_id)(i % 3), 40 + (uint64_t)i, &many[i % N_MANY], &p);
        if (i % 4 == 3 && find_stage(&p.program, HGA_SCORE)) problem_fill_tables(&p, 5, i % 8 == 3, 1, 0);
        check_ways(&p, i);
        problem_clear(&p);
    }
}

static void layouts_of_random_programs_change_no_bit(void **state)
{
    (void)state;
    for (int i = 0; i < N_PROGRAMS; i++)
        for (unsigned with = 1; with < 64; with += 5) {
            problem p;
            if (passed_over(i + (int)with)) continue;
            random_problem(i, with, 50 + (hga_id)with, with * 10 + (unsigned)i, many[with % N_MANY], &p);
            if (!find_stage(&p.program, HGA_SCORE)) keep_sums_small(&p);
            check_ways(&p, i + (int)with);
            problem_clear(&p);
        }
}

/* A sum's column is its numbers' alone: as one of many, or of few, whatever vectors they fill. */
static void a_columns_sum_does_not_hang_on_its_neighbours(void **state)
{
    enum { ROWS = 9, COLUMNS = 256 };
    (void)state;
    char isa[32];
    float *x = random_floats(1, 2, ROWS * COLUMNS), *w = random_floats(2, 1, ROWS);
    const float *row[ROWS];
    for (int r = 0; r < ROWS; r++) row[r] = x + (ptrdiff_t)r * COLUMNS;
    for (int i = 0; isa_name(i, isa, sizeof isa); i++) {
        const kernel_table *k;
        assert_ok(isa_kernels(isa, &k));
        for (hga_id n = 0; n < ROWS; n++)
            for (hga_id part = 1; part < 150; part += 1 + part / 8) {
                float all[2][COLUMNS], parts[2][COLUMNS];
                for (int s = 0; s < 2; s++) memcpy(all[s], x, sizeof all[s]), memcpy(parts[s], x, sizeof parts[s]);
                k->sum(n, row, 0, w, COLUMNS, all[0]);
                k->weigh(n, row, 0, w, 0.3f, COLUMNS, all[1]);
                for (hga_id at = 0, columns; at < COLUMNS; at += columns) {
                    columns = COLUMNS - at < part ? COLUMNS - at : part;
                    k->sum(n, row, at, w, columns, parts[0] + at);
                    k->weigh(n, row, at, w, 0.3f, columns, parts[1] + at);
                }
                assert_same_bits(isa, parts[0], all[0], COLUMNS);
                assert_same_bits(isa, parts[1], all[1], COLUMNS);
            }
    }
    free(x), free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_columns_sum_does_not_hang_on_its_neighbours),
        cmocka_unit_test(layouts_change_no_bit),
        cmocka_unit_test(layouts_of_random_programs_change_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
