/* view.c: the data of the page of hga view: the structure as it is stored, blocks as blocks and families as runs. The
   page does the arithmetic itself, so that it stays small whatever the number of edges. Only explicit edges and
   irregular blocks cost bytes each; beyond a limit they are left out, and the page says so. */
#include "hga_view.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hga_base.h"
#include "load.h"
#include "output.h"

enum { MOST_BLOCKS = 500000, MOST_NAMES = 200000, PAGE_SCHEMA = 1 };

/* ---- texts ---- */

/* A text in quotes in which no '<' ends the script that it stands in. Bytes that are no UTF-8 become U+FFFD. */
static void put_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (int64_t left = (int64_t)strlen(text), n; left > 0; text += n, left -= n) {
        const int64_t fit = utf8_character(text, left);
        n = fit ? fit : 1;
        if (!fit)
            fputs("\xEF\xBF\xBD", file);
        else if (*text == '"' || *text == '\\' || *text == '<' || *text == '>' || *text == '&' ||
                 (fit == 1 && *text < ' '))
            fprintf(file, "\\u%04x", (unsigned)*text);
        else
            fwrite(text, 1, (size_t)n, file);
    }
    fputc('"', file);
}

/* ---- numbers ---- */

/* Whole numbers, one after the other, as a JSON array of differences to the one before (the first: to 0), where
   [d, count] stands for count times d. Regular series take a few bytes whatever their length. */
typedef struct series {
    FILE *file;
    int64_t before, step, run; /* run: steps that are not written yet */
    const char *between;
} series;

static series series_start(FILE *file)
{
    fputc('[', file);
    return (series){.file = file, .between = ""};
}

static void put_run(series *s)
{
    if (s->run == 0) return;
    fprintf(s->file, s->run > 1 ? "%s[%" PRId64 ",%" PRId64 "]" : "%s%" PRId64, s->between, s->step, s->run);
    s->between = ",", s->run = 0;
}

static void series_add(series *s, int64_t value)
{
    if (value - s->before != s->step) put_run(s);
    s->step = value - s->before, s->before = value, s->run++;
}

static void series_end(series *s)
{
    put_run(s);
    fputc(']', s->file);
}

/* Ids, `stride` bytes from one to the next, after their name; null where there are none. */
static void put_ids(FILE *file, const char *name, const hga_id *id, size_t stride, int64_t n)
{
    fputs(name, file);
    if (!id) {
        fputs("null", file);
        return;
    }
    series s = series_start(file);
    for (int64_t i = 0; i < n; i++)
        series_add(&s, *(const hga_id *)(const void *)((const char *)id + (size_t)i * stride));
    series_end(&s);
}

/* Floats with as many digits as distinguish them. */
static void put_reals(FILE *file, const float *x, size_t stride, int64_t n)
{
    char text[REAL_BYTES];
    fputc('[', file);
    for (int64_t i = 0; i < n; i++) {
        if (i) fputc(',', file);
        fputs(real_text(*(const float *)((const char *)x + (size_t)i * stride), text), file);
    }
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
    {"shape", offsetof(hga_block, shape)}, /* an enumeration, as wide as the others */
};
enum { N_BLOCK_MEMBERS = sizeof block_members / sizeof block_members[0] };
_Static_assert(sizeof(((hga_block *)0)->shape) == sizeof(hga_id), "a member of a block is read as an id");

/* The blocks of a relation, member by member as series of numbers. */
static void put_blocks(FILE *file, const hga_relation *r)
{
    fputs(", \"blocks\": {", file);
    for (size_t m = 0; m < N_BLOCK_MEMBERS; m++) {
        fprintf(file, m ? ", \"%s\": " : "\"%s\": ", block_members[m].name);
        series s = series_start(file);
        for (hga_block_walk w = {0}; hga_relation_next(r, &w);)
            series_add(&s, *(const hga_id *)((const char *)&w.block + block_members[m].at));
        series_end(&s);
    }
    if (r->weighted && r->n_blocks)
        fputs(", \"weight\": ", file), put_reals(file, &r->blocks[0].weight, sizeof *r->blocks, r->n_blocks);
    fputc('}', file);
}

/* ---- explicit edges, row after row ---- */

