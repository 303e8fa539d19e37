/* typed_decoding.h: how tokens are fed, as typed: in which chunks, and what happens to the caches between them. */
#ifndef CLI_TYPED_DECODING_H
#define CLI_TYPED_DECODING_H

#include "arguments.h"

#include "typed_tensors.h"

enum { MOST_CHUNKS = 1024, LONGEST_RANDOM_CHUNK = 64, NEVER = -1 };

typedef struct typed_decoding {
    const char *chunks_text; /* NULL: none typed */
    int random_chunks, n_chunks;
    uint64_t seed;
    hga_id chunk[MOST_CHUNKS];
    hga_id fork_at, cut_at, back, save_at; /* NEVER; save_at NEVER with a file: at the end */
    const char *save, *resume;
    int same;
} typed_decoding;

/* Input is a typed_decoding. */
extern const option_list decoding_list;

/* Do the options go together, and with those of the tensors? */
int decoding_check(const typed_decoding *typed, const attend_paths *paths);
/* Are all moments among the tokens from `first` up to `end`, `first` of which a file has? */
int decoding_check_tokens(const typed_decoding *typed, hga_id first, hga_id end);
/* Tokens of chunk i. */
hga_id decoding_chunk(const typed_decoding *typed, uint64_t i);

#endif
