/* hga_view.h: a graph as the page of `hga view` shows it, and the colours of its pictures. */
#ifndef HGA_VIEW_H
#define HGA_VIEW_H

#include "hga_inspect.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the page shows beside the graph. Zeroed, it is the graph alone; title and tool are always given. Everything
   stays the caller's. */
typedef struct hga_view {
    const char *title, *tool;   /* the page's name, and the program that wrote it */
    const hga_program *program; /* NULL without */
    hga_pos max_edges;          /* the explicit edges of a relation that has more are left out */
    const char *const *word;    /* [n_words] names of nodes from 0 on, in place of the graph's; NULL: the graph's */
    hga_id n_words;
    hga_id heads, first_head; /* weights of heads first_head .. first_head + heads - 1; 0: without weights */
    hga_pos n_edges;          /* the query tokens' edges, token after token */
    const hga_id *count;      /* [n_queries] how many of them each query token has */
    const hga_seen *edge;     /* [n_edges] */
    const double *weight;     /* [n_edges][heads] */
} hga_view;

/* Write the data of the page as one JSON object that may stand inside <script>: the structure as it is stored, blocks
   as blocks and families as runs, so that it stays small whatever the number of edges. *text is yours: hga_text_free.
   HGA_ENOMEM. */
HGA_API hga_status hga_graph_view(const hga_graph *g, const hga_view *view, char **text);

/* What a colour stands for: a level of levels or a weight, at `at` in [0, 1]; kind number `at`. */
typedef enum hga_colours { HGA_COLOURS_LEVELS, HGA_COLOURS_WEIGHTS, HGA_COLOURS_KINDS } hga_colours;
/* The colour as 0xrrggbb. */
HGA_API uint32_t hga_view_colour(hga_colours of, double at);

#ifdef __cplusplus
}
#endif
#endif
