/* npy_stream.h: arrays from streams, for npy_files.c, which knows what kinds of files there are. `name` is what
   messages call the stream. */
#ifndef CLI_NPY_STREAM_H
#define CLI_NPY_STREAM_H

#include <stdio.h>

#include "npy.h"

typedef struct npy_header {
    element type;
    hga_npy has; /* as the file says */
} npy_header;

/* The first bytes of a .npy file, up to its elements: not more than NPY_HEADER_BYTES. */
enum { NPY_MAX_HEADER = 1 << 16, NPY_HEADER_BYTES = 12 + NPY_MAX_HEADER };
/* What an array must hold: whole numbers, real ones, or real ones and -inf. */
enum { NPY_WHOLE, NPY_REAL, NPY_ENDLESS };
/* What is read: what it must hold; a part, or NULL, all; nothing but its sizes. */
typedef struct npy_wish {
    int holds, sizes;
    const npy_part *part;
} npy_wish;

/* The elements that a header tells of, from where the file stands; `alone`: nothing may follow. */
int npy_read_values(const char *name, FILE *file, const npy_header *h, const npy_wish *wish, int alone, npy *out);
/* Both. */
int npy_read_stream(const char *name, FILE *file, const npy_wish *wish, npy *out);

#endif
