/* tables.c: gradients of what many edges share: tables, positions, masses, the scale. They are summed in double, for
   every head apart that goes back by itself where heads meet in an entry, and added in the order of the heads. */
#include "gradient.h"

#include <string.h>

/* Where a table's gradient goes. */
static float *wanted(const gradient_call *c, call_table which)
{
    const hga_grad_io *g = c->grad;
    float *const to[N_TABLES] = {[REL_KEY] = g->d_rel_key,       [REL_BIAS] = g->d_rel_bias,
                                 [EDGE_BIAS] = g->d_edge_bias,   [NODE_POS] = g->d_node_pos,
                                 [TYPE_SCALE] = g->d_type_scale, [LOG_MASS] = g->d_log_mass,
                                 [SCALE] = g->d_scale,           [SINK] = g->d_sink,
                                 [SLOPES] = g->d_slopes,         [ADDITIVE] = g->d_additive};
    return to[which];
}

int table_is_apart(const call_needs *needs, call_table which)
{
    return which == REL_BIAS || which == SINK || which == SLOPES || which == ADDITIVE ||
           (which == EDGE_BIAS && needs->biases_apart);
}

/* Has the turn the array, or another before it? */
static int owns(const call_needs *needs, call_table which, hga_id turn)
{
    return needs->entries[which] > 0 && (turn == 0 || !table_is_apart(needs, which));
}

table_sums *tables_lay_out(const call_needs *needs, carver *room)
{
    table_sums *sums = carve(room, needs->turns, sizeof *sums);
    for (hga_id turn = 0; turn < needs->turns; turn++)
        for (call_table i = 0; i < N_TABLES; i++) {
            double *own = owns(needs, i, turn) ? carve(room, needs->entries[i], sizeof *own) : NULL;
            if (sums) sums[turn].of[i] = own || turn == 0 ? own : sums[0].of[i];
        }
    return sums;
}

void tables_clear(const gradient_call *c)
{
    for (hga_id turn = 0; turn < c->needs.turns; turn++)
        for (call_table i = 0; i < N_TABLES; i++)
            if (owns(&c->needs, i, turn)) memset(c->sums[turn].of[i], 0, (size_t)c->needs.entries[i] * sizeof(double));
}

void tables_store(const gradient_call *c)
{
    for (call_table i = 0; i < N_TABLES; i++) {
        float *to = wanted(c, i);
        for (int64_t j = 0; j < c->needs.entries[i]; j++) {
            double sum = c->grad->accumulate ? (double)to[j] : 0;
            for (hga_id turn = 0; turn < c->needs.turns; turn++)
                if (owns(&c->needs, i, turn)) sum += c->sums[turn].of[i][j];
            to[j] = (float)sum;
        }
    }
}
