/* view.c: hga view, a graph as one interactive page, or two next to each other. */
#include <stdlib.h>
#include <string.h>

#include "beside_page.h"
#include "arguments.h"
#include "command.h"
#include "graph_argument.h"
#include "html.h"
#include "outfile.h"
#include "progress.h"
#include "row_weights.h"
#include "variant.h"
#include "view_data.h"

/* ---- weights ---- */

enum { MOST_WEIGHTS = 1 << 20 };

static hga_status count_edge(const hga_seen *seen, void *context)
{
    (void)seen;
    ++*(int64_t *)context;
    return HGA_OK;
}

/* Refuses too many weights before they are computed: counting is quick, weighing is not. */
static int check_size(const graph_file *f, const char *path, hga_id n_queries, hga_id heads)
{
    int64_t n = 0;
    for (hga_id token = 0; token < n_queries; token++)
        MUST(complain_of(hga_program_row(&f->program, f->graph, token, count_edge, &n), CLI_DATA, path));
    if (n * heads <= MOST_WEIGHTS) return CLI_GOOD;
    return complain(CLI_USAGE, "--query: %lld edges of %d tokens in %d head%s are more than the %d weights of a page%s",
                    (long long)n, n_queries, heads, heads == 1 ? "" : "s", MOST_WEIGHTS,
                    n <= MOST_WEIGHTS ? "; --head H takes one head" : "");
}

/* Lists the edges of all query tokens with their weights, and how many each has, with a progress bar. */
static int weigh_tokens(const graph_file *f, const row_tensors *t, hga_id n_queries, row_edge_list *edges,
                        hga_id *count)
{
    progress bar = progress_start("weighing");
    int status = CLI_GOOD;
    for (hga_id token = 0; token < n_queries && !status; token++) {
        const int64_t before = edges->n;
        progress_show((double)token / n_queries, &bar);
        status = row_weights(f, t, token, edges);
        count[token] = (hga_id)(edges->n - before);
    }
    progress_end(&bar);
    return status;
}

/* Weighs one head, or all, once it is known that there are not too many weights for a page. */
static int view_weigh(const weighing *by, const graph_file *f, const char *path, hga_id head, int quiet,
                      row_edge_list *edges, hga_view *out)
{
    row_tensors t = {0};
    hga_id *count = NULL;
    hga_id n_queries = hga_graph_nodes(f->graph).n_queries;
    int status = CLI_GOOD;
    if (!f->text) return complain(CLI_DATA, "--query: %s has no program: %s", path, f->lacks);
    TRY(row_tensors_read(by, f, path, &t));
    if (!quiet) tensor_file_say(&t.io.query);
    if (head >= t.io.shape.n_heads)
        TRY(complain(CLI_USAGE, "--head: %d, but %s has heads 0 .. %d", head, by->tensors.query,
                     t.io.shape.n_heads - 1));
    if (head >= 0) t.first = head, t.heads = 1;
    TRY(check_size(f, path, n_queries, t.heads));
    TRY(take(n_queries, sizeof *count, &count));
    status = weigh_tokens(f, &t, n_queries, edges, count);
    out->heads = t.heads, out->first_head = t.first;
    out->n_edges = edges->n, out->count = count, out->edge = edges->seen, out->weight = edges->weight;
done:
    row_tensors_clear(&t);
    return status;
}

typedef struct arguments {
    graph_argument source;
    const char *output; /* the page's path */
    const char *beside; /* a second hierarchy's file, or NULL */
    int64_t max_edges;
    weighing by; /* query NULL: no weights */
    int quiet;
} arguments;

/* ---- the command line ---- */

static int check(void *input)
{
    const arguments *a = input;
    if (a->source.path && strcmp(a->source.path, "-") != 0 && strcmp(a->source.path, a->output) == 0)
        return complain(CLI_USAGE, "%s: is what is to be viewed; -o FILE names the page", a->output);
    if (a->source.chosen.typed_head && !a->by.tensors.query && !routed_is(&a->source.typed))
        return complain(CLI_USAGE, "--head: needs --query and --key");
    return CLI_GOOD;
}

static const option_row options[] = {
    {"output,o", TEXT(arguments, output), "FILE", 0, "the page to write, - for standard output (default: view.html)",
     0},
    {"max-edges", WHOLE(arguments, max_edges, 0, INT32_MAX), "N", 0,
     "leave out the explicit edges of a relation that has more (default: 200000)", 0},
    {"beside", TEXT(arguments, beside), "FILE", 0, "a second hierarchy, side by side with the first in one page", 0},
    {"quiet", FLAG(arguments, quiet), NULL, 0, "leave out the line on stderr that says how the tensors were read", 2},
    {0},
};

