/* causal_cases.h: hierarchies whose tokens may be computed as they come, and the settings under which they are. */
#ifndef CAUSAL_CASES_H
#define CAUSAL_CASES_H

#include "testing.h"

static const char *const causal[] = {"dense_causal",    "window_causal",  "bpt_causal",        "neighbours_causal",
                                     "siblings_causal", "fine_causal",    "hsa_frontier",      "neighbours_causal_wide",
                                     "fenwick",         "dilated_causal", "hsa_frontier_wide", "segments_causal"};
enum { N_CAUSAL = sizeof causal / sizeof *causal };

static const hga_options settings[] = {{.threads = 1},
                                       {.threads = 3},
                                       {.threads = 2, .precision = HGA_PRECISION_BF16},
                                       {.threads = 1, .isa = "ref"},
                                       {.threads = 2, .cut_edges = 24},
                                       {.threads = 2, .generic = 1},
                                       {.threads = 2, .generic = 1, .precision = HGA_PRECISION_BF16}};
enum { N_SETTINGS = sizeof settings / sizeof *settings };

#endif