/* Edges one by one: how many each node has, their sources, and types and weights if there are any. */
static void put_explicit(FILE *file, const hga_relation *r, hga_id n)
{
    fputs(", \"explicit\": {\"degree\": ", file);
    series s = series_start(file);
    for (hga_id i = 0; i < n; i++) series_add(&s, r->ptr[i + 1] - r->ptr[i]);
    series_end(&s);
    put_ids(file, ", \"src\": ", r->src, sizeof *r->src, r->n_explicit);
    if (r->type) put_ids(file, ", \"type\": ", r->type, sizeof *r->type, r->n_explicit);
    if (r->weight) fputs(", \"weight\": ", file), put_reals(file, r->weight, sizeof *r->weight, r->n_explicit);
    fputc('}', file);
}

/* A relation's counts and orders; its blocks and explicit edges only where these are not too many for a page. */
static void put_relation(FILE *file, const hga_graph *g, const hga_view *v, hga_id i)
{
    hga_relation r = hga_graph_relation(g, i);
    const hga_id n = hga_graph_nodes(g).n;
    int with_blocks = r.n_blocks > 0 && r.n_blocks <= MOST_BLOCKS,
        with_explicit = r.n_explicit > 0 && r.n_explicit <= v->max_edges;
    fputs(i ? ",\n{\"name\": " : "\n{\"name\": ", file);
    put_string(file, r.name);
    fprintf(file, ", \"n_edges\": %lld, \"n_blocks\": %lld, \"n_explicit\": %lld", (long long)r.n_edges,
            (long long)r.n_blocks, (long long)r.n_explicit);
    put_ids(file, ", \"dst_order\": ", r.dst_order, sizeof *r.dst_order, n);
    put_ids(file, ", \"src_order\": ", r.src_order, sizeof *r.src_order, r.n_src_order);
    if (with_blocks) put_blocks(file, &r);
    if (with_explicit) put_explicit(file, &r, n);
    fputc('}', file);
}

/* ---- nodes ---- */

static void put_levels(FILE *file, const hga_nodes *n)
{
    for (hga_id l = 0; l < n->n_levels; l++) fprintf(file, l ? ", %d" : "%d", n->level_ptr[l + 1] - n->level_ptr[l]);
}

/* Each node's parent, and the tokens that each node above them stands for. */
static void put_tree(FILE *file, const hga_nodes *n)
{
    hga_id first = n->level_ptr[1], above = n->n - first;
    put_ids(file, ",\n\"span_first\": ", n->span_first + first, sizeof(hga_id), above);
    put_ids(file, ", \"span_last\": ", n->span_last + first, sizeof(hga_id), above);
    if (!n->parent) return;
    put_ids(file, ",\n\"child_ptr\": ", n->child_ptr, sizeof(hga_id), above + 1);
    put_ids(file, ", \"child_list\": ", n->child_list, sizeof(hga_id), n->child_ptr[above]);
}

/* The nodes that have names, and these; of more than MOST_NAMES the first ones. */
static void put_names(FILE *file, const hga_graph *g)
{
    const hga_id n = hga_graph_nodes(g).n;
    hga_id first = 0, end, named = 0;
    while (first < n && !hga_graph_name(g, first)) first++;
    if (first == n) return;
    fputs(",\n\"names\": {\"nodes\": ", file);
    series s = series_start(file);
    for (end = first; end < n && named < MOST_NAMES; end++)
        if (hga_graph_name(g, end)) series_add(&s, end), named++;
    series_end(&s);
    fputs(", \"text\": [", file);
    for (hga_id i = first; i < end; i++) {
        const char *name = hga_graph_name(g, i);
        if (!name) continue;
        if (i > first) fputc(',', file);
        put_string(file, name);
    }
    fputs("]}", file);
}

/* The kinds of nodes, and their colours. */
static void put_kinds(FILE *file, const hga_graph *g)
{
    const hga_kinds kinds = hga_graph_kinds(g);
    if (!kinds.n) return;
    fputs(",\n\"kinds\": {\"names\": [", file);
    for (int32_t k = 0; k < kinds.n; k++) {
        if (k) fputc(',', file);
        put_string(file, kinds.name[k]);
    }
    fputs("], \"colours\": [", file);
    for (int32_t k = 0; k < kinds.n; k++)
        fprintf(file, k ? ", \"#%06x\"" : "\"#%06x\"", (unsigned)hga_view_colour(HGA_COLOURS_KINDS, k));
    put_ids(file, "], \"of\": ", kinds.of, sizeof *kinds.of, hga_graph_nodes(g).n);
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
        put_string(file, field->name);
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
        put_string(file, s->name);
        fprintf(file,
                ", \"relation\": %d, \"order\": %d, \"message\": %d, \"reduce\": %d, \"update\": %d, \"by_mass\": %d, "
                "\"value\": %d, \"out\": %d, \"reads\": %u}",
                s->relation, (int)s->order, (int)s->message, (int)s->reduce, (int)s->update, s->by_mass != 0,
                s->value - 1, s->out - 1, s->reads >> 1); /* the page counts fields from 0, -1: none */
    }
}

