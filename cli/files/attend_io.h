/* attend_io.h: the tensors of `hga attend`, checked against each other, the variant and its graph. */
#ifndef CLI_ATTEND_IO_H
#define CLI_ATTEND_IO_H

#include "layout.h"
#include "npy.h"
#include "variant.h"

/* Samples of a tensor, each [rows][heads][columns] whatever the file's layout; array.dim is one sample's. */
typedef struct tensor_file {
    npy array;
    hga_id samples, rows, heads, columns;
    int axes; /* of the file */
    tensor_layout layout;
} tensor_file;

int tensor_file_read(const char *path, tensor_layout layout, tensor_file *t);
/* The same for a command that takes one sample. */
int tensor_file_read_one(const char *path, tensor_layout layout, tensor_file *t);
/* One line on stderr: what the query was understood to be. */
void tensor_file_say(const tensor_file *query);
/* [rows][kv heads][columns] -> [rows][heads][columns], each head its group's, in memory for free(). */
int tensor_file_widen(const tensor_file *t, hga_id heads, float **out);

/* Write [samples][rows][heads][columns] in the axes and layout of the tensor `like`; columns 0: without that axis. */
int tensor_file_write(outfile *out, const tensor_file *like, hga_id rows, int64_t columns, element type,
                      const float *data);

/* Paths as typed, NULL where an option was not. */
typedef struct attend_paths {
    const char *query, *key, *value, *out, *lse, *rel_key, *rel_bias, *node_pos, *edge_bias;
} attend_paths;

typedef struct attend_io {
    tensor_file query, key, value;
    npy rel_key, rel_bias, node_pos, edge_bias;
    int rel_bias_shared; /* axes of a file whose one column is for all heads; 0: a column a head */
    hga_shape shape;
    hga_io io;
    hga_modifiers modifiers;      /* io's */
    hga_id out_rows;              /* of the caller's output, heads unfolded */
    float *node_pos_of;           /* node_pos in the graph's order, where that differs */
    float *wide_key, *wide_value; /* a key and value for each query head, where heads are folded */
    float *out, *lse;
    int borrowed; /* query, key and value are somebody else's */
} attend_io;

/* Read query, key and value and check them against each other. */
int attend_io_read(const attend_paths *paths, tensor_layout layout, attend_io *a);
/* One sample of what was read, its arrays borrowed. */
attend_io attend_io_sample(const attend_io *all, hga_id sample);
/* What a variant needs to know of them. */
model_tensors attend_io_tensors(const attend_io *a);
/* Read the other tensors, check everything against the model, and fill a->io and a->shape. scale NULL: the program's.
   */
int attend_io_bind(const attend_paths *paths, const model *m, const double *scale, attend_io *a);
void attend_io_clear(attend_io *a);

#endif
