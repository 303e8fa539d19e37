/* view_data.c: what the page of hga view is given: the structure as it is stored, blocks as blocks and families as
   runs. The page (view/) does the arithmetic itself, so that it stays small whatever the number of edges. Only
   explicit edges and irregular blocks cost bytes each; beyond a limit they are left out, and the page says so. */
#include "view_data.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "html.h"
#include "palette.h"
#include "version.h"
#include "view_page.h"

enum { MOST_BLOCKS = 500000, MOST_NAMES = 200000, PAGE_SCHEMA = 1 };

/* What the page is made of; `room` holds as many numbers as the longest series has. */
typedef struct view {
    const view_source *source;
    hga_nodes nodes;
    int64_t *room;
} view;

/* ---- numbers ---- */

static void put_ids(FILE *file, const view *v, const hga_id *id, int64_t n)
{
    for (int64_t i = 0; i < n; i++) v->room[i] = id[i];
    html_json_series(file, v->room, n);
}

static void put_order(FILE *file, const view *v, const char *name, const hga_id *order, hga_id n)
{
    fprintf(file, ", \"%s\": ", name);
    if (order)
        put_ids(file, v, order, n);
    else
        fputs("null", file);
}

/* Floats with as many digits as they need to be told apart. */
static void put_reals(FILE *file, const float *x, size_t stride, int64_t n)
{
    fputc('[', file);
    for (int64_t i = 0; i < n; i++)
        fprintf(file, i ? ",%.9g" : "%.9g", (double)*(const float *)((const char *)x + (size_t)i * stride));
    fputc(']', file);
}

/* ---- blocks: a series for each member ---- */

static const struct member {
    const char *name;
    size_t at;
} block_members[] = {
    {"dst", offsetof(hga_block, dst)},
    {"n_dst", offsetof(hga_block, n_dst)},
    {"src", offsetof(hga_block, src)},
    {"n_src", offsetof(hga_block, n_src)},
    {"count", offsetof(hga_block, count)},
    {"dst_step", offsetof(hga_block, dst_step)},
    {"src_step", offsetof(hga_block, src_step)},
    {"type", offsetof(hga_block, type)},
    {"type_dst", offsetof(hga_block, type_dst)},
    {"type_src", offsetof(hga_block, type_src)},
    {"band_first", offsetof(hga_block, band_first)},
    {"band_last", offsetof(hga_block, band_last)},
};
enum { N_BLOCK_MEMBERS = sizeof block_members / sizeof block_members[0] };

static void put_member(FILE *file, const view *v, const hga_relation *r, const struct member *m)
{
    hga_pos n = 0;
    for (hga_block_walk w = {0}; hga_relation_next(r, &w);)
        v->room[n++] = *(const hga_id *)((const char *)&w.block + m->at);
    fprintf(file, "\"%s\": ", m->name);
    html_json_series(file, v->room, r->n_blocks);
    fputs(", ", file);
}

/* The blocks of a relation, member by member as series of numbers. */
static void put_blocks(FILE *file, const view *v, const hga_relation *r)
{
    fputs(", \"blocks\": {", file);
    for (size_t m = 0; m < N_BLOCK_MEMBERS; m++) put_member(file, v, r, &block_members[m]);
    hga_pos n = 0;
    for (hga_block_walk w = {0}; hga_relation_next(r, &w);) v->room[n++] = (int64_t)w.block.shape;
    fputs("\"shape\": ", file);
    html_json_series(file, v->room, r->n_blocks);
    if (r->weighted && r->n_blocks)
        fputs(", \"weight\": ", file), put_reals(file, &r->blocks[0].weight, sizeof *r->blocks, r->n_blocks);
    fputc('}', file);
}

/* ---- explicit edges, row after row ---- */

/* Edges one by one: how many each node has, their sources, and types and weights where there are any. */
static void put_explicit(FILE *file, const view *v, const hga_relation *r)
{
    for (hga_id i = 0; i < v->nodes.n; i++) v->room[i] = r->ptr[i + 1] - r->ptr[i];
    fputs(", \"explicit\": {\"degree\": ", file);
    html_json_series(file, v->room, v->nodes.n);
    fputs(", \"src\": ", file);
    put_ids(file, v, r->src, r->n_explicit);
    if (r->type) fputs(", \"type\": ", file), put_ids(file, v, r->type, r->n_explicit);
    if (r->weight) fputs(", \"weight\": ", file), put_reals(file, r->weight, sizeof *r->weight, r->n_explicit);
    fputc('}', file);
}

