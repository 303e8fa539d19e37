/* tally.h: of rows that threads write or read, how many lie in the memory of the thread's node; and a heap that a
   program has used. For the programs of this folder, which are of one file each. */
#ifndef TALLY_H
#define TALLY_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { AT_ONCE = 4096 };

/* Rows that a thread of `node` writes or reads, looked up many at a time. */
typedef struct tally {
    void *row[AT_ONCE];
    int node[AT_ONCE];
    int64_t n, near, all;
} tally;

static inline void look_up(tally *t)
{
    static int where[AT_ONCE];
    if (t->n && syscall(SYS_move_pages, 0, (unsigned long)t->n, t->row, NULL, where, 0) == 0)
        for (int64_t i = 0; i < t->n; i++) t->near += where[i] == t->node[i], t->all++;
    t->n = 0;
}

static inline void add(tally *t, const void *row, int node)
{
    if (t->n == AT_ONCE) look_up(t);
    t->row[t->n] = (void *)((uintptr_t)row & ~(uintptr_t)4095), t->node[t->n++] = node;
}

static inline void say(const char *what, tally *t)
{
    look_up(t);
    if (t->all) printf(" %s %.1f %%", what, 100 * (double)t->near / (double)t->all);
}

/* Makes the compiler assume that a block is read. */
static inline void keep(void *block) { __asm__ volatile("" : : "r"(block) : "memory"); }

/* What an application leaves: blocks that were written and freed, from a heap that keeps them. */
static inline void use_heap(void)
{
    enum { BLOCKS = 64, BYTES = 1 << 20 };
    static void *block[BLOCKS];
    void *large = malloc(30 << 20); /* once freed, so much is taken from the heap from then on */
    if (large) memset(large, 1, 30 << 20);
    keep(large);
    free(large);
    for (int i = 0; i < BLOCKS; i++) {
        block[i] = malloc(BYTES);
        if (block[i]) memset(block[i], 1, BYTES);
        keep(block[i]);
    }
    for (int i = 0; i < BLOCKS - 1; i++) free(block[i]); /* the last one keeps the heap's end where it is */
}

#endif
