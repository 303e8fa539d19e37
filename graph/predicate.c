/* predicate.c: a mask, passed row by row, as a graph of blocks. The keys that a row sees fall into runs, of which
   column_runs.c makes blocks; edges are never listed. A caller that knows the runs, and the rows that share them,
   passes them instead. */
#include "column_runs.h"
#include "residues.h"

#include <string.h>

/* Bytes of rows per call of `sees`, about: enough for a caller whose calls are expensive. */
enum { BYTES_AT_ONCE = 1 << 22 };

typedef struct scan {
    const hga_mask *mask;
    hga_id key_first; /* the node of key 0 */
    hga_pos n_edges;
    int causal; /* so far */
    column_runs found;
} scan;

/* The first byte from i on that is not 0, or n. Eight at a time, since most of a long mask is empty. */
static hga_id next_seen(const uint8_t *row, hga_id i, hga_id n)
{
    for (uint64_t eight; i + 8 <= n; i += 8) {
        memcpy(&eight, row + i, sizeof eight);
        if (eight) break;
    }
    while (i < n && !row[i]) i++;
    return i;
}

static hga_id next_unseen(const uint8_t *row, hga_id i, hga_id n)
{
    const uint8_t *end = memchr(row + i, 0, (size_t)(n - i));
    return end ? (hga_id)(end - row) : n;
}

/* Adds the keys [key, end) that query q sees. */
static hga_status add_seen_keys(scan *s, hga_id q, hga_id key, hga_id end)
{
    edge_run x = {q, s->key_first + key, end - key, 0, 0, 1};
    if (s->mask->relative) x.type = q - key + s->mask->n_keys - 1, x.slope = x.n > 1 ? -1 : 0;
    s->n_edges += x.n;
    s->causal &= end <= q + 1;
    return column_runs_add_run(&s->found, &x);
}

/* Adds the runs of keys that query q sees. */
static hga_status scan_row(scan *s, hga_id q, const uint8_t *row)
{
    hga_status st = HGA_OK;
    hga_id n = s->mask->n_keys;
    for (hga_id key = next_seen(row, 0, n), end; !st && key < n; key = next_seen(row, end, n)) {
        end = next_unseen(row, key, n);
        st = add_seen_keys(s, q, key, end);
    }
    column_runs_end_row(&s->found);
    return st;
}

/* Scans rows in the caller's memory. */
static hga_status scan_bytes(scan *s)
{
    hga_status st = HGA_OK;
    const hga_mask *m = s->mask;
    int64_t stride = m->row_bytes ? m->row_bytes : m->n_keys;
    for (hga_id q = 0; !st && q < m->n_queries; q++) st = scan_row(s, q, m->bytes + q * stride);
    return st;
}

/* Scans rows that `sees` fills, some at a time. */
static hga_status scan_declared(scan *s)
{
    hga_status st = HGA_OK;
    const hga_mask *m = s->mask;
    const hga_allocator *a = s->found.allocator;
    int64_t fit = BYTES_AT_ONCE / ((int64_t)m->n_keys + 1) + 1, each = m->rows_at_once ? m->rows_at_once : fit;
    uint8_t *rows = NULL;
    if (each > m->n_queries) each = m->n_queries;
    HGA_TRY(hga_new(a, each * m->n_keys, 1, &rows));
    for (hga_id first = 0, n; first < m->n_queries && m->n_keys; first += n) {
        n = m->n_queries - first < each ? m->n_queries - first : (hga_id)each;
        memset(rows, 0, (size_t)n * (size_t)m->n_keys);
        HGA_TRY(m->sees(m->context, first, n, rows));
        for (hga_id q = 0; q < n; q++) HGA_TRY(scan_row(s, first + q, rows + (int64_t)q * m->n_keys));
    }
done:
    hga_delete(a, rows, each * m->n_keys, 1);
    return st;
}

/* ---- rows that come as runs ---- */

static hga_status add_group_row(scan *s, const hga_mask_runs *m, hga_id i, hga_id q)
{
    hga_status st = HGA_OK;
    for (hga_pos j = m->ptr[i]; !st && j < m->ptr[i + 1]; j++)
        st = add_seen_keys(s, q, m->keys[2 * j], m->keys[2 * j + 1]);
    column_runs_end_row(&s->found);
    return st;
}

static hga_pos group_edges(const hga_mask_runs *m, hga_id i)
{
    hga_pos n = 0;
    for (hga_pos j = m->ptr[i]; j < m->ptr[i + 1]; j++) n += m->keys[2 * j + 1] - m->keys[2 * j];
    return n;
}

/* Adds a group's rows one by one until all open runs only repeat; then all of them grow at once. */
static hga_status scan_group(scan *s, const hga_mask_runs *m, hga_id i)
{
    hga_status st = HGA_OK;
    hga_id end = m->row[i + 1];
    for (hga_id q = m->row[i]; !st && q < end; q++) {
        if (q > m->row[i] && column_runs_repeat_row(&s->found, end - q)) {
            s->n_edges += (end - q) * group_edges(m, i);
            break;
        }
        st = add_group_row(s, m, i, q);
    }
    return st;
}

