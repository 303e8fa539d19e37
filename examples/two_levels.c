/* A hierarchy of two levels to copy: tokens in sections of 8. A token attends to its own section token by token, and to
   every other section through its mean. */
#include <hga.h>
#include <stdio.h>

enum { N = 40, EACH = 8, DIM = 4 };

static hga_status build_sections(hga_id n, hga_id each, hga_graph **g, hga_program *p)
{
    hga_status st;
    hga_builder *b = NULL;
    hga_id section, near, n_sections = (n + each - 1) / each, query, key, value, out;
    HGA_TRY(hga_builder_create(NULL, &b));
    HGA_TRY(hga_builder_add_level(b, n, NULL));
    HGA_TRY(hga_builder_add_level(b, n_sections, &section));
    HGA_TRY(hga_builder_set_families(b, section, 0, n, each));
    HGA_TRY(hga_builder_add_relation(b, "near", &near));
    for (hga_id s = 0; s < n_sections; s++) {
        hga_id first = s * each, size = first + each < n ? each : n - first;
        HGA_TRY(hga_builder_add_block(b, near, first, size, first, size, 0));
        HGA_TRY(hga_builder_add_block(b, near, first, size, section, s, 0));
        HGA_TRY(hga_builder_add_block(b, near, first, size, section + s + 1, n_sections - s - 1, 0));
    }
    HGA_TRY(hga_builder_set_claims(b, HGA_CLAIM_SINGLE | HGA_CLAIM_COMPLETE));
    HGA_TRY(hga_builder_finish(b, g));
    hga_program_init(p);
    HGA_TRY(hga_program_add_field(p, "query", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES, &query));
    HGA_TRY(hga_program_add_field(p, "key", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_NODES, &key));
    HGA_TRY(hga_program_add_field(p, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_NODES, &value));
    HGA_TRY(hga_program_add_field(p, "out", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES, &out));
    HGA_TRY(hga_program_coarsen(p, key));
    HGA_TRY(hga_program_coarsen(p, value));
    HGA_TRY(hga_program_attend(p, near, query, key, value, out, 1));
done:
    hga_builder_destroy(b);
    return st;
}

/* with equal scores everybody gets the mean of all values, whichever way it goes */
int main(void)
{
    static float zero[N * DIM], v[N * DIM], o[N * DIM];
    hga_status st;
    hga_graph *g = NULL;
    hga_program p;
    hga_io io = {.query = {.data = zero, .rows = N}, .key = {.data = zero, .rows = N}};
    io.value.data = v, io.value.rows = N, io.out.data = o, io.out.rows = N;
    for (int i = 0; i < N; i++) v[i * DIM] = (float)i;
    HGA_TRY(build_sections(N, EACH, &g, &p));
    HGA_TRY(hga_program_write_file(&p, g, "two_levels.json"));
    HGA_TRY(hga_attention(g, &p, &(hga_shape){.n_heads = 1, .dim = DIM}, NULL, &io));
    printf("token 0 gets %.3f of 0 .. %d\n", (double)o[0], N - 1);
done:
    if (st) fprintf(stderr, "two_levels: %s: %s\n", hga_status_name(st), hga_error_detail());
    hga_graph_destroy(g);
    return st || o[0] < 19.49f || o[0] > 19.51f;
}
