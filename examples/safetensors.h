/* safetensors.h: a file of named float32 tensors, as the Python package safetensors writes it: eight bytes of length,
   a header of JSON, then the numbers. Nothing of the file is believed before it was checked: a header that claims more
   than there is, tensors that overlap or leave a gap, shapes that are not their bytes, types other than F32. */
#ifndef SAFETENSORS_H
#define SAFETENSORS_H

#include <stdint.h>

enum { SAFETENSORS_AXES = 8, SAFETENSORS_SAID = 256 };

typedef struct safetensors_tensor {
    const char *name;
    int n_axes;
    int64_t length[SAFETENSORS_AXES];
    const float *data; /* row-major */
} safetensors_tensor;

typedef struct safetensors safetensors;

/* The file, read whole; NULL with one sentence in `said` where it is none. Freed with safetensors_free. */
safetensors *safetensors_read(const char *path, char said[SAFETENSORS_SAID]);
void safetensors_free(safetensors *s);
/* The tensor of that name, NULL without; it lives as long as the file. */
const safetensors_tensor *safetensors_named(const safetensors *s, const char *name);
/* What the header says of itself below that name ("__metadata__"), NULL without. */
const char *safetensors_about(const safetensors *s, const char *name);

#endif
