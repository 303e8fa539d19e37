/* exponents.h: log-sum-exps, -inf being that of no term. NaN stays NaN. */
#ifndef HGA_SEMANTICS_EXPONENTS_H
#define HGA_SEMANTICS_EXPONENTS_H

#include <math.h>

/* The greater of two, NaN being greater than all. */
static inline double greater_of(double a, double b) { return a > b || isnan(a) ? a : b; }

static inline double log_add(double a, double b)
{
    double hi = greater_of(a, b), lo = a < b ? a : b;
    return lo == -INFINITY ? hi : hi + log1p(exp(lo - hi));
}

/* 1 / (1 + e^(b - a)), with the limits where one of them is -inf; 0 where both are. */
static inline double share(double a, double b)
{
    return a == -INFINITY ? 0 : b == -INFINITY ? 1 : 1 / (1 + exp(b - a));
}

#endif
