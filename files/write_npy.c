/* write_npy.c: the edges of a relation as a NumPy array, int32 [edges][3] = source, destination, type. */
#include "npy_format.h"
#include "write.h"

typedef struct npy {
    output out;
    local_ids ids;
} npy;

static void put_header(output *o, hga_pos n_edges)
{
    const hga_npy h = {.kind = 'i', .size = 4, .n_dims = 2, .dim = {n_edges, 3}};
    char header[HGA_NPY_HEADER_BYTES];
    output_bytes(o, header, (size_t)hga_npy_header(&h, header));
}

static void put_little_endian(uint8_t *out, int32_t value)
{
    uint32_t bits = (uint32_t)value;
    for (int i = 0; i < 4; i++) out[i] = (uint8_t)(bits >> 8 * i);
}

/* Writes twelve bytes for every edge of a chunk of rows, through a buffer. */
static hga_status put_npy_edges(const hga_csr *rows, void *context)
{
    enum { EDGE_BYTES = 12, EDGES = 1024 };
    npy *w = context;
    const hga_id *local = w->ids.rank;
    uint8_t buffer[EDGES * EDGE_BYTES], *at = buffer;
    for (hga_id i = 0; i < rows->n; i++) {
        hga_id v = local ? local[rows->first + i] : rows->first + i;
        for (hga_pos e = rows->ptr[i]; e < rows->ptr[i + 1]; e++) {
            put_little_endian(at, local ? local[rows->src[e]] : rows->src[e]);
            put_little_endian(at + 4, v);
            put_little_endian(at + 8, rows->type[e]);
            at += EDGE_BYTES;
            if (at < buffer + sizeof buffer) continue;
            output_bytes(&w->out, buffer, sizeof buffer);
            at = buffer;
        }
    }
    output_bytes(&w->out, buffer, (size_t)(at - buffer));
    return output_check(&w->out);
}

hga_status hga_graph_write_npy(const hga_graph *g, hga_id relation, const char *path, hga_progress progress,
                               void *context)
{
    hga_status st = relation_check(g, relation);
    if (st) return st;
    npy w = {.ids = {0}};
    HGA_TRY(output_open(&w.out, path));
    HGA_TRY(local_ids_find(g, &w.ids));
    put_header(&w.out, relation_view(g, relation).n_edges);
    HGA_TRY(chunks_visit(g, relation, put_npy_edges, &w, progress, context));
done:
    local_ids_clear(g, &w.ids);
    return output_close(&w.out, st);
}
