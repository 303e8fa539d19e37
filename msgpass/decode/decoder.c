/* decoder.c: a decoder, made from a plan whose rows stay; sizes of caches before there are any. */
#include "choose.h"
#include "program_check.h"
#include "storage.h"

static const hga_binding bindings[] = {HGA_IO_QUERY, HGA_IO_KEY, HGA_IO_VALUE, HGA_IO_OUT};
enum { N_BINDINGS = sizeof bindings / sizeof *bindings };

/* Refuses options without meaning token by token, and invalid pages. */
static hga_status check_options(const hga_decode_options *o)
{
    hga_status st = hga_check_reserved("hga_decode_options", o->reserved, sizeof o->reserved);
    if (!st && o->plan.ranks) st = hga_fail(HGA_EUNSUPPORTED, "a decoder is of one process, without options.ranks");
    const char *refused = o->plan.gradient ? "gradient" : NULL;
    if (o->plan.dropout != 0) refused = "dropout";
    if (o->plan.keep_fields) refused = "keep_fields";
    if (st) return st;
    if (refused) return hga_fail(HGA_EUNSUPPORTED, "decoding: option %s has no meaning token by token", refused);
    if (o->rollback < 0) return hga_fail(HGA_EINVAL, "rollback %d is negative", o->rollback);
    if (o->page_rows < 0 || o->page_rows > 64 || (o->page_rows & (o->page_rows - 1)))
        return hga_fail(HGA_EINVAL, "page_rows %d is not a power of two up to 64", o->page_rows);
    if (o->page_type != HGA_F32 && o->page_type != HGA_BF16)
        return hga_fail(HGA_EUNSUPPORTED, "page_type %d: pages are of HGA_F32 or HGA_BF16", (int)o->page_type);
    return HGA_OK;
}

/* Refuses queries and keys that are different tokens, and user tensors. */
static hga_status check_tokens(const hga_graph *g, const hga_program *p)
{
    hga_nodes nodes = hga_graph_nodes(g);
    if (nodes.query_first != nodes.key_first || nodes.n_queries != nodes.n_keys)
        return hga_fail(HGA_EUNSUPPORTED, "decoding is of self-attention: queries %d + %d, keys %d + %d",
                        nodes.query_first, nodes.n_queries, nodes.key_first, nodes.n_keys);
    for (hga_id f = 1; f <= p->n_fields; f++)
        if (p->field[f].binding == HGA_IO_USER)
            return hga_fail(HGA_EUNSUPPORTED, "decoding: field %s is a tensor of HGA_IO_USER", p->field[f].name);
    return HGA_OK;
}

/* Finds the tensors' rows, which must be the same for all. */
static hga_status find_tensors(hga_decoder *d)
{
    const field_storage *out = &d->plan->fields.storage[program_bound(&d->plan->program, HGA_IO_OUT)];
    d->io_first = out->io_first, d->io_n = out->io_n;
    if (!d->io_n && d->plan->nodes.n_queries)
        return hga_fail(HGA_EUNSUPPORTED, "decoding: field %s has no rows on this graph",
                        d->plan->program.field[program_bound(&d->plan->program, HGA_IO_OUT)].name);
    for (int i = 0; i < N_BINDINGS; i++) {
        hga_id f = program_bound(&d->plan->program, bindings[i]);
        const field_storage *h = &d->plan->fields.storage[f];
        if (f && (h->io_first != d->io_first || h->io_n != d->io_n))
            return hga_fail(HGA_EUNSUPPORTED, "decoding: fields %s and %s are tensors of different rows",
                            d->plan->program.field[f].name,
                            d->plan->program.field[program_bound(&d->plan->program, HGA_IO_OUT)].name);
    }
    return HGA_OK;
}

/* Computes the floats and bytes of a row of each kind, and the bytes of its pages. */
static void measure_pages(hga_decoder *d)
{
    const hga_program *p = &d->plan->program;
    hga_id rows = d->options.page_rows ? d->options.page_rows : 16;
    while (1 << d->page_shift < rows) d->page_shift++;
    for (hga_id kind = 0; kind < N_BLOCK_KINDS; kind++) {
        if (!tokens_of_block(d, kind)) continue;
        d->row_floats[kind] = appended_floats(&d->how, &d->plan->shape);
        d->row_bytes[kind] = d->row_floats[kind] * (int64_t)sizeof(float);
        d->page_bytes[kind] = PAGE_HEAD + rows * d->row_bytes[kind];
    }
    for (hga_id kind = 2; kind < 2 * (p->n_fields + 1); kind++) {
        hga_id f = field_of_kind(kind);
        const field_storage *h = &d->plan->fields.storage[f];
        int sixteen = kind_is_input(kind) && d->options.page_type == HGA_BF16;
        int has_lse = !kind_is_input(kind) && p->field[f].width == HGA_WIDTH_STATE;
        d->row_floats[kind] = (int64_t)h->heads * (h->columns + has_lse);
        d->row_bytes[kind] = d->row_floats[kind] * (int64_t)(sixteen ? sizeof(uint16_t) : sizeof(float));
        d->page_bytes[kind] = PAGE_HEAD + rows * d->row_bytes[kind];
    }
}

