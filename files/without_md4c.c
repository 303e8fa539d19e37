/* without_md4c.c: replaces document_markdown.c in builds without md4c. */
#include "hga_documents.h"

#include <string.h>

hga_status hga_tree_markdown(const hga_allocator *a, const char *text, size_t bytes, hga_tree *out)
{
    (void)a, (void)text;
    memset(out, 0, sizeof *out);
    return hga_fail(HGA_EUNSUPPORTED,
                    "%zu bytes of Markdown need md4c, which this library was built without (HGA_WITH_MD4C=OFF)", bytes);
}