/* A relation's counts and orders; its blocks and explicit edges only where these are not too many for a page. */
static void put_relation(FILE *file, const view *v, hga_id i)
{
    hga_relation r = hga_graph_relation(v->source->graph, i);
    int with_blocks = r.n_blocks > 0 && r.n_blocks <= MOST_BLOCKS,
        with_explicit = r.n_explicit > 0 && r.n_explicit <= v->source->max_edges;
    fputs(i ? ",\n{\"name\": " : "\n{\"name\": ", file);
    html_json_string(file, r.name);
    fprintf(file, ", \"n_edges\": %lld, \"n_blocks\": %lld, \"n_explicit\": %lld", (long long)r.n_edges,
            (long long)r.n_blocks, (long long)r.n_explicit);
    put_order(file, v, "dst_order", r.dst_order, v->nodes.n);
    put_order(file, v, "src_order", r.src_order, r.n_src_order);
    if (with_blocks) put_blocks(file, v, &r);
    if (with_explicit) put_explicit(file, v, &r);
    fputc('}', file);
}

/* ---- nodes ---- */

static void put_levels(FILE *file, const view *v)
{
    const hga_nodes *n = &v->nodes;
    for (hga_id l = 0; l < n->n_levels; l++) fprintf(file, l ? ", %d" : "%d", n->level_ptr[l + 1] - n->level_ptr[l]);
}

/* Who is whose child, and which tokens each node above them stands for. */
static void put_tree(FILE *file, const view *v)
{
    const hga_nodes *n = &v->nodes;
    hga_id first = n->level_ptr[1], above = n->n - first;
    fputs(",\n\"span_first\": ", file);
    put_ids(file, v, n->span_first + first, above);
    fputs(", \"span_last\": ", file);
    put_ids(file, v, n->span_last + first, above);
    if (!n->parent) return;
    hga_id children = n->child_ptr[above];
    fputs(",\n\"child_ptr\": ", file);
    put_ids(file, v, n->child_ptr, above + 1);
    put_order(file, v, "child_list", n->child_list, children);
}

/* The nodes that are called something, and what; of more than MOST_NAMES the first ones. */
static void put_names(FILE *file, const view *v)
{
    int64_t n = 0;
    for (hga_id i = 0; i < v->nodes.n && n < MOST_NAMES; i++)
        if (hga_graph_name(v->source->graph, i)) v->room[n++] = i;
    if (n == 0) return;
    fputs(",\n\"names\": {\"nodes\": ", file);
    html_json_series(file, v->room, n);
    fputs(", \"text\": [", file);
    for (int64_t i = 0; i < n; i++) {
        if (i) fputc(',', file);
        html_json_string(file, hga_graph_name(v->source->graph, (hga_id)v->room[i]));
    }
    fputs("]}", file);
}

/* What kinds nodes are of, and their colours. */
static void put_kinds(FILE *file, const view *v)
{
    const hga_kinds kinds = hga_graph_kinds(v->source->graph);
    if (!kinds.n) return;
    fputs(",\n\"kinds\": {\"names\": [", file);
    for (int32_t k = 0; k < kinds.n; k++) {
        if (k) fputc(',', file);
        html_json_string(file, kinds.name[k]);
    }
    fputs("], \"colours\": [", file);
    for (int32_t k = 0; k < kinds.n; k++) fprintf(file, k ? ", \"#%06x\"" : "\"#%06x\"", (unsigned)kind_colour(k));
    fputs("], \"of\": ", file);
    for (hga_id u = 0; u < v->nodes.n; u++) v->room[u] = kinds.of[u];
    html_json_series(file, v->room, v->nodes.n);
    fputs("}", file);
}

static void put_claims(FILE *file, uint32_t claims)
{
    static const char *const name[] = {"causal", "single", "complete"};
    const char *before = "";
    for (int i = 0; i < 3; i++)
        if (claims & (1u << i)) fprintf(file, "%s\"%s\"", before, name[i]), before = ", ";
}

/* ---- the program ---- */

static void put_fields(FILE *file, const hga_program *p)
{
    for (hga_id f = 1; f <= p->n_fields; f++) {
        const hga_field *field = &p->field[f];
        fputs(f > 1 ? ", {\"name\": " : "{\"name\": ", file);
        html_json_string(file, field->name);
        fprintf(file, ", \"width\": %d, \"binding\": %d, \"io\": %d, \"rows\": %d}", (int)field->width,
                (int)field->binding, (int)field->io, (int)field->rows);
    }
}