static void take_allocator(hga_decoder *d, const hga_allocator *a)
{
    if (a) d->allocator = *a;
    d->options.plan.allocator = NULL; /* the caller's own struct need not stay */
}

hga_status hga_decoder_create(const hga_graph *capacity, const hga_program *p, const hga_shape *shape,
                              const hga_decode_options *o, hga_decoder **out)
{
    static const hga_decode_options none = {0};
    hga_status st = HGA_OK;
    hga_decoder *d = NULL;
    if (!out) return hga_fail(HGA_EINVAL, "no place for the decoder");
    *out = NULL;
    if (!capacity || !p || !shape) return hga_fail(HGA_EINVAL, "no %s", !capacity ? "graph" : !p ? "program" : "shape");
    if (!o) o = &none;
    HGA_TRY(check_options(o));
    HGA_TRY(choose_check_options(o, shape));
    HGA_TRY(program_check(p, capacity));
    HGA_TRY(check_tokens(capacity, p));
    HGA_TRY(hga_new_zero(o->plan.allocator, 1, sizeof *d, &d));
    d->options = *o;
    hga_options options = o->plan;
    options.rows = HGA_ROWS_THAT_STAY;
    take_allocator(d, options.allocator);
    HGA_TRY(choose_copy(o->selection, d));
    HGA_TRY(hga_new_zero(&d->allocator, 1, sizeof *d->states, &d->states));
    d->n_tokens = hga_graph_nodes(capacity).n_queries, d->n_nodes = hga_graph_nodes(capacity).n;
    HGA_TRY(hga_plan_create(capacity, p, shape, &options, &d->plan));
    d->plan->fields.lone_rows = !o->same_bits;
    d->plan->fields.on_demand = &slots_on_demand, d->plan->most.workspace_floats = 0;
    HGA_TRY(find_tensors(d));
    HGA_TRY(choose_check_plan(d));
    HGA_TRY(ready_find(d, capacity, p));
    measure_pages(d);
    *out = d, d = NULL;
done:
    hga_decoder_destroy(d);
    return st;
}

void hga_decoder_destroy(hga_decoder *d)
{
    if (!d) return;
    hga_allocator a = d->allocator;
    ready_clear(d);
    hga_plan_destroy(d->plan);
    hga_delete(&a, d->states, 1, sizeof *d->states);
    hga_delete(&a, d->k_each, d->how.n_k_each, sizeof *d->k_each);
    hga_delete(&a, d, 1, sizeof *d);
}

hga_id hga_decoder_tokens(const hga_decoder *d) { return d ? d->n_tokens : 0; }

hga_id hga_decoder_rows(const hga_decoder *d, hga_id first_token, hga_id n, hga_id *node, hga_id capacity)
{
    if (!d || first_token < 0 || n < 0 || first_token > d->n_tokens - n) return -1;
    int64_t begin = d->io_node ? d->io_ptr[first_token] : first_token,
            end = d->io_node ? d->io_ptr[first_token + n] : first_token + n;
    for (int64_t i = begin; i < end && i - begin < capacity; i++)
        node[i - begin] = d->io_node ? d->io_node[i] : d->io_first + (hga_id)i;
    return (hga_id)(end - begin);
}

/* ---- sizes of caches ---- */

typedef struct holding {
    int64_t rows, bytes;
} holding;

/* Adds the rows that a cache of so many tokens holds, and the bytes of their pages; t has an entry for each page. */
static hga_status add_up(const hga_decoder *d, hga_id tokens, page_table *t, holding *h)
{
    for (int64_t i = 0; i < d->born.ptr[tokens]; i++) {
        const cached_row *r = &d->born.row[i];
        uint64_t key = page_key(d, r->kind, r->node);
        if (!is_cached(d, r, tokens)) continue;
        h->rows++;
        if (table_find(t, key)) continue;
        hga_status st = table_reserve(NULL, t, 1);
        if (st) return st;
        table_add(t, key);
        h->bytes += d->page_bytes[r->kind];
    }
    return HGA_OK;
}

static holding will_hold(const hga_decoder *d, hga_id tokens)
{
    holding h = {0}, unknown = {-1, -1};
    page_table t = {0};
    if (!d || tokens < 0 || tokens > d->n_tokens) return unknown;
    hga_status st = add_up(d, tokens, &t, &h);
    table_clear(NULL, &t);
    return st ? unknown : h;
}

int64_t hga_decoder_cache_bytes(const hga_decoder *d, hga_id tokens) { return will_hold(d, tokens).bytes; }
int64_t hga_decoder_cache_rows(const hga_decoder *d, hga_id tokens) { return will_hold(d, tokens).rows; }

int64_t hga_decoder_cache_level_rows(const hga_decoder *d, hga_id tokens, hga_id level)
{
    int64_t n = 0;
    if (!d || tokens < 0 || tokens > d->n_tokens || level < 0 || level >= d->plan->nodes.n_levels) return -1;
    const hga_id *first = &d->plan->nodes.level_ptr[level];
    for (int64_t i = 0; i < d->born.ptr[tokens]; i++) {
        const cached_row *r = &d->born.row[i];
        n += !kind_stands(r->kind) && is_cached(d, r, tokens) && r->node >= first[0] && r->node < first[1];
    }
    return n;
}
