/* tensor_file.h: tensors of attention in files, whatever the order of their axes. */
#ifndef CLI_TENSOR_FILE_H
#define CLI_TENSOR_FILE_H

#include "complain.h"
#include "npy.h"

/* NHD: [rows][heads][dim]; HND: heads first, as torch has them. A leading axis more is a batch of samples of equal
   length; BNHD and BHND insist on it. */
typedef enum tensor_layout { LAYOUT_NHD, LAYOUT_HND, LAYOUT_BNHD, LAYOUT_BHND } tensor_layout;

#define LAYOUT_WORDS "nhd hnd bnhd bhnd"
int layout_heads_first(tensor_layout l);

/* [samples][a][b][columns] -> [samples][b][a][columns] in memory for free(). */
int layout_swap(const float *data, int64_t samples, int64_t a, int64_t b, int64_t columns, float **out);

/* Samples of a tensor, each [rows][heads][columns] whatever the file's layout; array.dim is one sample's. */
typedef struct tensor_file {
    npy array;
    hga_id samples, rows, heads, columns;
    int axes; /* of the file */
    tensor_layout layout;
} tensor_file;

typedef int tensor_reader(const char *path, tensor_layout layout, tensor_file *t);
tensor_reader tensor_file_read;
/* The same for a command that takes one sample. */
tensor_reader tensor_file_read_one;
/* What the tensor is, without its elements. */
tensor_reader tensor_file_read_sizes;
/* Heads and columns of a key fit a query. */
int tensor_file_check_pair(const tensor_file *query, const tensor_file *key);
/* One sample of each that fits the other. */
int tensor_file_read_pair(const char *query, const char *key, tensor_layout layout, tensor_file *q, tensor_file *k);
/* Reads the elements of some of the rows of a tensor whose sizes are known; t->rows is then their number. */
int tensor_file_read_rows(const char *path, const hga_interval *rows, int64_t n, tensor_file *t);
/* Refuses a program that reads other tensors than files are given for. */
int tensor_file_check_program(const hga_program *p);
/* Prints one line on stderr: what the query was understood to be. */
void tensor_file_say(const tensor_file *query);
/* n heads of it, from head `first` on, in place; `per`: rows of the call for each of its rows. */
hga_tensor tensor_file_heads(const tensor_file *t, hga_id first, hga_id n, hga_id per);
/* [rows][kv heads][columns] -> [rows][heads][columns], each head its group's, in memory for free(). */
int tensor_file_widen(const tensor_file *t, hga_id heads, float **out);

/* Write [samples][rows][heads][columns] in the axes and layout of the tensor `like`; columns 0: without that axis. */
int tensor_file_write(outfile *out, const tensor_file *like, hga_id rows, int64_t columns, element type,
                      const float *data);
/* Writes some of its `rows` rows, [samples][these rows][heads][columns] in `data`, into a file whose other rows
   others write; the header, too, if `header` says so. */
int tensor_file_write_rows(outfile *out, const tensor_file *like, hga_id rows, int64_t columns, element type,
                           const hga_interval *these, int64_t n, int header, const float *data);

#endif
