/* view.c: hga view, a graph as one interactive page. The page (view/) is given the structure as it is stored, blocks as
   blocks and families as runs, and does the arithmetic itself, so that it stays small whatever the number of edges.
   Only explicit edges and irregular blocks cost bytes each; beyond a limit they are left out, and the page says so. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "graph_argument.h"
#include "command.h"
#include "html.h"
#include "outfile.h"
#include "palette.h"
#include "version.h"
#include "view_page.h"

enum { MOST_EXPLICIT = 200000, MOST_BLOCKS = 500000, MOST_NAMES = 200000, PAGE_SCHEMA = 1 };

typedef struct arguments {
    graph_argument source;
    const char *path, *output; /* what messages call the graph; where the page goes */
    const char *beside;        /* a second hierarchy's file, or NULL */
    int64_t max_edges;
} arguments;

/* What the page is made of; `room` holds as many numbers as the longest series has. */
typedef struct view {
    const arguments *a;
    const graph_file *f;
    hga_nodes nodes;
    int64_t *room;
} view;

/* ---- the command line ---- */

enum { KEY_MAX_EDGES = 0x2800, KEY_BESIDE };

static error_t parse(int key, char *value, struct argp_state *state)
{
    arguments *a = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = &a->source; return 0;
    case 'o': a->output = value; return 0;
    case KEY_BESIDE: a->beside = value; return 0;
    case KEY_MAX_EDGES: return arguments_said(read_whole("--max-edges", value, 0, INT32_MAX, &a->max_edges));
    case ARGP_KEY_END: return a->output ? 0 : arguments_said(complain(CLI_USAGE, "-o FILE is missing"));
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "the page to write, - for standard output", 0},
    {"max-edges", KEY_MAX_EDGES, "N", 0, "leave out the explicit edges of a relation that has more (default: 200000)",
     0},
    {"beside", KEY_BESIDE, "FILE", 0, "a second hierarchy, side by side with the first in one page", 0},
    {0},
};

static const char doc[] = "A graph from JSON (- is standard input) as an interactive page: one file, no network.\vThe "
                          "page shows each relation as a "
                          "matrix to zoom into, over nodes or over the tokens they "
                          "stand for; pointing at a cell tells its edges, a click on it how far its row's token "
                          "reaches, layer by layer. Below 2000 "
                          "edges it draws nodes and links too. The structure goes "
                          "in as it is stored, so that a million tokens take little more room than a thousand.";

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
    for (hga_pos i = 0; i < r->n_blocks; i++) v->room[i] = *(const hga_id *)((const char *)&r->blocks[i] + m->at);
    fprintf(file, "\"%s\": ", m->name);
    html_json_series(file, v->room, r->n_blocks);
    fputs(", ", file);
}

static void put_blocks(FILE *file, const view *v, const hga_relation *r)
{
    fputs(", \"blocks\": {", file);
    for (size_t m = 0; m < N_BLOCK_MEMBERS; m++) put_member(file, v, r, &block_members[m]);
    for (hga_pos i = 0; i < r->n_blocks; i++) v->room[i] = (int64_t)r->blocks[i].shape;
    fputs("\"shape\": ", file);
    html_json_series(file, v->room, r->n_blocks);
    if (r->weighted && r->n_blocks)
        fputs(", \"weight\": ", file), put_reals(file, &r->blocks[0].weight, sizeof *r->blocks, r->n_blocks);
    fputc('}', file);
}

/* ---- explicit edges, row after row ---- */

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

static void put_relation(FILE *file, const view *v, hga_id i)
{
    hga_relation r = hga_graph_relation(v->f->graph, i);
    int with_blocks = r.n_blocks > 0 && r.n_blocks <= MOST_BLOCKS,
        with_explicit = r.n_explicit > 0 && r.n_explicit <= v->a->max_edges;
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
        if (hga_graph_name(v->f->graph, i)) v->room[n++] = i;
    if (n == 0) return;
    fputs(",\n\"names\": {\"nodes\": ", file);
    html_json_series(file, v->room, n);
    fputs(", \"text\": [", file);
    for (int64_t i = 0; i < n; i++) {
        if (i) fputc(',', file);
        html_json_string(file, hga_graph_name(v->f->graph, (hga_id)v->room[i]));
    }
    fputs("]}", file);
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

static void put_stages(FILE *file, const hga_program *p)
{
    for (hga_id i = 0; i < p->n_stages; i++) {
        const hga_stage *s = &p->stage[i];
        fputs(i ? ", {\"name\": " : "{\"name\": ", file);
        html_json_string(file, s->name);
        fprintf(file,
                ", \"relation\": %d, \"order\": %d, \"message\": %d, \"reduce\": %d, \"update\": %d, \"by_mass\": %d, "
                "\"value\": %d, \"out\": %d, "
                "\"reads\": %u}",
                s->relation, (int)s->order, (int)s->message, (int)s->reduce, (int)s->update, s->by_mass != 0,
                s->value - 1, s->out - 1, s->reads >> 1); /* the page counts fields from 0, -1: none */
    }
}

static void put_program(FILE *file, const view *v)
{
    if (!v->f->text) {
        fputs("null", file);
        return;
    }
    fputs("{\"fields\": [", file);
    put_fields(file, &v->f->program);
    fputs("],\n\"stages\": [", file);
    put_stages(file, &v->f->program);
    fputs("]}", file);
}

/* ---- the page ---- */

static void put_title(FILE *file, const void *context)
{
    const view *v = context;
    html_text(file, strcmp(v->a->path, "-") == 0 ? "graph" : v->a->path);
}

static void put_style(FILE *file, const void *context)
{
    (void)context;
    fputs(view_css, file);
}

static void put_script(FILE *file, const void *context)
{
    static const char *const parts[] = {view_graph_js, view_names_js, view_matrix_js, view_links_js,
                                        view_play_js,  view_svg_js,   view_page_js};
    (void)context;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) fputs(parts[i], file);
}

