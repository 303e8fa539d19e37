/* tables.c: gradients of what many edges share: tables, positions, masses, the scale. They are summed in double,
   separately for every head group where heads share entries, and added in the order of the heads. */
#include "carve.h"
#include "gradient.h"

#include <string.h>

/* Has the head group a sum of its own? Else it adds to the first group's. */
static int owns(const call_needs *needs, hga_call_table which, hga_id head_group)
{
    return needs->entries[which] > 0 && (head_group == 0 || !(needs->by_head >> which & 1));
}

table_sums *tables_lay_out(const call_needs *needs, carver *arena)
{
    table_sums *sums = carve(arena, needs->head_groups, sizeof *sums);
    for (hga_id head_group = 0; head_group < needs->head_groups; head_group++)
        for (hga_call_table i = 0; i < HGA_N_TABLES; i++) {
            double *own = owns(needs, i, head_group) ? carve(arena, needs->entries[i], sizeof *own) : NULL;
            if (sums) sums[head_group].of[i] = own || head_group == 0 ? own : sums[0].of[i];
        }
    return sums;
}

void tables_clear(const gradient_call *c)
{
    for (hga_id head_group = 0; head_group < c->needs.head_groups; head_group++)
        for (hga_call_table i = 0; i < HGA_N_TABLES; i++)
            if (owns(&c->needs, i, head_group))
                memset(c->sums[head_group].of[i], 0, (size_t)c->needs.entries[i] * sizeof(double));
}

/* Adds the head groups' sums, in their order, to the caller's tables. */
void tables_store(const gradient_call *c)
{
    for (hga_call_table i = 0; i < HGA_N_TABLES; i++) {
        float *to = c->grad->d_table[i];
        for (int64_t j = 0; j < c->needs.entries[i]; j++) {
            double sum = c->grad->accumulate ? (double)to[j] : 0;
            for (hga_id head_group = 0; head_group < c->needs.head_groups; head_group++)
                if (owns(&c->needs, i, head_group)) sum += c->sums[head_group].of[i][j];
            to[j] = (float)sum;
        }
    }
}
