/* bench_compare.h: hga bench compare: two runs, case by case, with their noise in the verdict. */
#ifndef CLI_BENCH_COMPARE_H
#define CLI_BENCH_COMPARE_H

/* argv[0] is "compare"; returns the exit status. */
int run_bench_compare(int argc, char **argv);

#endif
