/* traits.h: which options a call has, for counting those that have met. */
#ifndef HGA_TRAITS_H
#define HGA_TRAITS_H

#include "calls.h"

/* A trait's name, and the members of public structs that it comes from, such as "hga_options.threads". */
typedef struct trait_row {
    const char *name, *members;
} trait_row;
extern const trait_row trait_table[N_TRAITS];
/* Members that are no options of their own: "hga_io.out out is what a call is for". */
extern const char *const trait_others[];

/* The traits of a call; whether it runs on ranks, or token by token, whoever runs it knows. */
trait_set traits_of(const drawn_call *c);

#endif
