/* character_model.h: queries, keys and values of a trained model of characters, as examples/python/train/characters.py
   leaves it in FOLDER/model.safetensors. A character begins as the sum of its own embedding, its place's and those of
   the characters before it; LayerNorm and one projection make query, key and value of that. */
#ifndef CLI_CHARACTER_MODEL_H
#define CLI_CHARACTER_MODEL_H

#include "embed.h"
#include "npy.h"

enum { CHARACTERS_BACK = 16 };

/* Zeroed it is empty. */
typedef struct character_model {
    const char *folder;
    hga_id heads, dim;
    int64_t width, context; /* heads * dim; places */
    char *letters;          /* UTF-8, one after the other: embeddings' rows */
    int n_back;             /* characters before the own one that have a say */
    npy letter[CHARACTERS_BACK + 1], place, scale, shift, project, bias;
} character_model;

/* The model's first layer. */
int character_model_read(const char *folder, character_model *out);
void character_model_clear(character_model *m);

/* A word has what the model makes of its last character, which has the ones before it in it; texts longer than the
   model's context go on at its first place. White space that is no letter of the model's counts as its space; what else
   it has no letter for is left out, and counted. */
int character_model_embed(const character_model *m, const char *text, const int64_t *begin, const int64_t *end,
                          hga_id n, embedding *out);

#endif
