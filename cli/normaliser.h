/* normaliser.h: --normaliser: softmax, sigmoid, sigmoid:B, entmax:ALPHA. */
#ifndef CLI_NORMALISER_H
#define CLI_NORMALISER_H

#include "variant.h"

typedef struct typed_normaliser {
    const char *words; /* NULL: none typed */
    hga_normaliser which;
    double alpha; /* of entmax */
    float bias;   /* of sigmoids */
} typed_normaliser;

int normaliser_read(const char *text, typed_normaliser *out);
/* The program gets it, if it can have it. */
int normaliser_put(const typed_normaliser *typed, model *m);
/* Are zeros among the weights of what a row sees? */
int normaliser_makes_zeros(const typed_normaliser *typed);
/* Has a stage that message? */
int sends(const hga_program *p, hga_message message);

#endif
