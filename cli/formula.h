/* formula.h: how many edges a variant's attended relation has, by the papers' formulas instead of by a graph. */
#ifndef CLI_FORMULA_H
#define CLI_FORMULA_H

#include "parameter.h"

/* Edges of `variant` with these settings on n tokens; NaN where no formula is known. */
double formula_edges(const char *variant, const settings *s, int64_t n);

#endif
