/* row_bits.h: a set of some of n rows, as bits. Above each word is a bit that tells whether it may hold any, and above
   each word of those another, so that finding the next row and clearing cost in proportion to the set, plus a 262144th
   of n: one token of a decoder needs single rows of many sets. */
#ifndef ROW_BITS_H
#define ROW_BITS_H

#include "carve.h"

#include <string.h>

enum { WORD_BITS = 64 };

typedef struct row_bits {
    uint64_t *word, *above, *top; /* [words_of(n)], a bit for each of those, and a bit for each of those words */
    int64_t n;                    /* 0: the set is empty and takes none */
    int64_t low, high;            /* only words [low, high) may hold any */
} row_bits;

static const row_bits no_bits = {NULL, NULL, NULL, 0, 0, 0};

/* The word of bit i; i >= 0, so that shift and mask divide. */
static inline int64_t word_of(int64_t i) { return (int64_t)((uint64_t)i / WORD_BITS); }
/* The number of bit i in its word, i >= 0. */
static inline int shift_of(int64_t i) { return (int)((uint64_t)i % WORD_BITS); }
/* Bit i in its word. */
static inline uint64_t bit_of(int64_t i) { return UINT64_C(1) << shift_of(i); }
/* Words of n bits. */
static inline int64_t words_of(int64_t n) { return word_of(n + WORD_BITS - 1); }

/* Carves bits for n rows; the arena's memory must be cleared. */
static inline row_bits bits_carve(carver *arena, int64_t n)
{
    const int64_t words = words_of(n), aboves = words_of(words);
    uint64_t *word = carve(arena, words, sizeof *word), *above = carve(arena, aboves, sizeof *above);
    return (row_bits){.word = word, .above = above, .top = carve(arena, words_of(aboves), sizeof *word), .n = n};
}

static inline int bits_have(const row_bits *b, int64_t i) { return (int)(b->word[word_of(i)] >> shift_of(i) & 1); }

static inline void bits_put_word(row_bits *b, int64_t w, uint64_t rows)
{
    b->word[w] |= rows;
    if (!rows) return;
    b->above[word_of(w)] |= bit_of(w);
    b->top[word_of(word_of(w))] |= bit_of(word_of(w));
    if (w < b->low || b->low == b->high) b->low = w;
    if (w >= b->high) b->high = w + 1;
}
static inline void bits_put(row_bits *b, int64_t i) { bits_put_word(b, word_of(i), bit_of(i)); }
static inline void bits_take(row_bits *b, int64_t i) { b->word[word_of(i)] &= ~bit_of(i); }

/* Those of rows [first, end) in word w. */
static inline uint64_t bits_between(int64_t w, int64_t first, int64_t end)
{
    uint64_t from = first > w * WORD_BITS ? ~UINT64_C(0) << (first - w * WORD_BITS) : ~UINT64_C(0);
    return end < (w + 1) * WORD_BITS ? from & ~(~UINT64_C(0) << (end - w * WORD_BITS)) : from;
}

/* Puts rows [first, end), except those in `but`, which may be empty (n 0). */
static inline void bits_put_run(row_bits *b, int64_t first, int64_t end, const row_bits *but)
{
    for (int64_t w = word_of(first), n = first < end ? words_of(end) : 0; w < n; w++)
        bits_put_word(b, w, bits_between(w, first, end) & (but->n ? ~but->word[w] : ~UINT64_C(0)));
}
/* Removes rows [first, end) from the words; `above` and `top` may keep their bits. */
static inline void bits_take_run(row_bits *b, int64_t first, int64_t end)
{
    for (int64_t w = word_of(first), n = first < end ? words_of(end) : 0; w < n; w++)
        b->word[w] &= ~bits_between(w, first, end);
}

/* Whether the set is known to be empty without reading words. */
static inline int bits_none(const row_bits *b) { return b->low == b->high; }

/* The first bit of `words` from i on, in the word that holds bit i; -1: there is none. */
static inline int64_t bits_in_word(const uint64_t *words, int64_t i)
{
    const uint64_t rest = words[word_of(i)] >> shift_of(i);
    return rest ? i + __builtin_ctzll(rest) : -1;
}

/* The first word from w on, before `end`, that may hold a row, else `end`. */
static inline int64_t bits_next_word(const row_bits *b, int64_t w, int64_t end)
{
    while (w < end) {
        int64_t found = bits_in_word(b->above, w), above = word_of(w) + 1, aboves = words_of(end);
        if (found >= 0) return found < end ? found : end;
        for (found = -1; found < 0 && above < aboves; above = (word_of(above) + 1) * WORD_BITS)
            found = bits_in_word(b->top, above);
        w = found < 0 ? end : found * WORD_BITS;
    }
    return end;
}

/* The first row of [first, end) in the set, else `end`. */
static inline int64_t bits_next(const row_bits *b, int64_t first, int64_t end)
{
    const int64_t last = b->high * WORD_BITS < end ? b->high * WORD_BITS : end;
    if (first < b->low * WORD_BITS) first = b->low * WORD_BITS;
    if (first >= last) return end;
    int64_t w = word_of(first), words = words_of(last);
    uint64_t rows = b->word[w] >> shift_of(first) << shift_of(first);
    while (!rows) {
        w = bits_next_word(b, w + 1, words);
        if (w >= words) return end;
        rows = b->word[w];
    }
    const int64_t i = w * WORD_BITS + __builtin_ctzll(rows);
    return i < last ? i : end;
}

/* The first row of [first, end) not in the set, else `end`. */
static inline int64_t bits_next_out(const row_bits *b, int64_t first, int64_t end)
{
    if (first >= end) return end;
    int64_t w = word_of(first), words = words_of(end);
    uint64_t others = ~b->word[w] >> shift_of(first) << shift_of(first);
    while (!others) {
        if (++w >= words) return end;
        others = ~b->word[w];
    }
    const int64_t i = w * WORD_BITS + __builtin_ctzll(others);
    return i < end ? i : end;
}

static inline void bits_clear(row_bits *b)
{
    const int64_t tops = bits_none(b) ? 0 : words_of(words_of(words_of(b->n)));
    for (int64_t t = 0; t < tops; t++)
        for (; b->top[t]; b->top[t] &= b->top[t] - 1) {
            const int64_t a = t * WORD_BITS + __builtin_ctzll(b->top[t]);
            for (; b->above[a]; b->above[a] &= b->above[a] - 1)
                b->word[a * WORD_BITS + __builtin_ctzll(b->above[a])] = 0;
        }
    b->low = b->high = 0;
}

/* FOR_RUNS(b, i, end, first, last): rows [i, end) of b among [first, last), run by run. */
#define FOR_RUNS(b, i, end, first, last)                                                     \
    for (int64_t i = bits_next(b, first, last), end = bits_next_out(b, i, last); i < (last); \
         i = bits_next(b, end, last), end = bits_next_out(b, i, last))

#endif
