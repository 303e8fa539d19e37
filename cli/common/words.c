/* words.c: the words of a graph that was made of a text. */
#include "words.h"

#include <stdlib.h>

void words_clear(words *w)
{
    json_decref(w->document);
    free(w->text);
    *w = (words){0};
}
