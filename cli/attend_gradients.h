/* attend_gradients.h: the backward pass of `hga attend`: gradients that are given, wanted, computed and written. */
#ifndef CLI_ATTEND_GRADIENTS_H
#define CLI_ATTEND_GRADIENTS_H

#include "attend_io.h"

typedef enum gradient_of {
    GRADIENT_QUERY,
    GRADIENT_KEY,
    GRADIENT_VALUE,
    GRADIENT_TABLE, /* that of row t is GRADIENT_TABLE + t */
    N_GRADIENTS = GRADIENT_TABLE + HGA_N_TABLES
} gradient_of;

/* As typed, NULL where an option was not; and dropout, which forward and backward share. */
typedef struct gradient_arguments {
    const char *out, *lse, *edge_out, *wanted[N_GRADIENTS];
    double dropout;
    int64_t seed;
    hga_id layer;
    int seeded;
} gradient_arguments;

/* --grad-*, --dropout, --seed, --layer: input is a gradient_arguments. */
const option_list *gradient_list(void);
/* "rel-key", of --grad-rel-key; and that. */
const char *gradient_name(gradient_of of);
const char *gradient_option(gradient_of of);
/* Of a call's table, else NULL. */
const hga_call_row *gradient_row(gradient_of of);

/* Are any wanted? */
int gradients_wanted(const gradient_arguments *typed);
/* Weights are dropped where there are any. */
int gradients_bind_dropout(const gradient_arguments *typed, const model *m, attend_io *one);
/* What was typed fits together and with what attend reads and writes. */
int gradients_check(const gradient_arguments *typed, const attend_paths *paths, const typed_call *call);

/* What all samples give: of query, key and value a slice a sample, of what samples share the sum. */
typedef struct attend_gradients {
    const gradient_arguments *typed;
    tensor_file out, edge_out; /* given */
    npy lse;                   /* given, [samples][rows][heads] */
    float *sum[N_GRADIENTS];
    int n_dims[N_GRADIENTS]; /* of the file, and its axes; query, key and value have their tensors' */
    int64_t dim[N_GRADIENTS][NPY_MAX_DIMS];
} attend_gradients;

/* Read what is given, --grad-out, or its sizes alone, by `read`. */
int gradients_open(const gradient_arguments *typed, const attend_io *all, tensor_reader read, attend_gradients *g);
/* What is given fits a bound sample. */
int gradients_check_given(const attend_gradients *g, const model *m, const attend_io *one);

/* The engine's arrays of a sample, [n]. */
typedef struct sample_gradients {
    float *of[N_GRADIENTS];
    int64_t n[N_GRADIENTS];
} sample_gradients;

/* A call's gradients, each where `of` has it. */
hga_grad_io gradients_bind(const hga_io *io, float *d_out, float *d_lse, float *const of[N_GRADIENTS]);
/* Forward with a tape, and back, by a plan that is the caller's then. */
int gradients_execute(const model *m, hga_options options, const hga_shape *shape, const hga_io *io,
                      const hga_grad_io *grad, hga_plan **plan);
/* What the engine is given and asked for; and what it has found, added to the sums. */
int gradients_open_sample(const model *m, const attend_io *all, const attend_io *one, hga_id sample,
                          attend_gradients *g, sample_gradients *s, hga_grad_io *grad);
void gradients_add_sample(const model *m, const attend_io *all, const attend_io *one, hga_id sample,
                          const sample_gradients *s, attend_gradients *g);
void gradients_close_sample(sample_gradients *s);
/* The tensor that it is the gradient of, NULL: what samples share. */
const tensor_file *gradient_tensor(const attend_io *a, gradient_of of);

/* Execute a bound sample and go back: its output is where a's is, its gradients are added to the sums. */
int gradients_run(const model *m, const hga_options *options, const attend_io *all, hga_id sample, attend_io *one,
                  attend_gradients *g);
/* Into their files. */
int gradients_write(const attend_io *all, element type, const attend_gradients *g, outfile file[static N_GRADIENTS]);
void gradients_clear(attend_gradients *g);

#endif
