/* reasons.c: why a way does not take a plan, in words. */
#include "call.h"
#include "plan.h"
#include "ways.h"

#include <stdarg.h>
#include <stdio.h>

const char *reason_of(reason *room, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(room->text, sizeof room->text, format, values);
    va_end(values);
    return room->text;
}

const char *brings_of_edges(unsigned features)
{
    if (features & BRINGS_EDGE_KEYS) return "the call brings keys of edges";
    return features & BRINGS_EDGE_VALUES ? "the call brings features of edges" : NULL;
}

const char *is_generic(const hga_plan *plan, reason *room)
{
    const hga_call_row *plain = call_standing_plain(&plan->program);
    if (plain) return reason_of(room, "only the plain definition knows %s", plain->name);
    return plan->options.generic ? "asked for" : NULL;
}
