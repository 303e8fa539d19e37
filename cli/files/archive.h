/* archive.h: several tensors in one file: .npz (by libzip) and .safetensors (its header by jansson). */
#ifndef CLI_ARCHIVE_H
#define CLI_ARCHIVE_H

#include <stdint.h>
#include <stdio.h>

#include "element.h"

enum { ARCHIVE_MAX_DIMS = 8 };

/* FILE:NAME as typed; the whole is a FILE where one has that name, or is "-". Free `file`. */
typedef struct tensor_name {
    char *file;
    const char *name; /* in `file`'s memory, NULL without */
} tensor_name;
int tensor_name_split(const char *path, tensor_name *out);

/* A member of a .npz as its own .npy file, in *memory, for free() after the stream is closed; name NULL: the only
    one. */
int npz_open(const char *path, const char *name, FILE **stream, char **memory);
/* Each array by its name without ".npy", as its own file: at least its first `most` bytes, where it has as many. */
int npz_each(const char *path, int64_t most, int (*visit)(const char *name, FILE *stream, void *context),
             void *context);

/* Where one of a .safetensors' tensors lies. Files hold types that are not read, such as FP8, beside others. */
typedef struct safetensor {
    const char *type_name; /* "F8_E4M3", as the file has it, during a visit alone */
    int is_read;           /* `type` is its type; otherwise what it holds is nobody's here */
    element type;
    int n_dims;
    int64_t dim[ARCHIVE_MAX_DIMS], offset, bytes; /* from the file's beginning */
} safetensor;
int safetensors_find(const char *path, FILE *file, const char *name, safetensor *out);
int safetensors_each(const char *path, FILE *file, int (*visit)(const char *name, const safetensor *t, void *context),
                     void *context);

#endif
