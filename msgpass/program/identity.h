/* identity.h: graphs and programs as numbers, by FNV-1a. */
#ifndef IDENTITY_H
#define IDENTITY_H

#include "hga_program.h"

#define IDENTITY_OF_NOTHING UINT64_C(0xcbf29ce484222325)

/* The number of the data of h followed by n bytes. */
uint64_t identity_mix(uint64_t h, const void *bytes, size_t n);
/* The number of a graph's levels, tree, sides, masses, positions and relations; not of names and kinds. */
uint64_t identity_of_graph(const hga_graph *g);
/* The number of a program's fields, stages and numbers; not of names. */
uint64_t identity_of_program(const hga_program *p);

#endif
