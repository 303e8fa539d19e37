/* attend_tree.h: the gradients of trees that route, of `hga attend`. */
#ifndef CLI_ATTEND_TREE_H
#define CLI_ATTEND_TREE_H

#include "attend_gradients.h"

int attend_tree_is_wanted(const attend_gradients *g);
/* The axes of the array that one of them, --grad-NAME, is the gradient of. */
int attend_tree_shape(const typed_variant *variant, gradient_of of, const char *name, int *n_dims, int64_t *dim);
/* Add a sample's. d_log_mass: of every node, in programs that compute scores. */
int attend_tree_add(const model *m, const attend_io *one, hga_id sample, const float *d_log_mass, attend_gradients *g);

#endif
