/* choices.c: decisions of bytes or of a seed. */
#include "choices.h"

choices choices_of_bytes(const uint8_t *data, size_t size) { return (choices){.data = data, .size = size}; }

choices choices_of_seed(uint64_t seed) { return (choices){.seed = seed, .seeded = 1}; }

/* splitmix64 */
static uint32_t next(choices *c)
{
    uint64_t z = c->seed += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ (z >> 31)) >> 32);
}

hga_id choose(choices *c, hga_id n)
{
    uint32_t x = 0;
    if (n <= 1) return 0;
    if (c->seeded) return (hga_id)(next(c) % (uint32_t)n);
    for (hga_id reach = 1; reach < n && c->at<c->size; reach = reach> n / 256 ? n : reach * 256)
        x = x << 8 | c->data[c->at++];
    return (hga_id)(x % (uint32_t)n);
}

int rarely(choices *c, hga_id n) { return choose(c, n) == n - 1; }
