/* A hierarchy of your own: a website of pages, sections and sentences. A sentence attends to its section's sentences,
   and from afar to the other sections of its page, to the other pages, and to what its page links to, each standing for
   all of its sentences. Written to JSON, read back, run again. */
#include <hga.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sentences in each section; sections in each page. */
enum { N_PAGES = 4, N_SECTIONS = 9, MAX_SENTENCES = 64, DIM = 16 };
static const hga_id sections_of[N_PAGES] = {3, 1, 3, 2};
static const hga_id sentences_of[N_SECTIONS] = {4, 7, 2, 9, 1, 5, 3, 6, 8};
static const hga_id links[][2] = {{0, 1}, {0, 3}, {2, 0}, {3, 2}}; /* from page, to page */

static float q[MAX_SENTENCES][DIM], k[MAX_SENTENCES][DIM], v[MAX_SENTENCES][DIM], out[MAX_SENTENCES][DIM],
    again[MAX_SENTENCES][DIM];

/* The levels, who belongs to whom, and three relations. A family is one block: all to all, or all to all but oneself.
   */
static hga_status build_site(hga_graph **g)
{
    hga_status st;
    hga_builder *b = NULL;
    hga_id n_sentences = 0, section, page, site, near, far, link;
    for (hga_id s = 0; s < N_SECTIONS; s++) n_sentences += sentences_of[s];
    HGA_TRY(hga_builder_create(NULL, &b));
    HGA_TRY(hga_builder_add_level(b, n_sentences, NULL));
    HGA_TRY(hga_builder_add_level(b, N_SECTIONS, &section));
    HGA_TRY(hga_builder_add_level(b, N_PAGES, &page));
    HGA_TRY(hga_builder_add_level(b, 1, &site));
    HGA_TRY(hga_builder_add_relation(b, "near", &near));
    HGA_TRY(hga_builder_add_relation(b, "far", &far));
    HGA_TRY(hga_builder_add_relation(b, "link", &link));
    for (hga_id s = 0, first = 0; s < N_SECTIONS; first += sentences_of[s++]) {
        HGA_TRY(hga_builder_set_children(b, section + s, first, sentences_of[s]));
        HGA_TRY(hga_builder_add_block(b, near, first, sentences_of[s], first, sentences_of[s], 0));
    }
    for (hga_id p = 0, first = section; p < N_PAGES; first += sections_of[p++]) {
        HGA_TRY(hga_builder_set_children(b, page + p, first, sections_of[p]));
        hga_block others = {
            .dst = first, .n_dst = sections_of[p], .src = first, .n_src = sections_of[p], .shape = HGA_OFF_DIAGONAL};
        HGA_TRY(hga_builder_add_blocks(b, far, &others));
    }
    HGA_TRY(hga_builder_set_children(b, site, page, N_PAGES));
    HGA_TRY(hga_builder_add_blocks(
        b, far, &(hga_block){.dst = page, .n_dst = N_PAGES, .src = page, .n_src = N_PAGES, .shape = HGA_OFF_DIAGONAL}));
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) /* who links is the one that looks */
        HGA_TRY(hga_builder_add_edge(b, link, page + links[i][1], page + links[i][0], 0, 1));
    HGA_TRY(hga_builder_finish(b, g));
done:
    hga_builder_destroy(b);
    return st;
}

/* Means go up, every node attends to its sources by mass, links count once more, and what a page has seen is merged
   into its sections, theirs into sentences. */
static hga_status site_program(const hga_graph *g, hga_program *p)
{
    hga_status st;
    hga_id query, key, value, state;
    hga_program_init(p);
    HGA_TRY(hga_program_add_field(p, "query", HGA_WIDTH_KEY, HGA_IO_QUERY, HGA_ROWS_QUERIES, HGA_ROWS_NODES, &query));
    HGA_TRY(hga_program_add_field(p, "key", HGA_WIDTH_KV_KEY, HGA_IO_KEY, HGA_ROWS_KEYS, HGA_ROWS_NODES, &key));
    HGA_TRY(hga_program_add_field(p, "value", HGA_WIDTH_VALUE, HGA_IO_VALUE, HGA_ROWS_KEYS, HGA_ROWS_NODES, &value));
    HGA_TRY(hga_program_add_field(p, "out", HGA_WIDTH_STATE, HGA_IO_OUT, HGA_ROWS_QUERIES, HGA_ROWS_NODES, &state));
    HGA_TRY(hga_program_coarsen(p, query));
    HGA_TRY(hga_program_coarsen(p, key));
    HGA_TRY(hga_program_coarsen(p, value));
    HGA_TRY(hga_program_attend(p, hga_graph_find_relation(g, "near"), query, key, value, state, 1));
    HGA_TRY(hga_program_attend_more(p, hga_graph_find_relation(g, "far"), query, key, value, state, 1));
    HGA_TRY(hga_program_attend_more(p, hga_graph_find_relation(g, "link"), query, key, value, state, 1));
    HGA_TRY(hga_program_spread(p, HGA_TREE_DOWN, state));
done:
    return st;
}

