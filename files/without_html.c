/* without_html.c: replaces document_html.c in builds without libxml2. */
#include "document.h"

#include <string.h>

hga_status hga_tree_html(const hga_allocator *a, const char *text, size_t bytes, hga_tree *out)
{
    (void)a, (void)text;
    memset(out, 0, sizeof *out);
    return hga_fail(HGA_EUNSUPPORTED,
                    "%zu bytes of a page need libxml2, which this library was built without (HGA_WITH_XML=OFF)", bytes);
}

/* The characters that every writer escapes. */
int html_character(const char *name)
{
    static const struct {
        const char *name;
        int code;
    } known[] = {{"amp", '&'}, {"quot", '"'}, {"lt", '<'}, {"gt", '>'}, {"apos", '\''}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0) return known[i].code;
    return 0;
}
