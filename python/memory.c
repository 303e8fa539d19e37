/* memory.c: blocks of memory, the one that was given back last first. */
#include "memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, MOST_FREE = 8 };    /* of the free blocks the one that was given back first goes */
static const int64_t large = 4 << 20; /* bytes from which a block has no room for the next, which is larger */

/* What is before memory that is taken. */
typedef struct block {
    int64_t bytes;
    void *begins; /* as the system gave it */
    hga_py_memory *memory;
    struct block *next;
    char line[LINE - sizeof(int64_t) - 3 * sizeof(void *)];
} block;

struct hga_py_memory {
    int users, n_free;
    block *free;
    int64_t bytes, free_bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }
static void begin_child(void) { pthread_mutex_init(&lock, NULL); }
__attribute__((constructor)) static void begin(void) { pthread_atfork(before_fork, after_fork, begin_child); }

hga_py_memory *hga_py_memory_create(void)
{
    hga_py_memory *memory = calloc(1, sizeof *memory);
    if (memory) memory->users = 1;
    return memory;
}

hga_py_memory *hga_py_memory_retain(hga_py_memory *memory)
{
    __atomic_fetch_add(&memory->users, 1, __ATOMIC_RELAXED);
    return memory;
}

static void free_block(hga_py_memory *memory, block *x)
{
    __atomic_fetch_sub(&memory->bytes, x->bytes, __ATOMIC_RELAXED);
    free(x->begins);
}

void hga_py_memory_release(hga_py_memory *memory)
{
    if (!memory || __atomic_sub_fetch(&memory->users, 1, __ATOMIC_ACQ_REL)) return;
    for (block *x = memory->free, *next; x; x = next) next = x->next, free_block(memory, x);
    free(memory);
}

int64_t hga_py_memory_free(const hga_py_memory *memory)
{
    return __atomic_load_n(&memory->free_bytes, __ATOMIC_RELAXED);
}

int64_t hga_py_memory_bytes(const hga_py_memory *memory) { return __atomic_load_n(&memory->bytes, __ATOMIC_RELAXED); }

/* Fresh pages are clear, and are near the thread that writes them first. */
static block *new_block(hga_py_memory *memory, int64_t bytes)
{
    if (bytes > INT64_MAX / 2) return NULL;
    const int64_t room = ((bytes < large ? bytes + bytes / 4 : bytes) + LINE - 1) / LINE * LINE;
    char *begins = calloc(1, (size_t)room + sizeof(block) + LINE);
    if (!begins) return NULL;
    block *x = (block *)(void *)(begins + LINE - (uintptr_t)begins % LINE);
    *x = (block){.bytes = room, .begins = begins, .memory = hga_py_memory_retain(memory)};
    __atomic_fetch_add(&memory->bytes, room, __ATOMIC_RELAXED);
    return x;
}

/* The latest that has room for so many bytes, and not for as many again. Locked. */
static block *find(hga_py_memory *memory, int64_t bytes)
{
    for (block **at = &memory->free, *x; (x = *at); at = &x->next) {
        if (x->bytes < bytes || x->bytes / 2 > bytes) continue;
        *at = x->next, memory->n_free--;
        memory->free_bytes -= x->bytes;
        return x;
    }
    return NULL;
}

hga_status hga_py_take_memory(hga_py_memory *memory, int64_t bytes, int cleared, void **out)
{
    pthread_mutex_lock(&lock);
    block *x = find(memory, bytes);
    pthread_mutex_unlock(&lock);
    if (x) {
        x->memory = hga_py_memory_retain(memory);
        if (cleared) memset(x + 1, 0, (size_t)bytes);
    } else {
        x = new_block(memory, bytes);
    }
    *out = x ? x + 1 : NULL;
    return x ? HGA_OK : hga_fail(HGA_ENOMEM, "no memory for a call of %lld bytes", (long long)bytes);
}

/* The last block, taken out of the list. Locked. */
static block *take_last(hga_py_memory *memory)
{
    block **at = &memory->free;
    while ((*at)->next) at = &(*at)->next;
    block *x = *at;
    *at = NULL, memory->n_free--;
    memory->free_bytes -= x->bytes;
    return x;
}

void hga_py_give_memory(void *of)
{
    if (!of) return;
    block *x = (block *)of - 1, *too_many = NULL;
    hga_py_memory *memory = x->memory;
    pthread_mutex_lock(&lock);
    x->next = memory->free, memory->free = x, memory->n_free++;
    memory->free_bytes += x->bytes;
    if (memory->n_free > MOST_FREE) too_many = take_last(memory);
    pthread_mutex_unlock(&lock);
    if (too_many) free_block(memory, too_many);
    hga_py_memory_release(memory);
}
