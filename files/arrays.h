/* arrays.h: an open file of arrays. Only files/ includes this. */
#ifndef ARRAYS_H
#define ARRAYS_H

#include "hga_arrays.h"
#include "npz.h"

#include <jansson.h>

typedef struct array_entry {
    hga_array is;
    int64_t at, end; /* its elements' bytes in the stream */
    float *kept;     /* its elements, NULL until the caller reads them whole */
} array_entry;

struct hga_arrays {
    hga_allocator allocator;
    const hga_allocator *by; /* NULL: the C library's */
    char *path;              /* as messages have it */
    FILE *stream;            /* the file, or the member of a .npz that was unpacked last */
    int64_t n, capacity;
    array_entry *array; /* [capacity] */
    char *file;         /* the bytes of a pipe */
    int64_t n_file, file_capacity;
    npz *npz;
    uint8_t *member; /* unpacked */
    int64_t n_member, member_capacity;
    int64_t whole; /* the array that it is all of, -1: of none */
    json_t *header;
};

/* Lists the arrays of a .safetensors of that many bytes by its header. */
hga_status safetensors_open(hga_arrays *x, int64_t bytes);

#endif
