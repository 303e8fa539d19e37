/* file.c: a cache as a file: a header that identifies it; then the rows that a cache of so many tokens holds, in the
   order of birth, which the graph determines; then CRC-32C of all that. Little endian. */
#include "cache.h"
#include "file.h"
#include "identity.h"
#include "load.h"

#include <errno.h>
#include <string.h>

enum { VERSION = 1, NAME_BYTES = 16 };
static const char magic[8] = "hgacache";

typedef struct cache_header {
    char magic[8];
    uint32_t version, bytes; /* of this header */
    char engine[NAME_BYTES], isa[NAME_BYTES];
    uint64_t graph, program, numbers;
    int32_t tokens, least;
    uint64_t rows, row_bytes; /* how many follow, and all their bytes */
} cache_header;
_Static_assert(sizeof(cache_header) == 96, "the header has no holes");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files are written as they are in memory");

/* CRC-32C (Castagnoli), reflected, four bits at a time. */
static uint32_t crc_of(uint32_t crc, const void *bytes, int64_t n)
{
    static const uint32_t of[16] = {0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
                                    0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
                                    0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75};
    const uint8_t *at = bytes;
    crc = ~crc;
    for (int64_t i = 0; i < n; i++) {
        crc ^= at[i];
        crc = crc >> 4 ^ of[crc & 15];
        crc = crc >> 4 ^ of[crc & 15];
    }
    return ~crc;
}

static int holds(const hga_cache *c, const cached_row *r) { return r->other >= c->least; }

static void count_rows(const hga_cache *c, cache_header *h)
{
    const hga_decoder *d = c->pages->decoder;
    h->rows = h->row_bytes = 0;
    for (int64_t i = 0; i < d->born.ptr[c->tokens]; i++) {
        if (!holds(c, &d->born.row[i])) continue;
        h->rows++, h->row_bytes += (uint64_t)d->row_bytes[d->born.row[i].kind];
    }
}

/* Fills in the header of the cache's file: versions, instruction set, identities, tokens, rows. */
static void fill_header(const hga_cache *c, cache_header *h)
{
    const hga_decoder *d = c->pages->decoder;
    *h = (cache_header){.version = VERSION, .bytes = sizeof *h, .tokens = c->tokens, .least = c->least};
    memcpy(h->magic, magic, sizeof magic);
    strncpy(h->engine, hga_version(), NAME_BYTES - 1);
    strncpy(h->isa, d->plan->machine.kernels->isa, NAME_BYTES - 1);
    h->graph = identity_of_graph(d->plan->graph), h->program = identity_of_program(&d->plan->program);
    h->numbers = identity_of_numbers(d);
    count_rows(c, h);
}

/* ---- writing ---- */

static void put(FILE *to, const void *bytes, size_t n, uint32_t *crc)
{
    *crc = crc_of(*crc, bytes, (int64_t)n);
    fwrite(bytes, 1, n, to);
}

static void put_rows(const hga_cache *c, FILE *to, uint32_t *crc)
{
    const hga_decoder *d = c->pages->decoder;
    for (int64_t i = 0; i < d->born.ptr[c->tokens]; i++) {
        const cached_row *r = &d->born.row[i];
        if (!holds(c, r)) continue;
        const page_entry *e = table_find(&c->table, page_key(d, r->kind, r->node));
        put(to, page_row(d, e->page, r->node), (size_t)d->row_bytes[r->kind], crc);
    }
}

hga_status hga_cache_write(const hga_cache *c, const char *path)
{
    hga_status st = HGA_OK;
    hga_file f = {0};
    cache_header h;
    uint32_t crc = 0;
    if (!c || !path) return hga_fail(HGA_EINVAL, "no %s", c ? "path" : "cache");
    fill_header(c, &h);
    HGA_TRY(hga_file_open(&f, path));
    put(f.stream, &h, sizeof h, &crc);
    put_rows(c, f.stream, &crc);
    fwrite(&crc, sizeof crc, 1, f.stream);
    HGA_TRY(hga_file_keep(&f));
done:
    hga_file_drop(&f);
    return st;
}

/* ---- reading ---- */

static hga_status differs(const char *path, const char *what)
{
    return hga_fail(HGA_EFORMAT, "%.200s: a cache of another %s", path, what);
}

