/* reasons.c: why a solver does not take a plan, in words. */
#include "call.h"
#include "plan.h"
#include "solvers.h"

#include <stdarg.h>
#include <stdio.h>

const char *reason_of(reason *buffer, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(buffer->text, sizeof buffer->text, format, values);
    va_end(values);
    return buffer->text;
}

const char *edge_features_named(unsigned features)
{
    if (features & CALL_HAS_EDGE_KEYS) return "the call has keys of edges, or values that are added";
    return features & CALL_HAS_EDGE_VALUES ? "the call has features of edges" : NULL;
}

const char *is_generic(const hga_plan *plan, reason *buffer)
{
    const hga_call_row *plain = call_standing_plain(&plan->program);
    if (plain) return reason_of(buffer, "only the plain definition knows %s", plain->name);
    return plan->options.generic ? "asked for" : NULL;
}