static const char doc[] =
    "A graph as an interactive page: one file, no network. GRAPH is a file, - for JSON from standard input, or a "
    "folder, whose tree of files becomes a hierarchy of HSA.\vThe page shows each "
    "relation as a matrix to zoom into, over nodes or over the tokens they stand for; point at a cell to see its "
    "edges, click it to see how far its row's token reaches, layer by layer. "
    "Graphs of fewer than 2000 edges are also drawn as nodes and links. The page contains the graph as it is stored, "
    "so a million tokens take little more room than a thousand.\n\n"
    "With --query and --key the page shows the weight of every edge, computed in double by the plain meaning of the "
    "stages: as strength of colour, as width of links, and as numbers under the pointer. A page has at most a million "
    "weights (edges of all tokens x heads).";

/* ---- the page ---- */

/* What a page is called: a file's name, or "graph" of standard input. */
static const char *title_of(const char *path) { return strcmp(path, "-") == 0 ? "graph" : file_name(path); }

/* Writes both pages inside of another, which keeps their addresses. */
static int put_both(FILE *file, const view_page_of *left, const view_page_of *right)
{
    char *page[2] = {NULL, NULL};
    int status = CLI_GOOD;
    TRY(html_keep(view_page_put, left, &page[0]));
    TRY(html_keep(view_page_put, right, &page[1]));
    const html_mark marks[] = {{"left_title", left->title, NULL},
                               {"right_title", right->title, NULL},
                               {"left", page[0], NULL},
                               {"right", page[1], NULL},
                               {0}};
    html_fill(file, beside_page, marks, NULL);
done:
    free(page[0]);
    free(page[1]);
    return status;
}

/* The second hierarchy has no weights: the tensors are the first one's. */
static int second_data(const arguments *a, char **text)
{
    graph_file second = {0};
    int status = CLI_GOOD;
    TRY(graph_file_read(a->beside, NULL, 0, &second));
    const hga_view view = {
        .title = title_of(a->beside), .program = second.text ? &second.program : NULL, .max_edges = a->max_edges};
    TRY(view_data(second.graph, &view, text));
done:
    graph_file_clear(&second);
    return status;
}

static int write_page(const arguments *a, const hga_graph *g, const hga_view *view)
{
    char *data = NULL, *beside = NULL;
    outfile out = {0};
    int status = CLI_GOOD;
    if (a->beside) TRY(second_data(a, &beside));
    TRY(view_data(g, view, &data));
    TRY(outfile_open(a->output, &out));
    const view_page_of page = {view->title, data};
    if (a->beside)
        TRY(put_both(out.file, &page, &(view_page_of){title_of(a->beside), beside}));
    else
        view_page_put(out.file, &page);
    TRY(outfile_keep(&out));
done:
    outfile_drop(&out);
    hga_text_free(data);
    hga_text_free(beside);
    return status;
}

int run_view(int argc, char **argv)
{
    const option_part parts[] = {{&graph_list, offsetof(arguments, source), NULL, 0},
                                 {&weighing_list, offsetof(arguments, by), NULL, 0},
                                 {&chosen_head_list, offsetof(arguments, source.chosen), NULL, 0},
                                 {call_list(CALL_WHOLE), offsetof(arguments, by.call), "With --query and --key:", 10},
                                 {0}};
    const option_list line = {.rows = options, .parts = parts, .check = check, .words = "GRAPH|VARIANT", .says = doc};
    arguments a = {.max_edges = VIEW_MOST_EXPLICIT, .output = "view.html"};
    const graph_file *f = &a.source.file;
    row_edge_list edges = {0};
    hga_view view = {0};
    int status = CLI_GOOD;
    TRY(arguments_parse(&line, argc, argv, &a));
    weighing_chooses(&a.by, &a.source.chosen);
    a.source.has_tensors = 1;
    TRY(graph_argument_read(&a.source));
    weighing_of(&a.source.built, &a.by);
    view.title = a.source.path ? title_of(a.source.path) : a.source.title;
    view.program = f->text ? &f->program : NULL, view.max_edges = a.max_edges;
    if (a.by.tensors.query)
        TRY(view_weigh(&a.by, f, a.source.title, a.source.chosen.typed_head ? a.source.chosen.head : -1, a.quiet,
                       &edges, &view));
    TRY(write_page(&a, f->graph, &view));
done:
    free(edges.seen);
    free(edges.weight);
    free((void *)(uintptr_t)view.count);
    graph_argument_clear(&a.source);
    return status;
}
