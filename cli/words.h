/* words.h: the names of tokens, in the member `words` of a graph's JSON. */
#ifndef CLI_WORDS_H
#define CLI_WORDS_H

#include <jansson.h>

#include "complain.h"

/* One text a token, owned by `document`; NULL where the file has none. */
typedef struct words {
    json_t *document;
    const char **text;
} words;
/* `path` may be NULL or "-" (which cannot be read a second time): no words. Otherwise the file was read before, so it
   is a graph of n tokens. */
int words_read(const char *path, hga_id n, words *out);
void words_clear(words *w);

#endif
