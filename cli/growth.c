/* growth.c: prefixes of a text, measured. */
#include "growth.h"

#include "table.h"

enum { SHORTEST_OF_SHORT = 8 };

bench_rules growth_rules(void) { return (bench_rules){.budget = 0.1}; }

int growth_lengths(hga_id words, hga_id length[static MAX_LENGTHS])
{
    hga_id least = words >= 2 * GROWTH_SHORTEST ? GROWTH_SHORTEST : SHORTEST_OF_SHORT;
    int n = 1;
    while (n < MAX_LENGTHS && words >> n >= least) n++;
    for (int i = 0; i < n; i++) length[i] = words >> (n - 1 - i);
    return n;
}

json_t *growth_row(const contender *c, const trial *t, hga_id words)
{
    const bench_timing *time = &t->m.time;
    return json_pack("{s:s, s:s, s:b, s:i, s:i, s:f, s:b}", "variant", c->variant->name, "parameters", c->parameters,
                     "causal", c->causal, "tokens", words, "threads", t->m.threads, "seconds", time->seconds,
                     "disturbed", time->busy < BENCH_TRUSTED);
}

/* A row for each contender on one prefix. */
static int measure_on(const growth_text *t, const contenders *all, const scene *s, json_t *rows)
{
    const trial_way way = {.shape = t->shape, .options = t->options, .rules = growth_rules()};
    int status = CLI_GOOD;
    for (int i = 0; i < all->n; i++) {
        trial one = {0};
        TRY(trial_run(s, &all->of[i], &way, NULL, &one));
        TRY(row_append(rows, growth_row(&all->of[i], &one, s->words.n)));
    }
done:
    return status;
}

/* The longest length is left out, which the run itself has measured. */
int growth_measure(const growth_text *t, const contenders *all, json_t *rows, progress *bar)
{
    hga_id length[MAX_LENGTHS];
    scene s = {0};
    int status = CLI_GOOD;
    for (int l = 0, n = growth_lengths(t->words, length); l + 1 < n; l++) {
        progress_show((double)l / n, bar);
        TRY(scene_make(&t->text, length[l], &s));
        TRY(measure_on(t, all, &s, rows));
        scene_clear(&s);
    }
done:
    scene_clear(&s);
    return status;
}
