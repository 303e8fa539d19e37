/* row_bits.h: some of n rows, as bits. Above each word lies a bit that tells whether it may hold any, so that looking
   for the next row and clearing cost what the set holds, and a 4096th of n. */
#ifndef ROW_BITS_H
#define ROW_BITS_H

#include "plan.h"

#include <string.h>

enum { WORD_BITS = 64 };

typedef struct row_bits {
    uint64_t *word, *above; /* [words_of(n)], and a bit for each of those */
    int64_t n;              /* 0: there are none, and none can be put in */
} row_bits;

static const row_bits no_bits = {NULL, NULL, 0};

static inline int64_t words_of(int64_t n) { return (n + WORD_BITS - 1) / WORD_BITS; }

/* The next room for bits of n rows, which whoever brings the memory has cleared. */
static inline row_bits bits_carve(carver *room, int64_t n)
{
    uint64_t *word = carve(room, words_of(n), sizeof *word), *above = carve(room, words_of(words_of(n)), sizeof *above);
    return (row_bits){word, above, n};
}

static inline int bits_have(const row_bits *b, int64_t i) { return (int)(b->word[i / WORD_BITS] >> i % WORD_BITS & 1); }

static inline void bits_put_word(row_bits *b, int64_t w, uint64_t rows)
{
    b->word[w] |= rows;
    if (rows) b->above[w / WORD_BITS] |= UINT64_C(1) << w % WORD_BITS;
}
static inline void bits_put(row_bits *b, int64_t i) { bits_put_word(b, i / WORD_BITS, UINT64_C(1) << i % WORD_BITS); }
static inline void bits_take(row_bits *b, int64_t i) { b->word[i / WORD_BITS] &= ~(UINT64_C(1) << i % WORD_BITS); }

/* Of rows [first, end) those in word w. */
static inline uint64_t bits_between(int64_t w, int64_t first, int64_t end)
{
    uint64_t from = first > w * WORD_BITS ? ~UINT64_C(0) << (first - w * WORD_BITS) : ~UINT64_C(0);
    return end < (w + 1) * WORD_BITS ? from & ~(~UINT64_C(0) << (end - w * WORD_BITS)) : from;
}

/* Rows [first, end), but for those of `but`, which may have room for none. */
static inline void bits_put_run(row_bits *b, int64_t first, int64_t end, const row_bits *but)
{
    for (int64_t w = first / WORD_BITS; first < end && w <= (end - 1) / WORD_BITS; w++)
        bits_put_word(b, w, bits_between(w, first, end) & (but->n ? ~but->word[w] : ~UINT64_C(0)));
}
static inline void bits_take_run(row_bits *b, int64_t first, int64_t end)
{
    for (int64_t w = first / WORD_BITS; first < end && w <= (end - 1) / WORD_BITS; w++)
        b->word[w] &= ~bits_between(w, first, end);
}

/* The first word from w on, before `end`, that may hold a row; `end`. */
static inline int64_t bits_next_word(const row_bits *b, int64_t w, int64_t end)
{
    while (w < end) {
        uint64_t rest = b->above[w / WORD_BITS] >> w % WORD_BITS;
        if (rest) {
            w += __builtin_ctzll(rest);
            return w < end ? w : end;
        }
        w = (w / WORD_BITS + 1) * WORD_BITS;
    }
    return end;
}

/* The first row of [first, end) that is in; `end`. */
static inline int64_t bits_next(const row_bits *b, int64_t first, int64_t end)
{
    for (int64_t w = first < end ? first / WORD_BITS : 0; first < end; first = ++w * WORD_BITS) {
        w = bits_next_word(b, w, words_of(end));
        if (w * WORD_BITS >= end) break;
        uint64_t rows = b->word[w] & bits_between(w, first, end);
        if (rows) return w * WORD_BITS + __builtin_ctzll(rows);
    }
    return end;
}

/* The first row of [first, end) that is not; `end`. */
static inline int64_t bits_next_out(const row_bits *b, int64_t first, int64_t end)
{
    for (int64_t w = first < end ? first / WORD_BITS : 0; first < end; first = ++w * WORD_BITS) {
        uint64_t rows = ~b->word[w] & bits_between(w, first, end);
        if (rows) return w * WORD_BITS + __builtin_ctzll(rows);
    }
    return end;
}

static inline void bits_clear(row_bits *b)
{
    int64_t words = words_of(b->n);
    for (int64_t w = bits_next_word(b, 0, words); w < words; w = bits_next_word(b, w + 1, words)) b->word[w] = 0;
    if (words) memset(b->above, 0, (size_t)words_of(words) * sizeof *b->above);
}

/* FOR_RUNS(b, i, end, first, last): rows [i, end) of b among [first, last), run by run. */
#define FOR_RUNS(b, i, end, first, last)                                                     \
    for (int64_t i = bits_next(b, first, last), end = bits_next_out(b, i, last); i < (last); \
         i = bits_next(b, end, last), end = bits_next_out(b, i, last))

#endif
