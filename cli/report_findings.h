/* report_findings.h: what a run of all variants came to, in a few sentences. */
#ifndef CLI_REPORT_FINDINGS_H
#define CLI_REPORT_FINDINGS_H

#include "report.h"

/* Which variant is fastest, which is nearest to dense attention, and which rows were disturbed. */
void findings_put(FILE *file, const report *r);
/* From which length on the variants are faster than dense attention, as bench_overtakes found it between two lengths:
   one sentence, and the exceptions. */
void findings_put_crossovers(FILE *file, const json_t *overtakes, hga_id shortest, hga_id longest);

#endif
