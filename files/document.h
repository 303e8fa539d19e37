/* document.h: a tree collected while a document is read from its start to its end: elements are opened and closed, the
   text between them is collected and split into sentences and words. Only files/ includes this. An element gets its
   node with its first word, so that elements without words have none. */
#ifndef DOCUMENT_H
#define DOCUMENT_H

#include "hga_documents.h"

enum { DOCUMENT_DEPTH = 200 };

/* Kinds of elements. */
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

/* Starts with the document itself open; document_end clears out on failure. */
void document_begin(document *d, const hga_allocator *a, hga_tree *out);
/* Flushes the text so far into the innermost element and opens a new element. */
hga_status document_open(document *d, int kind);
/* Flushes the text so far; closes the innermost element that is not a section, and the sections inside it. */
hga_status document_close(document *d);
/* Within the innermost element that is not a section, closes sections of this rank and lower ones, and opens a section
   whose name is the text of its heading, n bytes of UTF-8. */
hga_status document_section(document *d, int rank, const char *heading, int64_t n);
/* Appends text. */
hga_status document_text(document *d, const char *text, int64_t n);
/* Names the innermost element. */
hga_status document_name(document *d, const char *text, int64_t n);
/* Adds the collected text as words of the innermost element. */
hga_status document_flush(document *d);
/* With st = HGA_OK finishes the tree, without nodes whose only child is not a word; else clears it. */
hga_status document_end(document *d, hga_status st);

/* The code point that HTML gives that name ("eacute"); 0 if there is none. */
int html_character(const char *name);

#endif
