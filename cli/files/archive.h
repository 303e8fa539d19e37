/* archive.h: the arrays of a file: of a .npy, which is one, of a .npz or of a .safetensors (its header by jansson). */
#ifndef CLI_ARCHIVE_H
#define CLI_ARCHIVE_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "hga_npy.h"

/* Files hold types that are not read, such as FP8, beside others. */
typedef struct archived {
    const char *name, *type; /* "" of a .npy; of a .safetensors "F8_E4M3", as the file has it */
    int is_read;             /* `has` tells its type */
    hga_npy has;
    int64_t at, end; /* its elements' bytes in the stream */
} archived;

typedef struct archive {
    const char *path; /* as messages have it */
    FILE *stream;     /* the file, or the last member of a .npz that was looked at */
    int64_t n;
    archived *array;
    /* what it is made of */
    char *file, *unpacked; /* bytes in memory: of a pipe, of a member */
    size_t bytes;
    hga_npz *npz;
    json_t *header;
} archive;

/* What the first bytes say it is; "-" is standard input. The arrays of a .safetensors are known then, those of others
   by name. */
int archive_open(const char *path, archive *out);
/* What array i is, and the stream that has its elements. */
int archive_look(archive *a, int64_t i);
void archive_close(archive *a);

#endif
