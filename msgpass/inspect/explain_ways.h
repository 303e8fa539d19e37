/* explain_ways.h: which way the pairs of attended stages go. */
#ifndef EXPLAIN_WAYS_H
#define EXPLAIN_WAYS_H

#include <jansson.h>
#include <stdio.h>

#include "attend_ways.h"
#include "plan.h"

/* Of a stage: pairs in tiles, and the places that those tiles have; in families; and row by row. Of long stages some
   panels are looked at, evenly spread. */
typedef struct pair_ways {
    double tiles, places, families, rows;
    int64_t panels, looked_at;
    int attends;            /* 0: there is nothing to tell */
    unsigned goes;          /* ways that some go, as bits */
    attend_way_number last; /* the way of rows: those behind it are not asked */
    unsigned brings;        /* the call's features */
} pair_ways;

/* Of calls that bring as much as this one; io NULL: nothing beside rows. */
hga_status ways_find(const hga_plan *plan, const hga_io *io, pair_ways ways[HGA_MAX_STAGES]);
/* Of a stage that attends: which share of its pairs goes which way, and why others do not. */
void ways_say(FILE *f, const hga_plan *plan, hga_id stage, const pair_ways *ways);
/* {tiles, places, families, rows, panels, looked_at, ways: [name], refused: [{way, why}]} */
json_t *ways_json(const hga_plan *plan, hga_id stage, const pair_ways *ways);

#endif
