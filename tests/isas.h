/* isas.h: the instruction sets that this machine runs, by name. */
#ifndef ISAS_H
#define ISAS_H

#include "hga.h"

#include <stdio.h>
#include <string.h>

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
