/* attend_io.h: an execution's tensors, as typed and as read, checked against each other, the variant and its graph. */
#ifndef CLI_ATTEND_IO_H
#define CLI_ATTEND_IO_H

#include "arguments.h"

#include "typed_call.h"
#include "tensor_file.h"

/* Paths as typed, NULL where an option was not. */
typedef struct attend_paths {
    const char *query, *key, *value, *out, *lse, *edge_out;
} attend_paths;

/* --query, --key, --value, --out, --lse, --layout, --out-type, --quiet: input is a typed_tensors. */
typedef struct typed_tensors {
    attend_paths paths;
    tensor_layout layout;
    int out_type, quiet;
} typed_tensors;
extern const option_list tensors_list;

/* Are query, key and value there? */
int paths_check(const attend_paths *p);
/* Are all required tensors there? */
int tensors_check(const typed_tensors *typed);
/* The type in which results are written. */
element tensors_out_type(const typed_tensors *typed, const tensor_file *query);

/* What an execution writes. */
enum { MADE_OUT, MADE_LSE, MADE_EDGE_OUT, N_MADE };

typedef struct attend_io {
    tensor_file query, key, value;
    call_files tables; /* borrowed: so are the tensors */
    head_part part;    /* the heads that are called */
    hga_shape shape;
    hga_io io;
    hga_id out_rows;              /* of the caller's output, heads unfolded */
    float *wide_key, *wide_value; /* a key and value for each query head, where heads are folded */
    float *made[N_MADE];          /* NULL: not requested */
} attend_io;

/* Reads all files, once, which for a pipe is the only time: query, key and value, or their sizes alone, by `read`;
   checks these against each other. call NULL: there are no tables. */
int attend_io_read(const attend_paths *paths, const typed_call *call, tensor_layout layout, tensor_reader read,
                   attend_io *a);
/* One sample of what was read, its arrays borrowed. */
attend_io attend_io_sample(const attend_io *all, hga_id sample);
/* The heads of chooser i of so many: heads that choose for themselves have a graph, and a part of the call, each. */
head_part part_of(const attend_io *all, hga_id i, hga_id parts);
/* One sample of what was read, these heads of it: tables by head are cut. Release with attend_io_part_clear. */
int attend_io_part(const attend_io *all, hga_id sample, const head_part *p, attend_io *one);
void attend_io_part_clear(const attend_io *all, attend_io *one);
/* Which axis of a table's file has the heads; -1: none, it is the same for all. */
int part_axis(const hga_call_row *row, const npy *a, hga_id heads);
/* What a variant needs to know of the tensors. */
model_tensors attend_io_tensors(const attend_io *a);
/* Check everything against the model, which call_put has seen, and fill a->io and a->shape. */
int attend_io_bind(const attend_paths *paths, const typed_call *call, const model *m, attend_io *a);
/* The same without allocating outputs. */
int attend_io_bind_inputs(const attend_paths *paths, const typed_call *call, const model *m, attend_io *a);
/* Numbers of an output for each row and head; 0: one, without an axis of its own. */
int64_t attend_io_columns(const attend_io *a, int made);
void attend_io_clear(attend_io *a);

#endif
