/* modifiers.c: reading hga_modifiers, whose size the caller tells. */
#include "modifiers.h"
#include "program.h"
#include "soften.h"

#include <math.h>
#include <string.h>

/* The first version's: no caller has less. */
enum { LEAST = offsetof(hga_modifiers, normaliser_bias) + sizeof(float) };

hga_modifiers modifiers_of(const hga_io *io)
{
    hga_modifiers m = {0};
    size_t known = sizeof m;
    if (!io->modifiers) return m;
    if (io->modifiers->size < known) known = io->modifiers->size;
    memcpy(&m, io->modifiers, known);
    return m;
}

float modifiers_softcap(const hga_program *p, const hga_io *io)
{
    float given = modifiers_of(io).softcap;
    return given != 0 ? given : p->softcap;
}

/* ---- checks ---- */

static hga_status check_size(const hga_modifiers *given)
{
    if (given->size < LEAST)
        return hga_fail(HGA_EINVAL, "hga_modifiers.size is %zu, less than %d: set it to sizeof(hga_modifiers)",
                        given->size, (int)LEAST);
    const unsigned char *byte = (const unsigned char *)given;
    for (size_t i = sizeof *given; i < given->size; i++)
        if (byte[i])
            return hga_fail(HGA_EINVAL, "hga_modifiers: byte %zu is %d, which this library does not know", i, byte[i]);
    return HGA_OK;
}

static hga_status check_bias(const hga_program *p, float bias)
{
    if (!isfinite(bias)) return hga_fail(HGA_EINVAL, "hga_modifiers.normaliser_bias %g is not finite", (double)bias);
    if (bias != 0 && !meaning_softening(p)->has_bias)
        return hga_fail(HGA_EINVAL, "hga_modifiers.normaliser_bias is %g, but %s has no bias", (double)bias,
                        meaning_softening(p)->name);
    return HGA_OK;
}

/* Has the program a stage of the message? */
static int sends(const hga_program *p, hga_message message)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].message == message) return 1;
    return 0;
}

static hga_status check_softcap(const hga_program *p, float softcap)
{
    if (softcap != 0 && !softcap_is_fit(softcap))
        return hga_fail(HGA_EINVAL, "softcap %g is not 0, for none, nor from 1e-30 to 1e30", (double)softcap);
    if (softcap == 0) return HGA_OK;
    if (!sends(p, HGA_SCORE)) return hga_fail(HGA_EUNSUPPORTED, "softcap: the program computes no scores");
    if (sends(p, HGA_ENERGY))
        return hga_fail(HGA_EUNSUPPORTED, "softcap: the program's scores are those of an energy, which has no cap");
    return HGA_OK;
}

static hga_status check_sink(const hga_program *p, hga_id heads, const float *sink)
{
    if (!sink) return HGA_OK;
    if (!p->has_lse) return hga_fail(HGA_EUNSUPPORTED, "sink: the program's output has no log-sum-exp");
    for (hga_id h = 0; h < heads; h++)
        if (isnan(sink[h]) || sink[h] == INFINITY)
            return hga_fail(HGA_EINVAL, "sink of head %d is %g: finite numbers, or -inf for none", h, (double)sink[h]);
    return HGA_OK;
}

static hga_status check_slopes(const hga_program *p, hga_id heads, const float *slopes)
{
    if (!slopes) return HGA_OK;
    if (!sends(p, HGA_SCORE)) return hga_fail(HGA_EUNSUPPORTED, "slopes: the program computes no scores");
    for (hga_id h = 0; h < heads; h++)
        if (!(slopes[h] >= 0 && isfinite(slopes[h])))
            return hga_fail(HGA_EINVAL, "slope of head %d is %g, not finite and at least 0", h, (double)slopes[h]);
    return HGA_OK;
}

static hga_status check_additive(const hga_program *p, const hga_shape *s, const float *additive)
{
    if (!additive) return HGA_OK;
    if (p->scores != HGA_SCORES_ADDITIVE)
        return hga_fail(HGA_EUNSUPPORTED, "additive: the program's scores are products");
    for (int64_t i = 0; i < (int64_t)s->n_heads * s->dim; i++)
        if (!isfinite(additive[i]))
            return hga_fail(HGA_EINVAL, "additive of head %d, column %d is %g, not finite", (int)(i / s->dim),
                            (int)(i % s->dim), (double)additive[i]);
    return HGA_OK;
}

hga_status modifiers_check(const hga_program *p, const hga_shape *shape, const hga_io *io)
{
    const hga_modifiers *given = io->modifiers;
    hga_status st = given ? check_size(given) : HGA_OK;
    const hga_modifiers m = st ? (hga_modifiers){0} : modifiers_of(io);
    if (!st && (unsigned)m.scale_is_given > 1)
        return hga_fail(HGA_EINVAL, "hga_modifiers.scale_is_given is %d, not 0 or 1", m.scale_is_given);
    if (!st) st = check_bias(p, m.normaliser_bias);
    if (!st) st = check_softcap(p, modifiers_softcap(p, io));
    if (!st) st = check_sink(p, shape->n_heads, m.sink);
    if (!st) st = check_slopes(p, shape->n_heads, m.slopes);
    return st ? st : check_additive(p, shape, m.additive);
}
