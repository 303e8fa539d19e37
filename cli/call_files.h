/* call_files.h: the files of what a call brings besides rows, read, checked and bound by the rows of
   hga_call_tables(). */
#ifndef CLI_CALL_FILES_H
#define CLI_CALL_FILES_H

#include "typed_call.h"

/* Zeroed: nothing is read. */
typedef struct call_files {
    npy file[HGA_N_TABLES];
    float *made[HGA_N_TABLES]; /* what stands for a file: nodes in the graph's order, a column for each head */
    int borrowed;              /* files are somebody else's */
} call_files;

/* Those that are not read yet: a pipe is read once. */
int call_files_read(const typed_call *typed, call_files *files);
/* The same files, borrowed. */
call_files call_files_lend(const call_files *files);
/* Into a call of that shape, whose pos_dim the files say; typed stays, its numbers are bound. What is not read yet is
   read. */
int call_files_bind(const typed_call *typed, const model *m, hga_shape *shape, call_files *files, hga_io *io);
/* A gradient of what was bound, x, added to `sum` in the order and shape of the file, or with `wide` columns, of which
   the file's are the first. */
void call_files_add(const call_files *files, const model *m, hga_call_table which, const float *x, int64_t n,
                    int64_t wide, float *sum);
void call_files_clear(call_files *files);

/* How many entries a table of the call has, and how many rows. */
int64_t call_rows(const model *m, const hga_shape *shape, const hga_io *io, hga_call_table which);
int64_t call_entries(const model *m, const hga_shape *shape, const hga_io *io, hga_call_table which);
/* The types that the program reads in a table by type. */
int32_t call_types(const model *m, const hga_call_row *row);

#endif
