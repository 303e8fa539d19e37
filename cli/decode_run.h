/* decode_run.h: tensors are appended to caches, chunk after chunk, and outputs collected as rows; the times of that. */
#ifndef CLI_DECODE_RUN_H
#define CLI_DECODE_RUN_H

#include "attend_io.h"

/* How tokens are fed, as typed: in which chunks, and what happens to the caches between them. */
enum { MOST_CHUNKS = 1024, LONGEST_RANDOM_CHUNK = 64, NEVER = -1 };

/* Between chunks, each at a number of tokens. */
enum { FORK, CUT, SAVE, N_MOMENTS };

typedef struct typed_decoding {
    const char *chunks_text; /* NULL: none typed */
    int random_chunks, n_chunks;
    uint64_t seed;
    hga_id chunk[MOST_CHUNKS];
    hga_id at[N_MOMENTS], back; /* NEVER; with a file to save: at the end */
    const char *save, *resume;
    int same;
} typed_decoding;

/* Input is a typed_decoding. */
extern const option_list decoding_list;

/* Do the options fit together, and with those of the tensors? */
int decoding_check(const typed_decoding *typed, const attend_paths *paths);

/* What a run took. Zeroed: nothing yet. */
typedef struct decoded {
    hga_id tokens, resumed; /* of each sample; those that a file had */
    double *seconds;        /* [n_seconds]: of each token of each append, its share of the call */
    int64_t n_seconds, capacity, appends;
    int64_t most_bytes;  /* of the caches' pages: the most after any append .. */
    hga_id most_at;      /* .. which was with so many tokens */
    int64_t *level_rows; /* [n_levels]: rows that a cache then holds */
    hga_id n_levels;
    int64_t rows, workspace_bytes;
    double decoder_seconds;
    hga_cache *saved; /* of the file to be written; NULL without */
    hga_decoder *decoder;
    hga_decode_workspace *workspace;
    hga_pages *pages;
} decoded;

/* Appends the samples' tokens to a cache each, all in one call. Samples are bound (attend_io.h); sets out and lse. */
int decode_run(const typed_decoding *typed, const model *m, const hga_options *options, attend_io *sample, hga_id n,
               decoded *out);
void decoded_clear(decoded *d);

#endif
