/* view_data.h: the page of a graph, as hga view writes it and as hga run includes it. */
#ifndef CLI_VIEW_DATA_H
#define CLI_VIEW_DATA_H

#include <stdio.h>

#include "hga_view.h"

/* Explicit edges of a relation, beyond which they are left out. */
enum { VIEW_MOST_EXPLICIT = 200000 };

/* The data of a graph's page, for hga_text_free; this program is their tool. */
int view_data(const hga_graph *g, const hga_view *shown, char **text);

typedef struct view_page_of {
    const char *title;
    const char *data; /* view_data's */
} view_page_of;
/* The page of a view_page_of. */
void view_page_put(FILE *file, const void *page);
/* The page with {{title}} and {{graph}} as placeholders. */
const char *view_template(void);

#endif