/* What each stage of the program reads, computes and writes, in numbers that the page knows. */
static void put_stages(FILE *file, const hga_program *p)
{
    for (hga_id i = 0; i < p->n_stages; i++) {
        const hga_stage *s = &p->stage[i];
        fputs(i ? ", {\"name\": " : "{\"name\": ", file);
        html_json_string(file, s->name);
        fprintf(file,
                ", \"relation\": %d, \"order\": %d, \"message\": %d, \"reduce\": %d, \"update\": %d, \"by_mass\": %d, "
                "\"value\": %d, \"out\": %d, \"reads\": %u}",
                s->relation, (int)s->order, (int)s->message, (int)s->reduce, (int)s->update, s->by_mass != 0,
                s->value - 1, s->out - 1, s->reads >> 1); /* the page counts fields from 0, -1: none */
    }
}

/* The program's fields and stages; null where the graph has none. */
static void put_program(FILE *file, const view *v)
{
    if (!v->source->program) {
        fputs("null", file);
        return;
    }
    fputs("{\"fields\": [", file);
    put_fields(file, v->source->program);
    fputs("],\n\"stages\": [", file);
    put_stages(file, v->source->program);
    fputs("]}", file);
}

/* ---- attention weights ---- */

/* The edges of every query token in turn, and what each head gives them, to four digits. */
static void put_weights(FILE *file, const view *v)
{
    const view_weights *w = v->source->weights;
    fputs(",\n\"weights\": {\"heads\": [", file);
    for (hga_id h = 0; h < w->heads; h++) fprintf(file, h ? ", %d" : "%d", w->first_head + h);
    fputs("], \"count\": ", file);
    html_json_series(file, w->count, v->nodes.n_queries);
    fputs(", \"stage\": ", file);
    html_json_series(file, w->stage, w->n);
    fputs(", \"destination\": ", file);
    html_json_series(file, w->destination, w->n);
    fputs(", \"source\": ", file);
    html_json_series(file, w->source, w->n);
    fputs(",\n\"value\": [", file);
    for (int64_t i = 0; i < w->n * w->heads; i++) fprintf(file, i ? ",%.4g" : "%.4g", (double)w->value[i]);
    fputs("]}", file);
}

/* ---- the page ---- */

static void put_title(FILE *file, const void *context)
{
    const view *v = context;
    html_text(file, strcmp(v->source->title, "-") == 0 ? "graph" : v->source->title);
}

/* All that the page is given, as one JSON object. */
static void put_data(FILE *file, const void *context)
{
    const view *v = context;
    const hga_nodes *n = &v->nodes;
    fprintf(file, "{\"schema\": %d, \"tool\": \"hga %s (%s)\", \"file\": ", PAGE_SCHEMA, hga_version(), BUILD_COMMIT);
    html_json_string(file, v->source->title);
    fputs(", \"levels\": [", file);
    put_levels(file, v);
    fprintf(file, "], \"queries\": [%d, %d], \"keys\": [%d, %d], \"claims\": [", n->query_first, n->n_queries,
            n->key_first, n->n_keys);
    put_claims(file, n->claims);
    fputs("], \"colours\": [", file);
    for (hga_id l = 0; l < n->n_levels; l++)
        fprintf(file, l ? ", \"#%06x\"" : "\"#%06x\"", (unsigned)level_colour(l, n->n_levels));
    fputs("]", file);
    put_tree(file, v);
    if (!v->source->nameless) put_names(file, v);
    put_kinds(file, v);
    fputs(",\n\"relations\": [", file);
    for (hga_id i = 0; i < n->n_relations; i++) put_relation(file, v, i);
    fputs("],\n\"program\": ", file);
    put_program(file, v);
    if (v->source->weights) put_weights(file, v);
    fputs("}", file);
}

static const html_mark marks[] = {{"title", put_title}, {"graph", put_data}, {0}};

/* As many numbers as the longest series that the page may hold. */
static int64_t longest_series(const hga_graph *g, const hga_nodes *n)
{
    int64_t most = (int64_t)n->n + 1;
    for (hga_id i = 0; i < n->n_relations; i++) {
        hga_relation r = hga_graph_relation(g, i);
        if (r.n_src_order > most) most = r.n_src_order;
        if (r.n_blocks > most) most = r.n_blocks;
        if (r.n_explicit > most) most = r.n_explicit;
    }
    return most;
}

/* What needs room for series. */
static int make(FILE *file, const view_source *source, void (*put)(FILE *, const void *))
{
    view v = {.source = source, .nodes = hga_graph_nodes(source->graph)};
    int status = take(longest_series(source->graph, &v.nodes), sizeof *v.room, &v.room);
    if (status == CLI_GOOD) put(file, &v);
    free(v.room);
    return status;
}

static void put_page(FILE *file, const void *context) { html_fill(file, view_page, marks, context); }

int view_data_put(FILE *file, const view_source *source) { return make(file, source, put_data); }

int view_page_put(FILE *file, const view_source *source) { return make(file, source, put_page); }

const char *view_template(void) { return view_page; }
