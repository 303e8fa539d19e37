/* modifiers.h: what is done with scores, as typed: --normaliser, --softcap, --sink, --slopes. */
#ifndef CLI_MODIFIERS_H
#define CLI_MODIFIERS_H

#include <argp.h>
#include <jansson.h>

#include "attend_io.h"

typedef struct typed_modifiers {
    int has_normaliser;
    const char *words; /* of the normaliser */
    hga_normaliser normaliser;
    double alpha;              /* of entmax */
    float bias, softcap;       /* of sigmoids; 0: none typed */
    const char *sink, *slopes; /* files */
} typed_modifiers;

/* Input is a typed_modifiers. */
extern const struct argp modifiers_argp;

/* The program gets what stands with programs, and what the model cannot have is refused. */
int modifiers_put(const typed_modifiers *typed, model *m);
/* Their files, for all samples: what is not read yet modifiers_bind reads. */
int modifiers_read(const typed_modifiers *typed, attend_io *a);
/* The call gets the rest, after attend_io_bind: files have so many heads. */
int modifiers_bind(const typed_modifiers *typed, attend_io *a);
/* Was any typed? */
int modifiers_typed(const typed_modifiers *typed);
/* Those that were, by their options' names. */
json_t *modifiers_json(const typed_modifiers *typed);
/* Are zeros among the weights of what a row sees? */
int modifiers_make_zeros(const typed_modifiers *typed);

#endif
