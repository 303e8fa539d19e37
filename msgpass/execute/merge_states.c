/* merge_states.c: two softmax states over the same rows, of different keys, become the state over all of them. */
#include "hga_plan.h"

#include <math.h>

/* One row and head: o_a and *lse_a become the merged state. */
static void merge_state(hga_id dim_v, float *o_a, float *lse_a, const float *o_b, float lse_b)
{
    if (lse_b == -INFINITY) return;
    double a = (double)*lse_a, b = (double)lse_b, greatest = a > b ? a : b;
    double of_a = a == -INFINITY ? 0 : exp(a - greatest), of_b = exp(b - greatest), sum = of_a + of_b;
    for (hga_id c = 0; c < dim_v; c++) {
        double mine = of_a > 0 ? of_a * (double)o_a[c] : 0; /* empty states contribute nothing */
        o_a[c] = (float)((mine + of_b * (double)o_b[c]) / sum);
    }
    *lse_a = (float)(greatest + log(sum));
}

hga_status hga_merge_states(int64_t n_rows, hga_id n_heads, hga_id dim_v, float *out_a, float *lse_a,
                            const float *out_b, const float *lse_b)
{
    if (n_rows < 0 || n_heads < 1 || dim_v < 1)
        return hga_fail(HGA_EINVAL, "merge_states: %lld rows, %d heads, dim_v %d", (long long)n_rows, n_heads, dim_v);
    if (n_rows && (!out_a || !lse_a || !out_b || !lse_b))
        return hga_fail(HGA_EINVAL, "merge_states: an array of %lld rows is missing", (long long)n_rows);
    for (int64_t i = 0; i < n_rows * n_heads; i++)
        merge_state(dim_v, out_a + i * dim_v, lse_a + i, out_b + i * dim_v, lse_b[i]);
    return HGA_OK;
}
