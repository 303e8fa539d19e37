/* utf8.h: characters of texts from outside. */
#ifndef CLI_UTF8_H
#define CLI_UTF8_H

#include <stddef.h>

/* How many bytes the character at `text` has, by RFC 3629; 0 when it is none. */
size_t utf8_bytes(const char *text);

#endif
