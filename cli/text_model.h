/* text_model.h: a variant on the words of a text. */
#ifndef CLI_TEXT_MODEL_H
#define CLI_TEXT_MODEL_H

#include "chosen_source.h"
#include "words.h"

/* The text (UTF-8, "-" is standard input) gives the tokens, as many as --tokens says or all, and their names; to hsa
   without branching or parent also the hierarchy of its chapters, paragraphs and sentences. */
int text_model_build(const char *path, const typed_variant *typed, const chosen_source *chosen, model *out,
                     words *names);

#endif
