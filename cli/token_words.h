/* token_words.h: words of tokens from a file of their own. */
#ifndef CLI_TOKEN_WORDS_H
#define CLI_TOKEN_WORDS_H

#include <hga.h>

/* Give the graph's tokens the words of a file: a word a line, or, in .json, a list of texts or an object with such a
   list as `words`. The graph becomes another one. CLI_DATA where there are more or fewer words than tokens. */
int token_words_give(const char *path, hga_graph **graph);

#endif
