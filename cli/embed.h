/* embed.h: words become queries, keys and values without a model file. */
#ifndef CLI_EMBED_H
#define CLI_EMBED_H

#include "complain.h"

/* Tensors [n][heads][dim] of the words of a text. */
typedef struct embedding {
    hga_id n, heads, dim;
    float *query, *key, *value;
} embedding;

/* Word i is text[begin[i] .. end[i]). Its features are hashes of the word in lower case (ASCII letters) and of its
   three-letter pieces, so that like words are alike, and sines and cosines of its position; seeded random matrices
   project them. Keys lean towards queries, so that a word looks for its like and for its neighbours. */
int embed_words(const char *text, const int64_t *begin, const int64_t *end, hga_id n, hga_id heads, hga_id dim,
                uint64_t seed, embedding *out);
void embedding_clear(embedding *e);

#endif
