/* text_lines.h: the lines at which books, chapters, paragraphs or verses begin. Only files/ includes this. */
#ifndef TEXT_LINES_H
#define TEXT_LINES_H

#include "hga_documents.h"

enum level { BOOK, CHAPTER, PARAGRAPH, SENTENCE, WORD, N_LEVELS };

typedef struct mark { /* here something of that level begins */
    int32_t at;
    uint8_t level;
} mark;

typedef struct text_lines {
    const hga_allocator *a;
    char *text; /* a copy of the same length: labels and line ends inside paragraphs are blanks */
    int32_t bytes;
    int verses; /* rather than paragraphs */
    mark *marks;
    int64_t n_marks, mark_capacity;
} text_lines;

/* Reads UTF-8 text; the caller sets r->a and r->bytes and zeroes the rest, and clears r in any case. */
hga_status text_lines_read(text_lines *r, const char *text);
/* Frees the copy of the text and the marks. */
void text_lines_clear(text_lines *r);

#endif
