/* execute.c: a call of a program on a graph, drawn from the rest of the input and held to what is true of every call.
   */
#include "fuzz.h"

#include "calls.h"

long fuzz_n_executed, fuzz_n_back;

void fuzz_execute(const hga_graph *g, const hga_program *p, choices *c)
{
    drawn_call drawn;
    call_draw(c, g, p, &drawn);
    fuzz_set_input(g, p);
    fuzz_set_call(&drawn);
    call_fate fate = call_hold(&drawn);
    if (!fate.forward) call_hold_decoding(&drawn, &fate);
    fuzz_n_executed += fate.forward == HGA_OK;
    fuzz_n_back += drawn.options.gradient && !fate.forward && !fate.backward && fate.fast;
    fuzz_set_call(NULL);
    call_clear(&drawn);
}
