/* hga_documents.h: hierarchies found in texts, pages and clusterings: trees for hga_build_hsa and
   hga_graph_set_names. */
#ifndef HGA_DOCUMENTS_H
#define HGA_DOCUMENTS_H

#include "hga_builders.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Read a file whole, "-" for stdin, without a UTF-8 byte order mark: *bytes bytes, of any value, and a zero byte, for
   hga_text_free. HGA_EIO names the file, HGA_ENOMEM. */
HGA_API hga_status hga_document_load(const char *path, char **text, size_t *bytes);

/* Cut text (UTF-8) into chapters (headings: a line that says CHAPTER, BOOK, PART or a numeral alone, or Markdown's #),
   paragraphs (blank lines), sentences and words (ICU break iterators for `locale`, NULL: root), as far as the text has
   them: a level with one member everywhere is left out. Lines like "Gen1:1 In the .." (book, chapter, verse) give that
   hierarchy. Words with no letter, digit or symbol are skipped. At most max_words words (0: all). Invalid UTF-8 is
   HGA_EFORMAT naming the byte. */
HGA_API hga_status hga_tree_text(const hga_allocator *a, const char *text, size_t bytes, const char *locale,
                                 hga_id max_words, hga_tree *out);

/* Read HTML (libxml2's parser, which closes elements that are left open) as the tree of its elements: a heading opens a
   section, which ends at the next heading of its rank or a higher one; paragraphs, lists, items, quotes, code, tables,
   rows, cells and other blocks are nodes, their text sentences (where there are several) and words, the leaves, in
   reading order. An element without words is left out; of one that contains only another element one node is left,
   which is code where the inner one is. Scripts, styles and the head are not text; the title is the root's name.
   HGA_EFORMAT without a word. */
HGA_API hga_status hga_tree_html(const hga_allocator *a, const char *text, size_t bytes, hga_tree *out);
/* Read Markdown (UTF-8; CommonMark with tables, ~~struck~~ words and boxes of lists, by md4c) as hga_tree_html reads
   the page that it renders to: parts that are not text there (addresses, link definitions, texts of pictures, comments)
   are not text here. HGA_EFORMAT without a word, or for invalid UTF-8. */
HGA_API hga_status hga_tree_markdown(const hga_allocator *a, const char *text, size_t bytes, hga_tree *out);
/* Make a tree of scipy.cluster.hierarchy's linkage, [n_merges][4] = two clusters, their distance, observations:
   observation i is leaf and node i, the cluster of merge i node n_merges + 1 + i. HGA_EFORMAT for a cluster that does
   not exist yet or was joined before. */
HGA_API hga_status hga_tree_linkage(const hga_allocator *a, const double *linkage, hga_id n_merges, hga_tree *out);

#ifdef __cplusplus
}
#endif
#endif
