/* trial.h: a variant on the words of a scene, measured and compared with dense attention: what `hga run`, its times
   against length and `hga choose` do with each. */
#ifndef CLI_TRIAL_H
#define CLI_TRIAL_H

#include "scene.h"
#include "measure.h"
#include <jansson.h>

/* ---- contenders.c: lists of the registry's rows with parameters, and their graphs on a scene ---- */

enum { MAX_CONTENDERS = 128, CONTENDER_TEXT = 96 };

typedef struct contender {
    const hga_variant *variant;
    char words[CONTENDER_TEXT];      /* as typed, with blanks between them */
    char parameters[CONTENDER_TEXT]; /* as people read them: "the text's tree causal=1" */
    int causal;
    hga_id height; /* of a tree that the scene must be routed by, through medians or not: scene_route; 0: none */
    int medians;
} contender;

typedef struct contenders {
    contender of[MAX_CONTENDERS];
    int n;
} contenders;

/* How each variant of the registry is shown: of those in a list with commas, NULL: of all. Dense attention, without
   and with the causal mask, is always there, and first. */
int contenders_shown(const char *list, contenders *out);
/* The parameters worth comparing on n tokens, likewise; with `causal` only causal ones. */
int contenders_swept(const char *list, hga_id n, int causal, contenders *out);
/* Removes those that cannot have the scene's options of scores. They are named on standard error; the first that the
   list names is refused. */
int contenders_keep(const scene *s, const char *list, contenders *c);

/* Builds its graph on a scene: with the text's own tree, sentences or leaves, where the variant takes them. Heads
   that choose for themselves must choose together (share=all). */
int contender_build(const scene *s, const contender *c, hga_graph **g, hga_program *p);

typedef struct trial {
    hga_id nodes;
    int64_t bytes; /* of graph, plan, workspace and tensors */
    double graph_seconds;
    double distance, divergence,
        speedup; /* of the output and of attention's rows from dense attention's, and over it */
    bench_measurement m;
} trial;

/* How contenders are measured. */
typedef struct trial_setup {
    hga_shape shape; /* dim_v 0: dim */
    hga_options options;
    bench_rules rules;
    uint64_t seed;  /* of trees that a contender routes a scene by */
    int plans_only; /* nothing is executed */
    /* sees the plan that was measured; NULL: nobody */
    int (*look)(void *context, const contender *c, const hga_graph *g, const hga_program *p, const hga_plan *plan);
    int (*tell)(void *context, const contender *c, const trial *t); /* of trials_run: the result */
    void *context;
} trial_setup;

/* Times alone. */
int trial_run(const scene *s, const contender *c, const trial_setup *setup, trial *out);
/* Measures all, with a bar of that name, and compares each with dense attention of the same mask: its output, and its
   rows of attention on the words of `probe`; NULL: on scene_start's. */
int trials_run(scene *whole, const scene *probe, const contenders *all, const trial_setup *setup, const char *bar);

/* Attention's rows are computed on so many words, some columns at a time. */
enum { PROBE_WORDS = 1024, PROBE_COLUMNS = 128 };
/* The first words of a scene, as many as have rows in bounded memory; everything is the whole scene's. */
scene scene_start(const scene *whole);

/* The members of a trial in a row of a table, beside its variant's; NULL when memory ran out. */
json_t *trial_json(const trial *t, hga_id tokens);

/* ---- time against length, with dense attention beside it: every variant on growing prefixes of a text ---- */

enum { MAX_LENGTHS = 6 };

/* Fills in the lengths, ascending: the text's and its halves; returns their number. */
int growth_lengths(hga_id words, hga_id length[static MAX_LENGTHS]);
/* The rules of repeats of a variant on each. */
bench_rules growth_rules(void);
/* A row of what was measured on so many words, for bench_overtakes and chart_put_times; NULL: no memory. */
json_t *growth_row(const contender *c, const trial *t, hga_id words);
/* Appends rows of all shorter lengths. */
int growth_measure(const scene_text *t, const contenders *all, json_t *rows);

#endif