static void put_graph(FILE *file, const void *context)
{
    const view *v = context;
    const hga_nodes *n = &v->nodes;
    fprintf(file, "{\"schema\": %d, \"tool\": \"hga %s (%s)\", \"file\": ", PAGE_SCHEMA, hga_version(), BUILD_COMMIT);
    html_json_string(file, v->a->path);
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
    put_names(file, v);
    fputs(",\n\"relations\": [", file);
    for (hga_id i = 0; i < n->n_relations; i++) put_relation(file, v, i);
    fputs("],\n\"program\": ", file);
    put_program(file, v);
    fputs("}", file);
}

static const html_mark marks[] = {
    {"title", put_title}, {"style", put_style}, {"graph", put_graph}, {"script", put_script}, {0}};

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

/* The page of one graph. */
static int put_page(FILE *file, const arguments *a, const graph_file *f)
{
    view v = {.a = a, .f = f, .nodes = hga_graph_nodes(f->graph)};
    int status = take(longest_series(f->graph, &v.nodes), sizeof *v.room, &v.room);
    if (status == CLI_GOOD) html_fill(file, view_html, marks, &v);
    free(v.room);
    return status;
}

/* ---- two hierarchies ---- */

/* A page inside of another, which keeps its address. */
static int put_frame(FILE *file, const char *name, const arguments *a, const graph_file *f)
{
    char *page = NULL;
    size_t bytes = 0;
    FILE *memory = open_memstream(&page, &bytes);
    int status = memory ? put_page(memory, a, f) : complain(CLI_OUTSIDE, "out of memory: a page");
    if (memory && fclose(memory) && status == CLI_GOOD) status = complain(CLI_OUTSIDE, "out of memory: a page");
    if (status == CLI_GOOD) {
        fprintf(file, "<iframe name=\"%s\" title=\"", name);
        html_text(file, a->path);
        fputs("\" srcdoc=\"", file);
        html_text(file, page);
        fputs("\"></iframe>\n", file);
    }
    free(page);
    return status;
}

static int put_both(FILE *file, const arguments *a, const graph_file *left, const graph_file *right)
{
    int status = CLI_GOOD;
    arguments second = *a;
    second.path = file_name(a->beside);
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
          "content=\"width=device-width, initial-scale=1\">\n<title>",
          file);
    html_text(file, a->path);
    fputs(" beside ", file);
    html_text(file, second.path);
    fputs("</title>\n<style>\n", file);
    fputs(beside_css, file);
    fputs("</style>\n<script>\n", file);
    fputs(beside_js, file);
    fputs("</script>\n</head>\n<body>\n", file);
    TRY(put_frame(file, "left", a, left));
    TRY(put_frame(file, "right", &second, right));
    fputs("</body>\n</html>\n", file);
done:
    return status;
}

int run_view(int argc, char **argv)
{
    struct argp_child children[] = {{&graph_argp, 0, NULL, 0}, {0}};
    struct argp argp = {options, parse, "GRAPH|VARIANT", doc, children, NULL, NULL};
    arguments a = {.max_edges = MOST_EXPLICIT};
    graph_file f = {0}, second = {0};
    outfile out = {0};
    int status = CLI_GOOD;
    TRY(arguments_parse(&argp, argc, argv, &a));
    TRY(graph_argument_read(&a.source, &f));
    a.path = a.source.title;
    if (a.beside) TRY(graph_file_read(a.beside, NULL, &second));
    TRY(outfile_open(a.output, &out));
    TRY(a.beside ? put_both(out.file, &a, &f, &second) : put_page(out.file, &a, &f));
    TRY(outfile_keep(&out));
done:
    outfile_drop(&out);
    graph_file_clear(&f);
    graph_file_clear(&second);
    graph_argument_clear(&a.source);
    return status;
}
