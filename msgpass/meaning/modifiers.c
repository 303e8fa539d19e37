/* modifiers.c: reading hga_modifiers, whose size the caller tells. */
#include "modifiers.h"
#include "score.h"

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

hga_status modifiers_check(const hga_program *p, const hga_io *io)
{
    const hga_modifiers *given = io->modifiers;
    if (!given) return HGA_OK;
    if (given->size < LEAST)
        return hga_fail(HGA_EINVAL, "hga_modifiers.size is %zu, less than %d: set it to sizeof(hga_modifiers)",
                        given->size, (int)LEAST);
    const unsigned char *byte = (const unsigned char *)given;
    for (size_t i = sizeof *given; i < given->size; i++)
        if (byte[i])
            return hga_fail(HGA_EINVAL, "hga_modifiers: byte %zu is %d, which this library does not know", i, byte[i]);
    if ((unsigned)given->scale_is_given > 1)
        return hga_fail(HGA_EINVAL, "hga_modifiers.scale_is_given is %d, not 0 or 1", given->scale_is_given);
    if (!isfinite(given->normaliser_bias))
        return hga_fail(HGA_EINVAL, "hga_modifiers.normaliser_bias %g is not finite", (double)given->normaliser_bias);
    if (given->normaliser_bias != 0 && !meaning_softening(p)->has_bias)
        return hga_fail(HGA_EINVAL, "hga_modifiers.normaliser_bias is %g, but %s has no bias",
                        (double)given->normaliser_bias, meaning_softening(p)->name);
    return HGA_OK;
}
