/* attend_io.h: the tensors of `hga attend`, checked against each other, the variant and its graph. */
#ifndef CLI_ATTEND_IO_H
#define CLI_ATTEND_IO_H

#include "tensor_file.h"
#include "variant.h"

/* Paths as typed, NULL where an option was not. */
typedef struct attend_paths {
    const char *query, *key, *value, *out, *lse, *rel_key, *rel_bias, *node_pos, *edge_bias;
} attend_paths;

typedef struct attend_io {
    tensor_file query, key, value;
    npy rel_key, rel_bias, node_pos, edge_bias;
    npy sink, slopes;    /* modifiers.h */
    int rel_bias_shared; /* the file's one column is for all heads; 0: a column a head */
    hga_shape shape;
    hga_io io;
    hga_modifiers modifiers;      /* io's */
    hga_id out_rows;              /* of the caller's output, heads unfolded */
    float *node_pos_of;           /* node_pos in the graph's order, where that differs */
    float *wide_key, *wide_value; /* a key and value for each query head, where heads are folded */
    float *wide_bias;             /* rel_bias with a column a head, where that differs */
    float *out, *lse;
    int borrowed; /* what was read is somebody else's */
} attend_io;

/* Read all files, once, which for a pipe is the only time; check query, key and value against each other. */
int attend_io_read(const attend_paths *paths, tensor_layout layout, attend_io *a);
/* The same of query, key and value's sizes alone. */
int attend_io_read_sizes(const attend_paths *paths, tensor_layout layout, attend_io *a);
/* One sample of what was read, its arrays borrowed. */
attend_io attend_io_sample(const attend_io *all, hga_id sample);
/* What a variant needs to know of them. */
model_tensors attend_io_tensors(const attend_io *a);
/* The tables of scores alone, for who has tensors otherwise. */
int attend_io_read_tables(const attend_paths *paths, attend_io *a);
/* Check everything against the model, and fill a->io and a->shape. scale NULL: the program's. */
int attend_io_bind(const attend_paths *paths, const model *m, const double *scale, attend_io *a);
/* The same without room for outputs. */
int attend_io_bind_inputs(const attend_paths *paths, const model *m, const double *scale, attend_io *a);
void attend_io_clear(attend_io *a);

#endif
