/* dictionary.h: the dictionaries of libFuzzer, by its own rules. */
#ifndef HGA_FUZZ_DICTIONARY_H
#define HGA_FUZZ_DICTIONARY_H

#include <stddef.h>
#include <stdint.h>

enum { DICTIONARY_LONGEST = 64 }; /* bytes of a word; libFuzzer leaves out a longer one */

/* One line, without its newline:  "WORD"  or  name="WORD" , blanks around it. A byte of a word is printable, a blank,
   or one of \\, \" and \xAB. Returns NULL and the word's length, 0 where the line is empty or a comment; else what is
   wrong with the line, at which libFuzzer would not start. */
const char *dictionary_line(const char *line, uint8_t word[DICTIONARY_LONGEST], size_t *size);

/* A file's lines one after the other: each word is given to `take`. Returns 0; else the number of the line that is
   wrong, and why; -1 where the file cannot be read. */
long dictionary_read(const char *path, void (*take)(const uint8_t *word, size_t size), const char **why);

#endif
