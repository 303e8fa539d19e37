/* isas.h: instruction sets by name: those that this machine runs, and those of its kind of processor. */
#ifndef ISAS_H
#define ISAS_H

#include "hga.h"

#include <stdio.h>
#include <string.h>

/* What lists of sets are made of; a test passes over those that the machine has not. */
#if defined(__aarch64__)
#define FLOAT_ISAS "ref", "neon", "neon"
#define PAIRS_ISA  "neonbf16"
#else
#define FLOAT_ISAS "ref", "avx2", "avx512"
#define PAIRS_ISA  "avx512bf16"
#endif

/* Name number i of those usable here, NULL after the last. */
static inline const char *isa_name(int i, char *buffer, size_t bytes)
{
    const char *at = hga_isa_list();
    while (i-- > 0 && at) at = strchr(at, ' '), at = at ? at + 1 : NULL;
    if (!at || !*at) return NULL;
    snprintf(buffer, bytes, "%.*s", (int)strcspn(at, " "), at);
    return buffer;
}

#endif
