/* document.h: a tree collected while a document is read from its start to its end: elements are opened and closed,
   text is gathered between them and becomes sentences and words. Only files/ includes this.

   An element gets its node when it gets its first word, so that what holds no words leaves nothing. */
#ifndef DOCUMENT_H
#define DOCUMENT_H

#include "hga_documents.h"

enum { DOCUMENT_DEPTH = 200 };

/* What elements are called. */
enum document_kind {
    IS_WORD,
    IS_SENTENCE,
    IS_PART, /* of one text: paragraphs and chapters that hga_tree_text finds */
    IS_DOCUMENT,
    IS_SECTION,
    IS_HEADING,
    IS_PARAGRAPH,
    IS_LIST,
    IS_ITEM,
    IS_QUOTE,
    IS_CODE,
    IS_TABLE,
    IS_ROW,
    IS_CELL,
    IS_BLOCK
};

typedef struct open_element {
    hga_id node;  /* -1: no word yet */
    uint8_t kind; /* document_kind */
    int rank;     /* of a section: its heading's, 1 the highest; else 0 */
    int64_t name; /* in the texts, -1 without */
} open_element;

typedef struct document {
    const hga_allocator *a;
    hga_tree *tree;
    int64_t parent_capacity, kind_capacity, leaf_capacity, name_capacity;
    int depth, too_deep; /* elements that are open; those beyond, which count as their parent */
    open_element open[DOCUMENT_DEPTH];
    char *block; /* text that was gathered since the last flush, white space as one blank */
    int64_t block_bytes, block_capacity;
} document;

/* Start with the document itself open; out is cleared on failure by document_end. */
void document_begin(document *d, const hga_allocator *a, hga_tree *out);
/* The text so far belongs to the innermost element; a new element begins. */
hga_status document_open(document *d, int kind);
hga_status document_close(document *d);
/* Inside of the innermost element that is no section, sections of that rank and below end, and one begins that is
   called after the text of its heading, n bytes of UTF-8. */
hga_status document_section(document *d, int rank, const char *heading, int64_t n);
/* More text. */
hga_status document_text(document *d, const char *text, int64_t n);
/* What the innermost element is called. */
hga_status document_name(document *d, const char *text, int64_t n);
/* What was gathered becomes words of the innermost element. */
hga_status document_flush(document *d);
/* With st = HGA_OK finish the tree, without a node that has but one child that is no word; else clear it. */
hga_status document_end(document *d, hga_status st);

/* The number of the character that HTML calls by that name ("eacute"); 0: none. */
int html_character(const char *name);

#endif
