/* strokes.h: letters as lines, for pictures made of pixels. */
#ifndef CLI_STROKES_H
#define CLI_STROKES_H

#include <stdint.h>

/* A letter is drawn in a box of 4 x 6 units above the baseline (2 more below it), one next to the other every
   LETTER_ADVANCE units. */
#define LETTER_ADVANCE 5.4

/* The lines of a character: points as two digits x y (y = 0 is the top of capitals, 6 the baseline), lines with a space
   between; a box for what is not ASCII. */
const char *letter_lines(uint32_t character);

/* The next character of UTF-8 text; *text moves on. Bytes that are not UTF-8 count one each. */
uint32_t next_character(const char **text);

#endif
