/* rank_report.h: what the ranks of a score matrix's blocks come to: by level, for each block size, in words. */
#ifndef CLI_RANK_REPORT_H
#define CLI_RANK_REPORT_H

#include "rank_blocks.h"

/* Whose scores they are. */
typedef struct rank_scores {
    const char *query; /* NULL: the paper's example, which has no head and no scale */
    hga_id head;
    double scale;
} rank_scores;

enum { RANK_TITLE_BYTES = 384 };
void rank_report_title(const rank_map *m, const rank_scores *s, char text[static RANK_TITLE_BYTES]);

/* On standard output. */
int rank_report_text(const rank_map *m, const rank_scores *s);
int rank_report_json(const rank_map *m, const rank_scores *s);

#endif
