/* view_data.h: the page of a graph, as hga view writes it and as hga run includes it. */
#ifndef CLI_VIEW_DATA_H
#define CLI_VIEW_DATA_H

#include <stdint.h>
#include <stdio.h>

#include "hga_inspect.h"

/* Explicit edges of a relation, beyond which they are left out. */
enum { VIEW_MOST_EXPLICIT = 200000 };

/* What each query token's edges weigh, heads first_head .. first_head + heads - 1. */
typedef struct view_weights {
    hga_id heads, first_head;
    int64_t n;
    const hga_id *count;  /* [n_queries] edges of each query token, in order */
    const hga_seen *edge; /* [n] */
    const double *value;  /* [n][heads] */
} view_weights;

typedef struct view_source {
    const char *title;
    const hga_graph *graph;
    const hga_program *program; /* NULL without */
    int64_t max_edges;
    int nameless;                /* names come from elsewhere */
    const view_weights *weights; /* NULL without */
} view_source;

/* The page of a view_source; its data alone, a JSON object that may stand inside <script>. */
void view_page_put(FILE *file, const void *source);
void view_data_put(FILE *file, const void *source);
/* The page with {{title}} and {{graph}} as placeholders. */
const char *view_template(void);

#endif
