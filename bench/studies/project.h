/* project.h: the dense layers around attention, y = x W by OpenBLAS on one thread. */
#ifndef HGA_BENCH_PROJECT_H
#define HGA_BENCH_PROJECT_H

#include <stdint.h>

/* y [rows][columns] = x [rows][inner] * w [inner][columns] */
void project(int64_t rows, int inner, int columns, const float *x, const float *w, float *y);

#endif