static hga_status scan_runs(scan *s)
{
    hga_status st = HGA_OK;
    for (hga_id i = 0; !st && i < s->mask->runs->n; i++) st = scan_group(s, s->mask->runs, i);
    return st;
}

/* The group has rows, and its runs ascend without touching. */
static hga_status check_group(const hga_mask *m, hga_id i)
{
    const hga_mask_runs *r = m->runs;
    if (r->row[i] >= r->row[i + 1] || r->ptr[i] > r->ptr[i + 1])
        return hga_fail(HGA_EINVAL, "hga_mask_runs: rows and runs of group %d do not go up", i);
    hga_id last = -1;
    for (hga_pos j = r->ptr[i]; j < r->ptr[i + 1]; j++) {
        hga_id key = r->keys[2 * j], end = r->keys[2 * j + 1];
        if (key <= last || end <= key || end > m->n_keys)
            return hga_fail(HGA_EINVAL, "hga_mask_runs: keys %d .. %d of row %d: runs of a row go up and do not touch",
                            key, end, r->row[i]);
        last = end;
    }
    return HGA_OK;
}

/* The groups have all of the mask's rows. */
static hga_status check_runs(const hga_mask *m)
{
    hga_status st = HGA_OK;
    const hga_mask_runs *r = m->runs;
    if (!r->row || !r->ptr || r->n < 0) return hga_fail(HGA_EINVAL, "hga_mask_runs has no rows");
    if (r->row[0] != 0 || r->ptr[0] != 0 || r->row[r->n] != m->n_queries)
        return hga_fail(HGA_EINVAL, "hga_mask_runs: rows %d .. %d, the mask has %d", r->row[0], r->row[r->n],
                        m->n_queries);
    for (hga_id i = 0; !st && i < r->n; i++) st = check_group(m, i);
    return st;
}

/* ---- */

/* The mask has exactly one of sees, bytes and runs, and its sizes fit an id. */
static hga_status check_mask(const hga_mask *m)
{
    hga_status st = HGA_OK;
    if (!m) return hga_fail(HGA_EINVAL, "the mask is NULL");
    if (m->n_queries < 0 || m->n_keys < 0 || (int64_t)m->n_queries + m->n_keys > INT32_MAX - 4096)
        return hga_fail(HGA_EINVAL, "a mask of %d queries and %d keys", m->n_queries, m->n_keys);
    int n_declared = !!m->sees + !!m->bytes + !!m->runs;
    if (n_declared != 1)
        return hga_fail(HGA_EINVAL, "hga_mask has %d of sees, bytes and runs: one of them is needed", n_declared);
    if (m->runs) HGA_TRY(check_runs(m));
    if (m->bytes && m->row_bytes && m->row_bytes < m->n_keys)
        return hga_fail(HGA_EINVAL, "hga_mask.row_bytes is %lld: a row has %d keys", (long long)m->row_bytes,
                        m->n_keys);
    if (m->rows_at_once < 0) return hga_fail(HGA_EINVAL, "hga_mask.rows_at_once is %d", m->rows_at_once);
    st = hga_check_reserved("hga_mask", m->reserved, sizeof m->reserved);
done:
    return st;
}

/* The claims of a mask that was read to its end. */
static uint32_t claims_of(const scan *s, int cross)
{
    hga_pos n_queries = s->mask->n_queries, n_keys = s->mask->n_keys;
    int causal = !cross && s->causal;
    hga_pos all = causal ? n_queries * (n_queries + 1) / 2 : n_queries * n_keys;
    return HGA_CLAIM_SINGLE | (causal ? HGA_CLAIM_CAUSAL : 0u) | (s->n_edges == all ? HGA_CLAIM_COMPLETE : 0u);
}

hga_status hga_graph_from_predicate(const hga_allocator *a, const hga_mask *mask, hga_graph **out)
{
    hga_status st = HGA_OK;
    hga_builder *b = NULL;
    scan s = {.mask = mask, .causal = 1};
    *out = NULL;
    HGA_TRY(check_mask(mask));
    int cross = mask->cross || mask->n_queries != mask->n_keys;
    s.key_first = cross ? mask->n_queries : 0;
    HGA_TRY(hga_builder_create(a, &b));
    HGA_TRY(hga_builder_add_level(b, s.key_first + mask->n_keys, NULL));
    if (cross) HGA_TRY(hga_builder_set_tokens(b, 0, mask->n_queries, s.key_first, mask->n_keys));
    s.found.allocator = a, s.found.b = b;
    HGA_TRY(hga_builder_add_relation(b, mask->relation ? mask->relation : "edges", &s.found.index));
    HGA_TRY(mask->runs ? scan_runs(&s) : mask->bytes ? scan_bytes(&s) : scan_declared(&s));
    HGA_TRY(column_runs_tell(&s.found));
    HGA_TRY(hga_builder_set_claims(b, claims_of(&s, cross)));
    HGA_TRY(hga_builder_finish(b, out));
    HGA_TRY(residues_order(out));
done:
    if (st) hga_graph_destroy(*out), *out = NULL;
    column_runs_clear(&s.found);
    hga_builder_destroy(b);
    return st;
}
