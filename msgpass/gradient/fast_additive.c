/* fast_additive.c: vectors of additive scores a . L(q + k), and their gradients. */
#include "fast_additive.h"

#include <string.h>

void additive_load(fast_pass *p)
{
    const float *from = p->call->io->additive.data;
    const hga_id dim = p->plan->shape.dim;
    for (hga_id h = 0; p->scores.additive && h < p->plan->shape.n_heads; h++)
        for (hga_id c = 0; c < dim; c++)
            p->scores.additive[(ptrdiff_t)h * padded(dim) + c] =
                p->call->scale * (from ? from[(ptrdiff_t)h * dim + c] : 1);
}

kernel_additive additive_at_hand(const fast_pass *p)
{
    const ptrdiff_t at = (ptrdiff_t)p->heads.head * p->field_dim;
    return (kernel_additive){p->scores.additive ? p->scores.additive + at : NULL, p->program->negative_slope};
}

float *additive_sums_begin(const fast_pass *p)
{
    const int asked = p->sums.of[HGA_TABLE_ADDITIVE] || p->sums.of[HGA_TABLE_SCALE];
    if (!p->scores.additive || !asked) return NULL;
    return memset(p->panel->operands.d_additive, 0, (size_t)p->field_dim * sizeof(float));
}

void additive_sums_end(fast_pass *p)
{
    const float *d = p->panel->operands.d_additive, *a = p->call->io->additive.data;
    const hga_id dim = p->plan->shape.dim;
    const ptrdiff_t at = (ptrdiff_t)p->heads.head * dim;
    for (hga_id c = 0; p->scores.additive && p->sums.of[HGA_TABLE_ADDITIVE] && c < dim; c++)
        p->sums.of[HGA_TABLE_ADDITIVE][at + c] += (double)p->call->scale * (double)d[c];
    for (hga_id c = 0; p->scores.additive && p->sums.of[HGA_TABLE_SCALE] && c < dim; c++)
        *p->sums.of[HGA_TABLE_SCALE] += (double)(a ? a[at + c] : 1) * (double)d[c];
}
