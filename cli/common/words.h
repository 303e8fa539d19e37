/* words.h: the words of a text, which become the member `words` of a graph's JSON. */
#ifndef CLI_WORDS_H
#define CLI_WORDS_H

#include <jansson.h>

#include "complain.h"

/* One text a token, owned by `document`; NULL where the file has none. */
typedef struct words {
    json_t *document;
    const char **text;
} words;
void words_clear(words *w);

#endif
