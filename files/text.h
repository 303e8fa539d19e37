/* text.h: the words of a piece of text, for those that read documents. Only files/ includes this. */
#ifndef TEXT_H
#define TEXT_H

#include "hga_documents.h"

/* hga_tree_text; *out stays empty (n = 0) where there is no word. */
hga_status text_words(const hga_allocator *a, const char *text, size_t bytes, hga_tree *out);
/* HGA_EFORMAT naming the byte that is not UTF-8. */
hga_status text_check(const char *text, size_t bytes);

#endif
