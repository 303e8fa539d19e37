/* counted.h: "1 row", "2 rows", in texts for people. For the sources of this project; not installed. */
#ifndef HGA_COUNTED_H
#define HGA_COUNTED_H

#include <stdint.h>
#include <stdio.h>

typedef struct counted_words {
    char text[64];
} counted_words;

/* The number and the noun, with an s unless there is one. */
static inline counted_words counted(int64_t n, const char *noun)
{
    counted_words x;
    snprintf(x.text, sizeof x.text, "%lld %s%s", (long long)n, noun, n == 1 ? "" : "s");
    return x;
}

#endif
