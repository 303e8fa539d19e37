/* view_data.c: the page of hga view: its data, as libhga-files writes them, in the page's template. */
#include "view_data.h"

#include "complain.h"
#include "html.h"
#include "version.h"
#include "view_page.h"

int view_data(const hga_graph *g, const hga_view *shown, char **text)
{
    char tool[64];
    hga_view view = *shown;
    snprintf(tool, sizeof tool, "hga %s (%s)", hga_version(), BUILD_COMMIT);
    view.tool = tool;
    return complain_of(hga_graph_view(g, &view, text), CLI_OUTSIDE, view.title);
}

static void put_data(FILE *file, const void *page) { fputs(((const view_page_of *)page)->data, file); }

void view_page_put(FILE *file, const void *page)
{
    const html_mark marks[] = {{"title", ((const view_page_of *)page)->title, NULL}, {"graph", NULL, put_data}, {0}};
    html_fill(file, view_page, marks, page);
}

const char *view_template(void) { return view_page; }