/* Checks that the file is of this version and this decoder; with same_bits also of this engine and instruction set. */
static hga_status check_header(const char *path, const hga_decoder *d, const cache_header *h, const cache_header *own)
{
    if (memcmp(h->magic, magic, sizeof magic)) return hga_fail(HGA_EFORMAT, "%.200s: no cache of hga", path);
    if (h->version != VERSION)
        return hga_fail(HGA_EFORMAT, "%.200s: version %u of cache files, not %d", path, h->version, VERSION);
    if (h->bytes != sizeof *h)
        return hga_fail(HGA_EFORMAT, "%.200s: its header has %u bytes, a cache's has %zu", path, h->bytes, sizeof *h);
    if (h->graph != own->graph) return differs(path, "graph");
    if (h->program != own->program) return differs(path, "program");
    if (h->numbers != own->numbers) return differs(path, "shape, precision, type of pages or blocks to choose");
    if (d->options.same_bits && memcmp(h->engine, own->engine, NAME_BYTES))
        return differs(path, "version of hga, whose bits may differ");
    if (d->options.same_bits && memcmp(h->isa, own->isa, NAME_BYTES))
        return differs(path, "instruction set, whose bits differ");
    if (h->tokens < 0 || h->tokens > d->n_tokens || h->least < 0 || h->least > h->tokens)
        return hga_fail(HGA_EFORMAT, "%.200s: %d tokens from %d on, of %d", path, h->tokens, h->least, d->n_tokens);
    return HGA_OK;
}

/* Checks the header, the file's length, and its checksum. */
static hga_status check_file(const char *path, hga_cache *c, const char *text, int64_t n, cache_header *h)
{
    cache_header own, counted;
    uint32_t crc;
    if (n < (int64_t)(sizeof *h + sizeof crc))
        return hga_fail(HGA_EFORMAT, "%.200s: %lld bytes are no cache", path, (long long)n);
    memcpy(h, text, sizeof *h);
    fill_header(c, &own);
    hga_status st = check_header(path, c->pages->decoder, h, &own);
    if (st) return st;
    c->tokens = h->tokens, c->least = h->least;
    count_rows(c, &counted);
    if (h->rows != counted.rows || h->row_bytes != counted.row_bytes ||
        (uint64_t)n != sizeof *h + counted.row_bytes + sizeof crc)
        return hga_fail(HGA_EFORMAT, "%.200s: %lld bytes, a cache of %d tokens has %lld", path, (long long)n, h->tokens,
                        (long long)(sizeof *h + counted.row_bytes + sizeof crc));
    memcpy(&crc, text + n - sizeof crc, sizeof crc);
    if (crc != crc_of(0, text, n - (int64_t)sizeof crc))
        return hga_fail(HGA_EFORMAT, "%.200s: its checksum is wrong", path);
    return HGA_OK;
}

/* Copies the file's rows, in the order of birth, to pages of the cache. */
static hga_status take_rows(hga_cache *c, const char *from)
{
    const hga_decoder *d = c->pages->decoder;
    page_entry *e;
    for (int64_t i = 0; i < d->born.ptr[c->tokens]; i++) {
        const cached_row *r = &d->born.row[i];
        if (!holds(c, r)) continue;
        hga_status st = cache_own_page(c, r->kind, r->node, &e);
        if (st) return st;
        memcpy(page_row(d, e->page, r->node), from, (size_t)d->row_bytes[r->kind]);
        e->live |= page_bit(d, r->node);
        from += d->row_bytes[r->kind];
    }
    return HGA_OK;
}

hga_status hga_cache_read(hga_pages *p, const char *path, hga_cache **out)
{
    hga_status st = HGA_OK;
    hga_cache *c = NULL;
    cache_header h;
    char *text = NULL;
    int64_t n = 0, capacity = 0;
    if (!p || !path || !out)
        return hga_fail(HGA_EINVAL, "no %s", !p ? "pages" : !path ? "path" : "place for the cache");
    *out = NULL;
    HGA_TRY(hga_cache_create(p, &c));
    HGA_TRY(bytes_load(&p->decoder->allocator, path, path, &text, &n, &capacity));
    HGA_TRY(check_file(path, c, text, n, &h));
    HGA_TRY(take_rows(c, text + sizeof h));
    *out = c, c = NULL;
done:
    hga_delete(&p->decoder->allocator, text, capacity, 1);
    hga_cache_destroy(c);
    return st;
}
