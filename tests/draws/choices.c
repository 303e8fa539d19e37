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

/* Bytes that a decision among n takes. */
static int bytes_of(hga_id n)
{
    int bytes = 0;
    for (hga_id reach = 1; reach<n; reach = reach> n / 256 ? n : reach * 256) bytes++;
    return bytes;
}

/* So that bytes decide the same. */
static void put_down(choices *c, hga_id n, uint32_t decided)
{
    for (int left = bytes_of(n); left > 0 && c->at < c->capacity; left--)
        c->record[c->at++] = (uint8_t)(decided >> 8 * (left - 1));
}

hga_id choose(choices *c, hga_id n)
{
    uint32_t x = 0;
    if (n <= 1) return 0;
    if (c->seeded) {
        x = next(c) % (uint32_t)n;
        if (c->record) put_down(c, n, x);
        return (hga_id)x;
    }
    for (int left = bytes_of(n); left > 0 && c->at < c->size; left--) x = x << 8 | c->data[c->at++];
    return (hga_id)(x % (uint32_t)n);
}

int rarely(choices *c, hga_id n) { return choose(c, n) == n - 1; }
