/* memory.h: memory that large calls would take anew each time: outputs, tapes, gradients and copies. What is given back
   is taken again. Any thread may call. */
#ifndef HGA_PY_MEMORY_H
#define HGA_PY_MEMORY_H

#include "hga.h"

/* Blocks that nobody has, for those that share them. */
typedef struct hga_py_memory hga_py_memory;

/* One user's, who releases it; NULL: none left. */
hga_py_memory *hga_py_memory_create(void);
hga_py_memory *hga_py_memory_retain(hga_py_memory *memory);
/* Blocks that are in use stay until they are given back. */
void hga_py_memory_release(hga_py_memory *memory);
/* Bytes of the blocks that nobody has. */
int64_t hga_py_memory_free(const hga_py_memory *memory);
/* Bytes of all blocks. */
int64_t hga_py_memory_bytes(const hga_py_memory *memory);

/* Memory at a multiple of 64 bytes, until it is given back; cleared 1: its bytes are 0. */
hga_status hga_py_take_memory(hga_py_memory *memory, int64_t bytes, int cleared, void **out);
/* NULL: nothing happens. */
void hga_py_give_memory(void *block);

#endif
