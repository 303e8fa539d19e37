/* explain_ways.h: which way the pairs of attended stages go. */
#ifndef EXPLAIN_WAYS_H
#define EXPLAIN_WAYS_H

#include <jansson.h>
#include <stdio.h>

#include "execute.h"

/* Of a stage: pairs in tiles, and the places that those tiles have; in families; and row by row. Of long stages some
   panels are looked at, evenly spread. */
typedef struct pair_ways {
    double tiles, places, families, rows;
    int64_t panels, looked_at;
} pair_ways;

/* Of a call without relative keys, positions and biases; stages that do not attend, or in plain C, have nothing. */
hga_status ways_find(const hga_plan *plan, pair_ways ways[HGA_MAX_STAGES]);
/* A line for a stage that has some; and one that tells why, where there was such a line. */
void ways_say(FILE *f, const hga_plan *plan, const pair_ways *ways);
void ways_say_why(FILE *f, const hga_plan *plan);
/* {tiles, places, families, rows, panels, looked_at} */
json_t *ways_json(const pair_ways *ways);

#endif
