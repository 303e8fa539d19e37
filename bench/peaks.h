/* peaks.h: this machine's limits, measured again when something else had the processor meanwhile. */
#ifndef BENCH_PEAKS_H
#define BENCH_PEAKS_H

#include "timing.h"

typedef struct bench_peaks {
    hga_peaks best; /* of all the times: noise only takes away */
    double busy;    /* processor time over wall time of the least disturbed one */
    int times;      /* how often they were measured: once when nothing disturbed, three times at most */
} bench_peaks;

/* Measures them again as long as that has taken no longer than a case may. */
hga_status bench_measure_peaks(const char *isa, const bench_rules *rules, bench_peaks *out);

#endif
