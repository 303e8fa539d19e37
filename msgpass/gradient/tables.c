/* tables.c: gradients of what many edges share: tables, positions, masses, the scale. They are summed in double, for
   every head apart that goes back by itself where heads meet in an entry, and added in the order of the heads. */
#include "gradient.h"

/* Where a table's gradient goes, and whether every head has entries of its own. */
typedef struct wanted_table {
    float *to;
    int64_t n;
    int apart;
} wanted_table;

static wanted_table wanted(const gradient_call *c, call_table which)
{
    const hga_io *io = c->io;
    const hga_grad_io *g = c->grad;
    const hga_shape *s = &c->plan->shape;
    switch (which) {
    case REL_KEY: return (wanted_table){g->d_rel_key, (int64_t)io->n_rel_key * s->dim, 0};
    case REL_BIAS: return (wanted_table){g->d_rel_bias, (int64_t)io->n_rel_bias * s->n_heads, 1};
    case EDGE_BIAS:
        return (wanted_table){g->d_edge_bias, io->n_edge_bias * io->edge_bias_heads, io->edge_bias_heads > 1};
    case NODE_POS: return (wanted_table){g->d_node_pos, (int64_t)c->plan->nodes.n * s->pos_dim, 0};
    case TYPE_SCALE: return (wanted_table){g->d_type_scale, io->n_type_scale, 0};
    case LOG_MASS: return (wanted_table){g->d_log_mass, c->plan->nodes.n, 0};
    default: return (wanted_table){g->d_scale, 1, 0};
    }
}

int64_t table_entries(const gradient_call *c, call_table which)
{
    wanted_table t = wanted(c, which);
    return t.to ? t.n : 0;
}

/* Does this one have the array, or another before it? */
static int owns(const wanted_table *t, hga_id turn) { return t->to && (turn == 0 || !t->apart); }

hga_status tables_create(gradient_call *c)
{
    hga_status st = HGA_OK;
    HGA_TRY(hga_new_zero(&c->plan->given, c->turns, sizeof *c->sums, &c->sums));
    for (hga_id turn = 0; turn < c->turns; turn++)
        for (call_table i = 0; i < N_TABLES; i++) {
            wanted_table t = wanted(c, i);
            if (owns(&t, turn))
                HGA_TRY(hga_new_zero(&c->plan->given, t.n, sizeof(double), &c->sums[turn].of[i]));
            else
                c->sums[turn].of[i] = c->sums[0].of[i];
        }
done:
    return st;
}

void tables_store(const gradient_call *c)
{
    for (call_table i = 0; i < N_TABLES; i++) {
        wanted_table t = wanted(c, i);
        for (int64_t j = 0; t.to && j < t.n; j++) {
            double sum = c->grad->accumulate ? (double)t.to[j] : 0;
            for (hga_id turn = 0; turn < c->turns; turn++)
                if (owns(&t, turn)) sum += c->sums[turn].of[i][j];
            t.to[j] = (float)sum;
        }
    }
}

void tables_clear(gradient_call *c)
{
    for (hga_id turn = 0; c->sums && turn < c->turns; turn++)
        for (call_table i = 0; i < N_TABLES; i++) {
            wanted_table t = wanted(c, i);
            if (owns(&t, turn)) hga_delete(&c->plan->given, c->sums[turn].of[i], t.n, sizeof(double));
        }
    hga_delete(&c->plan->given, c->sums, c->turns, sizeof *c->sums);
    c->sums = NULL;
}
