/* unknowns.h: what some way to attend may not know, of a call, its plan and a stage, as bits: found once, when a call
   is bound. */
#ifndef UNKNOWNS_H
#define UNKNOWNS_H

#include "call.h"
#include "plan.h"

enum {
    /* what the call brings has the bits of call.h, BRINGS_* below FORWARD_FEATURE_SETS */
    CAPS_KEYS = FORWARD_FEATURE_SETS,
    SOME_ROWS = FORWARD_FEATURE_SETS << 1,
    /* and behind them what the plan brings */
    DROPS_ALIKE = FORWARD_FEATURE_SETS << 2,
    DROPS_WEIGHTS = FORWARD_FEATURE_SETS << 3,
    IS_STRICT = FORWARD_FEATURE_SETS << 4,
    IS_LOOSE = FORWARD_FEATURE_SETS << 5,
    IS_LONE = FORWARD_FEATURE_SETS << 6,
    READS_SIXTEEN = FORWARD_FEATURE_SETS << 7,
    FEW_HEADS = FORWARD_FEATURE_SETS << 8,
    MANY_HEADS = FORWARD_FEATURE_SETS << 9,
    IS_PLAIN = FORWARD_FEATURE_SETS << 10,
    ADDS_SCORES = FORWARD_FEATURE_SETS << 11,
    HOLDS_ROWS = FORWARD_FEATURE_SETS << 12,
    ADDS_KEYS = FORWARD_FEATURE_SETS << 13,
    HAS_NO_WIDE = FORWARD_FEATURE_SETS << 14,
    /* the stage's */
    CONTINUES = FORWARD_FEATURE_SETS << 15,
    HAS_ROWLESS_COLUMNS = FORWARD_FEATURE_SETS << 16,
    WRITES_OVER = FORWARD_FEATURE_SETS << 17,
    IS_LISTED = FORWARD_FEATURE_SETS << 18,
    IS_ORDERED = FORWARD_FEATURE_SETS << 19,
    SPLITS_HEADS = FORWARD_FEATURE_SETS << 20,
    HAS_NO_SPLITS = FORWARD_FEATURE_SETS << 21
};

/* Of an attending stage, in a call that brings so much, of some rows or of all. */
unsigned stage_features(const hga_plan *plan, hga_id stage, unsigned call_has, int some_rows);
/* In words, as a reason: the first of some that are not 0. */
const char *feature_words(unsigned features);

#endif
