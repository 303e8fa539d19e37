/* goal_ways.h: the few ways in which goals are measured. */
#ifndef CLI_GOAL_WAYS_H
#define CLI_GOAL_WAYS_H

#include "goals.h"

#include <math.h>

/* What a case came to. */
typedef struct finding {
    double goal, reached; /* reached NaN: `note` says why */
    const char *peer;     /* the best one, NULL without; its figure in the goal's unit */
    double peer_value;
    const char *note, *benchmark; /* the measurement's name */
    int64_t bytes;                /* the most any of its measurements needs */
    /* goals in nanoseconds: what is reached of this machine's FMA peak, and what the goal is of the peak of the machine
       that it was set on; else NaN */
    double share, goal_share;
    double busy; /* the least of its measurements' processor time over wall time; NaN: none */
    int scaling; /* times of different numbers of threads meet in it, which takes a quieter machine */
} finding;

/* A row of the table. `run` reads the rest; what it does not need stays 0. */
typedef struct goal {
    const char *name;
    int (*run)(goals_run *r, const struct goal *g, finding *f);
    const char *unit;
    double goal;
    int at_least; /* 0: at most */
    const char *variant;
    hga_id tokens, heads, dim;
    const char *key; /* of the measurement's row */
    double scale;    /* from that to the unit */
    const char *note;
} goal;

/* The machine that nanoseconds were set on: GFLOP/s of one thread (EPYC, Zen 5). */
enum { GOAL_MACHINE_GFLOPS = 270 };

/* Each is a row's `run`: measure what the goal tells, or find it among what was, and say what it came to. */
int goal_figure(goals_run *r, const goal *g, finding *f);
int goal_bandwidth(goals_run *r, const goal *g, finding *f);
int goal_bf16(goals_run *r, const goal *g, finding *f);
int goal_bf16_share(goals_run *r, const goal *g, finding *f);
int goal_bf16_ratio(goals_run *r, const goal *g, finding *f);
int goal_relative(goals_run *r, const goal *g, finding *f);
int goal_backward(goals_run *r, const goal *g, finding *f);
int goal_workspace(goals_run *r, const goal *g, finding *f);
int goal_routed(goals_run *r, const goal *g, finding *f);
int goal_routed_build(goals_run *r, const goal *g, finding *f);
int goal_threads(goals_run *r, const goal *g, finding *f);
int goal_build(goals_run *r, const goal *g, finding *f);
int goal_memory(goals_run *r, const goal *g, finding *f);
int goal_growth(goals_run *r, const goal *g, finding *f);
int goal_shapes(goals_run *r, const goal *g, finding *f);

/* ---- rows of measurements ---- */

static inline const char *text_of(const json_t *row, const char *key)
{
    return json_string_value(json_object_get(row, key));
}

static inline double number_of(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

#endif
