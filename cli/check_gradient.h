/* check_gradient.h: hga check --gradient, gradients against differences. */
#ifndef CLI_CHECK_GRADIENT_H
#define CLI_CHECK_GRADIENT_H

#include "attend_io.h"

typedef struct gradient_check {
    const typed_variant *typed;
    const typed_call *call;
    attend_paths paths; /* query, key and value, or none of them: then tensors are random */
    int64_t seed;
    int json;
} gradient_check;

/* A table of each input's largest errors; CLI_FAILED where one is too large. */
int check_gradient(const gradient_check *c);

#endif
