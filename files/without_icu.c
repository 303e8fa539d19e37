/* without_icu.c: replaces text.c in builds without ICU. */
#include "text.h"

#include <string.h>

static hga_status refuse_text(size_t bytes)
{
    return hga_fail(HGA_EUNSUPPORTED,
                    "a text of %zu bytes needs ICU, which this library was built without (HGA_WITH_ICU=OFF)", bytes);
}

hga_status text_check(const char *text, size_t bytes)
{
    (void)text;
    return refuse_text(bytes);
}

hga_status text_words(const hga_allocator *a, const char *text, size_t bytes, hga_tree *out)
{
    return hga_tree_text(a, text, bytes, NULL, 0, out);
}

hga_status hga_tree_text(const hga_allocator *a, const char *text, size_t bytes, const char *locale, hga_id max_words,
                         hga_tree *out)
{
    (void)a, (void)text, (void)locale, (void)max_words;
    memset(out, 0, sizeof *out);
    return refuse_text(bytes);
}
