/* interrupt.h: long loops ask whether they are to go on. For the sources of this project; not installed. */
#ifndef HGA_INTERRUPT_H
#define HGA_INTERRUPT_H

#include "hga_base.h"

/* HGA_OK, or the status with which the function of hga_set_interrupt wants the call to end. It is asked as often as its
   comment says, however often this is called: once for some ten thousand instructions is often enough and costs
   nothing. */
hga_status interrupted(void);
/* The same, at every 4096th number of a loop. */
static inline hga_status interrupted_at(int64_t i) { return i % 4096 == 4095 ? interrupted() : HGA_OK; }
/* Has the calling thread a function that says so? */
int may_be_interrupted(void);

#endif
