/* hsa3.h: Table 3 of the HSA paper. */
#ifndef CLI_HSA3_H
#define CLI_HSA3_H

/* Recompute the table's operation counts and print them beside the paper's. CLI_FAILED when one disagrees. */
int print_hsa3(int json);

#endif
