/* growth.c: measuring prefixes, crossovers, and their chart. */
#include "growth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trial.h"

enum { SHORTEST_OF_SHORT = 8 };

bench_rules growth_rules(void) { return (bench_rules){.budget = 0.1}; }

/* ---- lengths ---- */

int growth_start(hga_id words, growth *out)
{
    *out = (growth){0};
    hga_id least = words >= 2 * GROWTH_SHORTEST ? GROWTH_SHORTEST : SHORTEST_OF_SHORT, down[MAX_LENGTHS];
    int n = 0;
    for (hga_id m = words; n < MAX_LENGTHS && (n == 0 || m >= least); m /= 2) down[n++] = m;
    for (int i = 0; i < n; i++) out->length[i] = down[n - 1 - i];
    out->n_lengths = n;
    while (contenders[out->n_contenders].name) out->n_contenders++;
    return take((int64_t)out->n_contenders * MAX_LENGTHS, sizeof *out->seconds, &out->seconds);
}

void growth_clear(growth *g)
{
    free(g->seconds);
    *g = (growth){0};
}

double *growth_time(const growth *g, size_t i, int length) { return &g->seconds[i * MAX_LENGTHS + (size_t)length]; }

void growth_set_last(growth *g, size_t i, double seconds) { *growth_time(g, i, g->n_lengths - 1) = seconds; }

/* ---- measuring ---- */

static int time_contender(const growth_text *t, const scene *s, const contender *c, double *seconds)
{
    const trial_of of = {c->name, c, contender_made, NULL, NULL};
    const trial_way way = {t->shape, t->options, growth_rules()};
    trial one = {0};
    int status = trial_run(s, &of, &way, NULL, &one);
    *seconds = one.m.time.seconds;
    return status;
}

int growth_measure(const growth_text *t, growth *g, progress *bar)
{
    scene s = {0};
    int status = CLI_GOOD;
    for (int l = 0; l + 1 < g->n_lengths; l++) {
        progress_show((double)l / g->n_lengths, bar);
        TRY(scene_make(&t->text, g->length[l], &s));
        for (size_t i = 0; contenders[i].name; i++) TRY(time_contender(t, &s, &contenders[i], growth_time(g, i, l)));
        scene_clear(&s);
    }
done:
    scene_clear(&s);
    return status;
}

/* ---- crossovers ---- */

/* The contender that is dense attention with the same mask. */
size_t growth_dense(size_t i)
{
    size_t dense = 0;
    while (contenders[dense].causal != contenders[i].causal) dense++;
    return dense;
}

/* log of the variant's time over dense's */
static double behind(const growth *g, size_t i, int l)
{
    return log(*growth_time(g, i, l) / *growth_time(g, growth_dense(i), l));
}

double growth_crossover(const growth *g, size_t i, int *at_once)
{
    int l = g->n_lengths - 1;
    *at_once = 0;
    if (behind(g, i, l) >= 0) return 0;
    while (l > 0 && behind(g, i, l - 1) < 0) l--;
    if (l == 0) {
        *at_once = 1;
        return g->length[0];
    }
    double x0 = log(g->length[l - 1]), x1 = log(g->length[l]), y0 = behind(g, i, l - 1), y1 = behind(g, i, l);
    return exp(x0 + (x1 - x0) * y0 / (y0 - y1));
}
