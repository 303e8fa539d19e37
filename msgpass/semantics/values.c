/* values.c: values that are doubles. */
#include "values.h"

#include <string.h>

static const double *read_doubles(const field_values *from, hga_id field, hga_id v, hga_id head, double *buffer)
{
    (void)buffer;
    return double_row((const doubles *)(const void *)from, field, v, head);
}

static double read_lse(const field_values *from, hga_id field, hga_id v, hga_id head)
{
    return *double_lse((const doubles *)(const void *)from, field, v, head);
}

static void write_doubles(const field_values *to, hga_id field, hga_id v, hga_id head, const double *x)
{
    const doubles *d = (const doubles *)(const void *)to;
    memcpy(double_row(d, field, v, head), x, (size_t)d->of[field].columns * sizeof *x);
}

static void write_double_lse(const field_values *to, hga_id field, hga_id v, hga_id head, double lse)
{
    *double_lse((const doubles *)(const void *)to, field, v, head) = lse;
}

doubles doubles_from(hga_id first)
{
    return (doubles){.as = {read_doubles, read_lse, write_doubles, write_double_lse}, .first = first};
}
