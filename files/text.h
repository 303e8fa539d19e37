/* text.h: the words of a part of a document, for the readers of documents. Only files/ includes this. */
#ifndef TEXT_H
#define TEXT_H

#include "hga_documents.h"

/* hga_tree_text, but *out stays empty (n = 0) where there is no word. */
hga_status text_words(const hga_allocator *a, const char *text, size_t bytes, hga_tree *out);
/* Checks UTF-8; HGA_EFORMAT names the invalid byte. */
hga_status text_check(const char *text, size_t bytes);

#endif
