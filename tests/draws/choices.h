/* choices.h: a stream of decisions: of bytes, as a fuzzer's input, 0 for ever once they have ended; or of a seed, which
   never end. */
#ifndef HGA_CHOICES_H
#define HGA_CHOICES_H

#include "hga_base.h"

typedef struct choices {
    const uint8_t *data;
    size_t size, at;
    uint64_t seed;
    int seeded;
    uint8_t *record; /* where decisions of a seed are put down as bytes, or NULL; `at` says how many */
    size_t capacity;
} choices;

choices choices_of_bytes(const uint8_t *data, size_t size);
choices choices_of_seed(uint64_t seed);

/* One of 0 .. n - 1. */
hga_id choose(choices *c, hga_id n);
/* One time in n, never when the bytes have ended. */
int rarely(choices *c, hga_id n);

#endif
