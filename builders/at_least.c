/* at_least.c: numbers that 0 does not stand for. */
#include "at_least.h"

hga_status check_at_least_one(const char *name, hga_id value)
{
    if (value >= 1) return HGA_OK;
    return hga_fail(HGA_EINVAL, "%s: %d, at least 1 is needed%s", name, value,
                    value ? "" : "; hga_defaults(&p) sets the defaults, which are not 0");
}
