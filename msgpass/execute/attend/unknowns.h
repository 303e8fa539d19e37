/* unknowns.h: features of a call, its plan and a stage that some solver may not support, as bits: found once, when a
   call is bound. */
#ifndef UNKNOWNS_H
#define UNKNOWNS_H

#include "call.h"
#include "plan.h"

enum {
    /* the call's features have the bits of call.h, CALL_HAS_* below FORWARD_FEATURE_SETS */
    BENDS_KEYS = FORWARD_FEATURE_SETS,
    SOME_ROWS = FORWARD_FEATURE_SETS << 1,
    /* then the plan's */
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
    HAS_NO_SPLITS = FORWARD_FEATURE_SETS << 21,
    IS_UNRANKED = FORWARD_FEATURE_SETS << 22
};

/* The features of an attending stage, in a call with these features, of some rows or of all. */
unsigned stage_features(const hga_plan *plan, hga_id stage, unsigned call_has, int some_rows);
/* Why a solver refuses: the words of the first feature of a set that is not 0. */
const char *feature_words(unsigned features);

#endif
