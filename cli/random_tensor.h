/* random_tensor.h: tensors to try things with. */
#ifndef CLI_RANDOM_TENSOR_H
#define CLI_RANDOM_TENSOR_H

#include <stdint.h>

/* Write a float32 .npy of standard normal numbers. `shape` is "8191x8x64", up to eight dimensions from 1 on; the same
   shape and seed give the same numbers on every machine with the same C library. */
int random_tensor_write(const char *shape, int64_t seed, const char *path);

#endif
