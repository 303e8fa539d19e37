/* formulas.h: the number of edges of a variant's attended relations, by the papers' formulas instead of by a graph; NaN
   where none is known. Parameters are the builders' structures. */
#ifndef HGA_BUILDERS_FORMULAS_H
#define HGA_BUILDERS_FORMULAS_H

double formula_dense(const void *parameters);
double formula_window(const void *parameters);
double formula_bpt(const void *parameters);
double formula_htransformer(const void *parameters);
double formula_hsa(const void *parameters);
double formula_fine(const void *parameters);
double formula_coarse(const void *parameters);
double formula_fenwick(const void *parameters);
double formula_dilated(const void *parameters);
double formula_segments(const void *parameters);
double formula_neighbourhood(const void *parameters);
double formula_draft(const void *parameters);
double formula_routed(const void *parameters);

#endif
