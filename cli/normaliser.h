/* normaliser.h: --normaliser, what is done with the scores of a row. */
#ifndef CLI_NORMALISER_H
#define CLI_NORMALISER_H

#include "variant.h"

typedef struct typed_normaliser {
    int given;
    hga_normaliser kind;
    float bias;
} typed_normaliser;

/* softmax, sigmoid or sigmoid:B. */
int normaliser_read(const char *text, typed_normaliser *out);
/* Into the stages that attend; and its number into what a call brings. Nothing where the option was not given. */
int normaliser_put(const typed_normaliser *n, model *m);
void normaliser_bind(const typed_normaliser *n, hga_modifiers *to, hga_io *io);

#endif