static hga_status attend(const hga_graph *g, const hga_program *p, float result[MAX_SENTENCES][DIM])
{
    hga_shape shape = {.n_heads = 1, .dim = DIM};
    int64_t n = hga_graph_nodes(g).n_queries;
    hga_io io = {.query = {.data = q, .rows = n},
                 .key = {.data = k, .rows = n},
                 .value = {.data = v, .rows = n},
                 .out = {.data = result, .rows = n}};
    return hga_attention(g, p, &shape, NULL, &io);
}

/* Into a file and back. */
static hga_status there_and_back(const hga_graph *g, const hga_program *p, const char *path, hga_graph **g2,
                                 hga_program *p2)
{
    hga_status st = hga_program_write_file(p, g, path);
    return st ? st : hga_program_read_file(NULL, path, g2, p2);
}

/* The mean of x over the sentences a node stands for, in double. */
static void mean_of(const hga_nodes *n, hga_id node, float x[MAX_SENTENCES][DIM], double mean[DIM])
{
    memset(mean, 0, DIM * sizeof *mean);
    for (hga_id i = n->span_first[node]; i <= n->span_last[node]; i++)
        for (int c = 0; c < DIM; c++) mean[c] += (double)x[i][c] / (double)n->mass[node];
}

/* Sentence i by the definition: one softmax over the in-edges of the sentence, of its section and of its page, each as
   the mean of its sentences. */
static hga_status error_of(const hga_graph *g, hga_id i, double *error)
{
    hga_status st = HGA_OK;
    hga_nodes n = hga_graph_nodes(g);
    double total = 0, sum[DIM] = {0};
    hga_csr row = {0};
    for (hga_id a = i; a >= 0; a = n.parent[a]) {
        double qa[DIM], ku[DIM], vu[DIM];
        mean_of(&n, a, q, qa);
        for (hga_id r = 0; r < n.n_relations; r++) {
            HGA_TRY(hga_graph_rows(g, r, a, 1, &row));
            for (hga_pos e = 0; e < row.ptr[1]; e++) {
                double s = 0;
                mean_of(&n, row.src[e], k, ku), mean_of(&n, row.src[e], v, vu);
                for (int c = 0; c < DIM; c++) s += qa[c] * ku[c];
                double p = (double)n.mass[row.src[e]] * exp(s / sqrt(DIM));
                total += p;
                for (int c = 0; c < DIM; c++) sum[c] += p * vu[c];
            }
            hga_csr_clear(&row);
        }
    }
    for (int c = 0; c < DIM; c++) *error = fmax(*error, fabs(sum[c] / total - (double)out[i][c]));
done:
    return st;
}

/* Uniform in [0, 1]. */
static void randomise(float x[MAX_SENTENCES][DIM])
{
    for (int i = 0; i < MAX_SENTENCES * DIM; i++) (&x[0][0])[i] = (float)rand() / (float)RAND_MAX;
}

int main(void)
{
    hga_status st;
    hga_graph *g = NULL, *g2 = NULL;
    hga_program p, p2;
    double error = 0;
    randomise(q), randomise(k), randomise(v);

    HGA_TRY(build_site(&g));
    HGA_TRY(site_program(g, &p));
    HGA_TRY(attend(g, &p, out));
    hga_id n_sentences = hga_graph_nodes(g).n_queries;
    for (hga_id i = 0; i < n_sentences; i++) HGA_TRY(error_of(g, i, &error));
    HGA_TRY(there_and_back(g, &p, "website.json", &g2, &p2));
    HGA_TRY(attend(g2, &p2, again));

    int same = memcmp(out, again, sizeof out) == 0;
    printf("%d sentences, largest difference from the definition %.1e, after a trip through website.json %s\n",
           n_sentences, error, same ? "the same bits" : "OTHER BITS");
    hga_graph_destroy(g);
    hga_graph_destroy(g2);
    return same && error < 1e-5 ? 0 : 1;
done:
    fprintf(stderr, "%s: %s\n", hga_status_name(st), hga_error_detail());
    hga_graph_destroy(g);
    hga_graph_destroy(g2);
    return 1;
}
