/* choosers.c: who chooses, and how many blocks each. */
#include "select.h"
#include "selection_check.h"

hga_id hga_select_choosers(const hga_selection *s, const hga_shape *shape)
{
    if (s->share == HGA_SELECT_ALL) return 1;
    return s->share == HGA_SELECT_HEAD || shape->n_kv_heads == 0 ? shape->n_heads : shape->n_kv_heads;
}

hga_status selection_check_choosers(const hga_selection *s, hga_id n)
{
    if (!s->k_each || s->n_k_each == n) return HGA_OK;
    return hga_fail(HGA_EINVAL, "k has %d numbers, and there are %d choosers", s->n_k_each, n);
}

hga_status hga_select_chooser(const hga_selection *s, hga_id which, hga_id n_choosers, hga_selection *out)
{
    const hga_status st = selection_check_choosers(s, n_choosers);
    if (st) return st;
    if (which < 0 || which >= n_choosers)
        return hga_fail(HGA_EINVAL, "chooser is %d, and there are %d", which, n_choosers);
    const hga_id k = blocks_of_chooser(s, which);
    *out = *s;
    out->share = HGA_SELECT_ALL;
    out->k = k, out->k_each = NULL, out->n_k_each = 0;
    return HGA_OK;
}
