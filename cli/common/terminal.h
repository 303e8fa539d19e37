/* terminal.h: names from outside, printed where a terminal may be. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdio.h>

/* How many bytes the character at `text` has, by RFC 3629; 0 when it is none. */
size_t utf8_bytes(const char *text);

/* Control characters, of C0, DEL and C1 alike, and bytes that are not UTF-8 are shown (\n, \x1b), so that no name
   moves the cursor or rings the bell. */
void terminal_text(FILE *file, const char *text);
/* The same into `shown`, cut at whole characters to its capacity. Returns `shown`. */
const char *terminal_show(const char *text, char *shown, size_t capacity);

/* Several lines: newlines stay. */
void terminal_lines(FILE *file, const char *text);

#endif
