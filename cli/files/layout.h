/* layout.h: in which order the axes of a tensor's file are. */
#ifndef CLI_LAYOUT_H
#define CLI_LAYOUT_H

#include "complain.h"

/* NHD: [rows][heads][dim]; HND: heads first, as torch has them. A leading axis more is a batch of samples of equal
   length; BNHD and BHND insist on it. */
typedef enum tensor_layout { LAYOUT_NHD, LAYOUT_HND, LAYOUT_BNHD, LAYOUT_BHND } tensor_layout;

#define LAYOUT_WORDS "nhd hnd bnhd bhnd"
/* "[batch][heads][rows][dim]" */
const char *layout_axes(tensor_layout l);
int layout_heads_first(tensor_layout l);
int layout_batched(tensor_layout l);

/* [samples][a][b][columns] -> [samples][b][a][columns] in memory for free(). */
int layout_swap(const float *data, int64_t samples, int64_t a, int64_t b, int64_t columns, float **out);

#endif
