/* unknowns.h: what some way to attend may not know, of a call, its plan and a stage, as bits: found once, when a call
   is bound. */
#ifndef UNKNOWNS_H
#define UNKNOWNS_H

#include "call.h"
#include "plan.h"

enum {
    /* what the call brings has the bits of call.h, BRINGS_* below CALL_FEATURE_SETS; and .. */
    CAPS_KEYS = CALL_FEATURE_SETS,
    SOME_ROWS = CALL_FEATURE_SETS << 1,
    /* the plan's */
    DROPS_ALIKE = CALL_FEATURE_SETS << 2,
    DROPS_WEIGHTS = CALL_FEATURE_SETS << 3,
    IS_STRICT = CALL_FEATURE_SETS << 4,
    IS_LOOSE = CALL_FEATURE_SETS << 5,
    IS_LONE = CALL_FEATURE_SETS << 6,
    READS_SIXTEEN = CALL_FEATURE_SETS << 7,
    FEW_HEADS = CALL_FEATURE_SETS << 8,
    MANY_HEADS = CALL_FEATURE_SETS << 9,
    IS_PLAIN = CALL_FEATURE_SETS << 10,
    ADDS_SCORES = CALL_FEATURE_SETS << 11,
    HOLDS_ROWS = CALL_FEATURE_SETS << 12,
    ADDS_KEYS = CALL_FEATURE_SETS << 13,
    HAS_NO_WIDE = CALL_FEATURE_SETS << 14,
    /* the stage's */
    GOES_ON = CALL_FEATURE_SETS << 15,
    HAS_STRAYS = CALL_FEATURE_SETS << 16,
    WRITES_OVER = CALL_FEATURE_SETS << 17,
    IS_LISTED = CALL_FEATURE_SETS << 18,
    IS_ORDERED = CALL_FEATURE_SETS << 19,
    SPLITS_HEADS = CALL_FEATURE_SETS << 20,
    HAS_NO_PIECES = CALL_FEATURE_SETS << 21
};

/* Of an attending stage, in a call that brings so much, of some rows or of all. */
unsigned stage_features(const hga_plan *plan, hga_id stage, unsigned brings, int some_rows);
/* In words, as a reason: the first of some that are not 0. */
const char *feature_words(unsigned features);

#endif