/* The program's fields and stages; null where the graph has none. */
static void put_program(FILE *file, const hga_view *v)
{
    if (!v->program) {
        fputs("null", file);
        return;
    }
    fputs("{\"fields\": [", file);
    put_fields(file, v->program);
    fputs("],\n\"stages\": [", file);
    put_stages(file, v->program);
    fputs("]}", file);
}

/* ---- attention weights ---- */

/* The edges of every query token in order, and their weight in each head, to four digits. */
static void put_weights(FILE *file, const hga_view *v, hga_id n_queries)
{
    static const hga_seen none;
    char text[REAL_BYTES];
    const hga_seen *e = v->n_edges ? v->edge : &none;
    fputs(",\n\"weights\": {\"heads\": [", file);
    for (hga_id h = 0; h < v->heads; h++) fprintf(file, h ? ", %d" : "%d", v->first_head + h);
    put_ids(file, "], \"count\": ", v->count, sizeof *v->count, n_queries);
    put_ids(file, ", \"stage\": ", &e->stage, sizeof *e, v->n_edges);
    put_ids(file, ", \"destination\": ", &e->destination, sizeof *e, v->n_edges);
    put_ids(file, ", \"source\": ", &e->source, sizeof *e, v->n_edges);
    fputs(",\n\"value\": [", file);
    for (int64_t i = 0; i < v->n_edges * v->heads; i++) {
        if (i) fputc(',', file);
        fputs(digits_text((float)v->weight[i], 4, text), file);
    }
    fputs("]}", file);
}

/* ---- the page ---- */

/* The names that nodes have: the caller's words, or the graph's own. */
static void put_words(FILE *file, const hga_view *v)
{
    if (!v->n_words) return;
    fputs(",\n\"names\": {\"nodes\": ", file);
    series s = series_start(file);
    for (hga_id i = 0; i < v->n_words; i++) series_add(&s, i);
    series_end(&s);
    fputs(", \"text\": [", file);
    for (hga_id i = 0; i < v->n_words; i++) {
        if (i) fputc(',', file);
        put_string(file, v->word[i]);
    }
    fputs("]}", file);
}

/* All data of the page, as one JSON object. */
static void put_view(FILE *file, const hga_graph *g, const hga_view *v)
{
    const hga_nodes nodes = hga_graph_nodes(g), *n = &nodes;
    fprintf(file, "{\"schema\": %d, \"tool\": ", PAGE_SCHEMA);
    put_string(file, v->tool);
    fputs(", \"file\": ", file);
    put_string(file, v->title);
    fputs(", \"levels\": [", file);
    put_levels(file, n);
    fprintf(file, "], \"queries\": [%d, %d], \"keys\": [%d, %d], \"claims\": [", n->query_first, n->n_queries,
            n->key_first, n->n_keys);
    put_claims(file, n->claims);
    fputs("], \"colours\": [", file);
    for (hga_id l = 0; l < n->n_levels; l++)
        fprintf(file, l ? ", \"#%06x\"" : "\"#%06x\"",
                (unsigned)hga_view_colour(HGA_COLOURS_LEVELS, n->n_levels > 1 ? (double)l / (n->n_levels - 1) : 0));
    fputs("]", file);
    put_tree(file, n);
    v->word ? put_words(file, v) : put_names(file, g);
    put_kinds(file, g);
    fputs(",\n\"relations\": [", file);
    for (hga_id i = 0; i < n->n_relations; i++) put_relation(file, g, v, i);
    fputs("],\n\"program\": ", file);
    put_program(file, v);
    if (v->heads) put_weights(file, v, n->n_queries);
    fputs("}", file);
}

hga_status hga_graph_view(const hga_graph *g, const hga_view *view, char **text)
{
    char *written = NULL;
    size_t bytes = 0;
    *text = NULL;
    FILE *file = open_memstream(&written, &bytes);
    if (!file) return hga_fail(HGA_ENOMEM, "cannot allocate the data of a page");
    put_view(file, g, view);
    const int failed = ferror(file);
    if (fclose(file) != 0 || failed) free(written), written = NULL;
    *text = written;
    return written ? HGA_OK : hga_fail(HGA_ENOMEM, "cannot allocate the data of a page");
}
