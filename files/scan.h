/* scan.h: text being scanned (scan.c). */
#ifndef SCAN_H
#define SCAN_H

#include "import.h"

/* Starts scanning: skips a byte order mark, and converts lines that end in \r alone to \n. */
hga_status scan_start(import *x);
/* HGA_EFORMAT with the file's name and the line. */
hga_status scan_wrong(const import *x, const char *format, ...) HGA_PRINTF(2, 3);
/* Skips blanks, tabs and \r. */
void scan_blanks(import *x);
/* At the end of a line or of the text? */
int scan_at_line_end(const import *x);
/* Advances to the start of the next line, whatever is left of this one; 0 at the end of the text. */
int scan_next_line(import *x);
/* Reads an integer in [least, most] up to the next blank, comma, semicolon or end of line; `what` is its name in
   errors. */
hga_status scan_integer(import *x, const char *what, int64_t least, int64_t most, int64_t *out);
/* Reads a real number likewise. */
hga_status scan_real(import *x, const char *what, double *out);
/* Whether all of the n bytes are an integer of 64 bits, *out. */
int scan_text_integer(const char *text, int64_t n, int64_t *out);
/* Whether all of the n bytes are a number, *out, as strtod reads it but with a point in every locale, and not
   hexadecimal. */
int scan_text_real(const char *text, int64_t n, double *out);
/* Reads the weight of an edge from a text of n bytes. */
hga_status scan_weight(const import *x, const char *text, int64_t n, double *out);
/* Reads a word of at most capacity - 1 bytes up to a blank, comma, semicolon or end of line; returns its length. */
int64_t scan_word(import *x, char *out, int64_t capacity);

#endif
