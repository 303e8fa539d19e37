/* values.h: access to the values of fields while rows are computed. Semantics do not depend on it: values are a
   workspace's floats, doubles of a pass over some heads, or computed on demand. */
#ifndef HGA_SEMANTICS_VALUES_H
#define HGA_SEMANTICS_VALUES_H

#include "hga_plan.h"

/* Heads are query heads of the shape; fields of key/value heads have one for several of them. */
typedef struct field_values {
    /* Node v's numbers of a field, written to `buffer` where they are not doubles. */
    const double *(*read)(const struct field_values *from, hga_id field, hga_id v, hga_id head, double *buffer);
    double (*read_lse)(const struct field_values *from, hga_id field, hga_id v, hga_id head); /* of a state */
    void (*write)(const struct field_values *to, hga_id field, hga_id v, hga_id head, const double *x);
    void (*write_lse)(const struct field_values *to, hga_id field, hga_id v, hga_id head, double lse);
} field_values;

/* ---- doubles of some heads ---- */

/* A field's values, [node][heads](columns), and the log-sum-exps of a state. */
typedef struct double_rows {
    hga_id heads, columns; /* heads: the current ones, 1 for a field of key/value heads */
    double *x, *lse;
} double_rows;

typedef struct doubles {
    field_values as;
    hga_id first; /* the first current head; the current heads are those that read one key/value head */
    double_rows of[HGA_FIELD_SLOTS];
} doubles;

/* Empty, for the heads from `first` on. */
doubles doubles_from(hga_id first);

static inline int64_t double_index(const doubles *d, hga_id field, hga_id v, hga_id head)
{
    const double_rows *f = &d->of[field];
    return (int64_t)v * f->heads + (f->heads == 1 ? 0 : head - d->first);
}
static inline double *double_row(const doubles *d, hga_id field, hga_id v, hga_id head)
{
    return d->of[field].x + double_index(d, field, v, head) * d->of[field].columns;
}
static inline double *double_lse(const doubles *d, hga_id field, hga_id v, hga_id head)
{
    return d->of[field].lse + double_index(d, field, v, head);
}

#endif
