/* dictionary.c: what libFuzzer's ParseOneDictionaryEntry and ParseDictionaryFile take and refuse. */
#define _GNU_SOURCE
#include "dictionary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As in the C locale, in which fuzzers run. */
static int is_blank(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static int is_printable(int c) { return c >= ' ' && c <= '~'; }

static int digit(int c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* The byte that begins at *at, which goes on to the next one; -1 where it is none. */
static int next_byte(const char **at, const char *end)
{
    const char *c = *at;
    if (*c != '\\') return (*at)++, (unsigned char)*c;
    if (end - c > 1 && (c[1] == '\\' || c[1] == '"')) return *at += 2, c[1];
    if (end - c < 4 || c[1] != 'x' || digit(c[2]) < 0 || digit(c[3]) < 0) return -1;
    *at += 4;
    return digit(c[2]) << 4 | digit(c[3]);
}

const char *dictionary_line(const char *line, uint8_t word[DICTIONARY_LONGEST], size_t *size)
{
    const char *end = line + strlen(line), *begin = line;
    *size = 0;
    while (end > line && is_blank((unsigned char)end[-1])) end--;
    while (begin < end && is_blank((unsigned char)*begin)) begin++;
    if (begin == end || *begin == '#') return NULL;
    if (end - begin < 3 || end[-1] != '"') return "no word in quotation marks ends it";
    end--;
    begin = memchr(begin, '"', (size_t)(end - begin));
    if (!begin) return "no quotation mark begins a word";
    if (++begin == end) return "the word is empty";
    while (begin < end) {
        if (!is_printable((unsigned char)*begin) && !is_blank((unsigned char)*begin))
            return "a byte is not printable: write it as \\xAB";
        int byte = next_byte(&begin, end);
        if (byte < 0) return "a backslash begins none of \\\\, \\\" and \\xAB";
        if (*size == DICTIONARY_LONGEST) return "a word has more than 64 bytes";
        word[(*size)++] = (uint8_t)byte;
    }
    return NULL;
}

long dictionary_read(const char *path, void (*take)(const uint8_t *word, size_t size), const char **why)
{
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0, size = 0;
    long number = 0;
    uint8_t word[DICTIONARY_LONGEST];
    if (!file) return -1;
    *why = NULL;
    while (!*why && getline(&line, &capacity, file) >= 0) {
        number++;
        *why = dictionary_line(line, word, &size);
        if (!*why && size) take(word, size);
    }
    free(line);
    fclose(file);
    return *why ? number : 0;
}
