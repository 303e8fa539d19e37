/* brought.h: a call's tables of scores, written short. */
#ifndef BROUGHT_H
#define BROUGHT_H

#include "hga_plan.h"

/* 0 and NULL bring nothing. */
typedef struct operands {
    float scale, softcap, normaliser_bias;
    int has_scale; /* 0, too */
    const float *sink, *slopes, *additive;
} operands;

static inline const float *brought_if_any(const float *number) { return *number != 0 ? number : NULL; }

/* Puts them into the call, which borrows *b; NULL removes all. */
static inline void bring_to(hga_io *io, const operands *b)
{
    static const operands nothing;
    if (!b) b = &nothing;
    io->scale.data = b->has_scale ? &b->scale : brought_if_any(&b->scale);
    io->softcap.data = brought_if_any(&b->softcap), io->normaliser_bias.data = brought_if_any(&b->normaliser_bias);
    io->sink.data = b->sink, io->slopes.data = b->slopes, io->additive.data = b->additive;
}

#endif
