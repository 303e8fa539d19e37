/* output.h: numbers as text to a file that appears whole or not at all. For the sources of this
   project; not installed. */
#ifndef HGA_OUTPUT_H
#define HGA_OUTPUT_H

#include "file.h"

/* A file being written. */
typedef struct output {
    hga_file file;
    int error;   /* errno of the first write that failed; the later ones do nothing */
    size_t used; /* bytes that wait in the buffer */
    char buffer[1 << 14];
} output;

/* Opens a file that appears at `path` when output_close has succeeded. */
hga_status output_open(output *o, const char *path);
/* HGA_EIO once a write has failed, so that long loops can stop. */
hga_status output_check(const output *o);
/* With st = HGA_OK: flush, check and keep the file. Otherwise, and on failure: remove what was written.
   Returns the first failure. */
hga_status output_close(output *o, hga_status st);

/* Appends n bytes; output_check and output_close report failures. */
void output_bytes(output *o, const void *bytes, size_t n);
/* Appends a text without its final zero. */
void output_text(output *o, const char *text);
/* Appends an integer in decimal. */
void output_integer(output *o, int64_t value);
/* The shortest decimal that reads back as the same float, with a point in every locale. */
void output_real(output *o, float value);
/* Bytes that real_text needs. */
enum { REAL_BYTES = 64 };
/* Writes a number with so many digits, with a point in every locale, to `text`; returns it. */
char *digits_text(float value, int digits, char *text);
/* Writes a number as output_real does, to `text`; returns it. */
char *real_text(float value, char *text);

#endif
