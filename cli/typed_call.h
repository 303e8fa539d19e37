/* typed_call.h: what a call has besides rows, as typed: an option for each row of hga_call_tables(), and
   --normaliser. Nothing here or in call_files.h knows a row by name, but for the bias that a normaliser's word sets. */
#ifndef CLI_TYPED_CALL_H
#define CLI_TYPED_CALL_H

#include <jansson.h>

#include "variant.h"

/* --normaliser: softmax, sigmoid, sigmoid:B, entmax:ALPHA. */
typedef struct typed_normaliser {
    const char *words; /* NULL: none typed */
    hga_normaliser which;
    double alpha; /* of entmax */
    float bias;   /* of sigmoids */
} typed_normaliser;
/* Can weights of a row's edges be zero? */
int normaliser_makes_zeros(const typed_normaliser *typed);

typedef struct typed_call {
    const char *text[HGA_N_TABLES]; /* by row, a file's path or a number; NULL: not typed */
    float number[HGA_N_TABLES];
    typed_normaliser normaliser;
} typed_call;

/* The rows that a command takes. */
typedef enum call_options {
    CALL_WITH_SUMS,     /* all that have an option */
    CALL_WHOLE,         /* but those that come to an output of their own */
    CALL_WITHOUT_EDGES, /* and but those of edges */
    CALL_OF_SHAPE,      /* those that are as long on every graph */
    CALL_OF_VARIANTS,   /* of these those that variants' own programs take */
    N_CALL_OPTIONS
} call_options;

/* Input is a typed_call. */
const option_list *call_list(call_options which);

/* Is the row a number, typed as such, and no file? */
int call_is_number(const hga_call_row *row);
/* Has it an option of its own? */
int call_has_option(const hga_call_row *row);
/* May it be an entry? */
int call_is_fit(const hga_call_row *row, double x);
/* "[types][dim]", into `text`; returns it. */
enum { CALL_SHAPE_CAPACITY = 64 };
const char *call_shape(const hga_call_row *row, char text[static CALL_SHAPE_CAPACITY]);

/* The first option that was typed, "--softcap", NULL: none was. */
const char *call_typed(const typed_call *typed);
/* What was typed, by the rows' names; and as text, "; softcap 50, sink s.npy", which `put` escapes. */
json_t *call_json(const typed_call *typed);
void call_tell(FILE *file, const typed_call *typed, void (*put)(FILE *file, const char *text));
/* Sets in the program what programs hold; refuses what the program cannot have, and what a call to it cannot have. */
int call_put(const typed_call *typed, model *m);
/* Sets in a plan's options what plans must know of the call. */
void call_plan(const typed_call *typed, hga_options *options);
/* Does the program hold the number that was typed? Otherwise the call has it. */
int call_is_put(const typed_call *typed, hga_call_table which);

/* ---- call_files.c: files of a call's tables, read, checked and bound by the rows of hga_call_tables() ---- */

/* Zeroed: nothing is read. */
typedef struct call_files {
    npy file[HGA_N_TABLES];
    float *made[HGA_N_TABLES]; /* what stands for a file: nodes in the graph's order, a column for each head */
    int borrowed;              /* files are borrowed: another call_files frees them */
} call_files;

/* Reads those that are not read yet: a pipe is read once. */
int call_files_read(const typed_call *typed, call_files *files);
/* The same files, borrowed. */
call_files call_files_attach(const call_files *files);
/* Binds them to a call of that shape, pos_dim as files say; reads those not read yet. `typed` must outlive the call:
   its numbers are bound. */
int call_files_bind(const typed_call *typed, const model *m, hga_shape *shape, call_files *files, hga_io *io);
/* Adds a gradient of what was bound, x, to `sum` in the order and shape of the file, or with `wide` columns, of
   which the file's are the first. */
void call_files_add(const call_files *files, const model *m, hga_call_table which, const float *x, int64_t n,
                    int64_t wide, float *sum);
void call_files_clear(call_files *files);

/* How many entries a table of the call has. */
int64_t call_entries(const model *m, const hga_shape *shape, const hga_io *io, hga_call_table which);
/* The types that the program reads in a table by type. */
int32_t call_types(const model *m, const hga_call_row *row);

#endif
