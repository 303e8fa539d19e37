/* fenwick.c: the partition of the past of Fenwick trees, as in log-linear attention (Guo et al. 2025). Level l has the
   complete spans of 2^l tokens. Token t sees itself and, for every set bit l of t, the span that ends where its own
   number with the bits up to l cleared begins: node (t >> l) - 1 of level l. These spans tile 0 .. t - 1, so every
   earlier token is seen through exactly one node. A span is complete before any token sees it: causal, and the same for
   every longer text with this prefix. */
#include "hga_builders.h"
#include "longer.h"

enum { MAX_LEVELS = 31 };

/* Levels that some token sees, and the first node of each. */
typedef struct spans {
    hga_id n_tokens, n_levels;
    hga_id first[MAX_LEVELS];
} spans;

static hga_status check_fenwick(const hga_fenwick *p)
{
    if (p->n_tokens < 1) return hga_fail(HGA_EINVAL, "tokens: %d, at least 1 is needed", p->n_tokens);
    if (p->n_tokens > INT32_MAX / 2)
        return hga_fail(HGA_EOVERFLOW, "tokens: %d and their spans do not fit a 32-bit id", p->n_tokens);
    return HGA_OK;
}

/* n >> l nodes on level l, while the last token has a bit that high; a span's children are its two halves */
static hga_status add_spans(hga_builder *b, spans *s, int families)
{
    hga_status st = HGA_OK;
    for (hga_id l = 0; l == 0 || (s->n_tokens - 1) >> l > 0; l++, s->n_levels++) {
        hga_id n = s->n_tokens >> l;
        HGA_TRY(hga_builder_add_level(b, n, &s->first[l]));
        if (l > 0 && families) HGA_TRY(hga_builder_set_families(b, s->first[l], s->first[l - 1], 2 * n, 2));
    }
done:
    return st;
}

/* On level 0 pairs of tokens: both see the first, the second also itself. Above, the tokens of every second span see
   the previous span. */
static hga_status add_past(hga_builder *b, hga_id past, const spans *s)
{
    hga_status st = HGA_OK;
    hga_id n = s->n_tokens;
    hga_staircase pairs = {.n_rows = 2, .row_step = 2, .row_end = n, .shape = HGA_LOWER};
    pairs.n_cols = 2, pairs.col_step = 2, pairs.col_end = n;
    HGA_TRY(hga_builder_add_staircase(b, past, &pairs));
    for (hga_id l = 1; l < s->n_levels; l++) {
        int64_t width = (int64_t)1 << l;
        hga_staircase span = {.row = width, .n_rows = width, .row_step = 2 * width, .row_begin = width, .row_end = n};
        span.col = span.col_begin = s->first[l], span.n_cols = 1, span.col_step = 2;
        span.col_end = s->first[l] + (n >> l);
        HGA_TRY(hga_builder_add_staircase(b, past, &span));
    }
done:
    return st;
}

/* Levels and relation over more tokens. */
static hga_status draw_more_fenwick(hga_builder *b, const void *parameters, hga_id n_tokens, hga_id there)
{
    hga_status st = HGA_OK;
    hga_id past;
    spans s = {.n_tokens = n_tokens};
    (void)parameters, (void)there;
    HGA_TRY(add_spans(b, &s, 0));
    HGA_TRY(hga_builder_add_relation(b, "past", &past));
    HGA_TRY(add_past(b, past, &s));
done:
    return st;
}

/* coarsen keys and values, attend by mass */
static hga_status fenwick_program(hga_id past, hga_program *program)
{
    hga_status st = HGA_OK;
    hga_id query, key, value, out;
    hga_program_init(program);
    HGA_TRY(hga_program_add_field(program, "query", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES,
                                  &query));
    HGA_TRY(hga_program_add_field(program, "key", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_NODES, &key));
    HGA_TRY(
        hga_program_add_field(program, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_NODES, &value));
    HGA_TRY(
        hga_program_add_field(program, "out", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_QUERIES, &out));
    HGA_TRY(hga_program_coarsen(program, key));
    HGA_TRY(hga_program_coarsen(program, value));
    HGA_TRY(hga_program_attend(program, past, query, key, value, out, 1));
    program->has_lse = 1;
done:
    return st;
}

hga_status hga_build_fenwick(const hga_fenwick *p, hga_graph **g, hga_program *program)
{
    hga_status st = HGA_OK;
    hga_builder *b = NULL;
    hga_id past;
    spans s = {.n_tokens = p->n_tokens};
    *g = NULL;
    HGA_TRY(hga_check_reserved("hga_fenwick", p->reserved, sizeof p->reserved));
    HGA_TRY(check_fenwick(p));
    HGA_TRY(hga_builder_create(p->allocator, &b));
    HGA_TRY(add_spans(b, &s, 1));
    HGA_TRY(hga_builder_set_claims(b, HGA_CLAIM_CAUSAL | HGA_CLAIM_SINGLE | HGA_CLAIM_COMPLETE));
    HGA_TRY(hga_builder_add_relation(b, "past", &past));
    HGA_TRY(add_past(b, past, &s));
    HGA_TRY(draw_longer(b, p->allocator, p->n_tokens, s.n_levels ? (int64_t)1 << (s.n_levels - 1) : 1,
                        draw_more_fenwick, p));
    HGA_TRY(fenwick_program(past, program));
    HGA_TRY(hga_builder_finish(b, g));
done:
    hga_builder_destroy(b);
    return st;
}
