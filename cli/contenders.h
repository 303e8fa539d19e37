/* contenders.h: the variants with parameters that `hga run` and `hga choose` compare: lists of the registry's rows, and
   their graphs on a scene. */
#ifndef CLI_CONTENDERS_H
#define CLI_CONTENDERS_H

#include "scene.h"

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

/* What shows each variant of the registry: of those in a list with commas, NULL: of all. Dense attention, without and
   with the causal mask, is always there, and first. */
int contenders_shown(const char *list, contenders *out);
/* The parameters worth comparing on n tokens, likewise; nothing sees what comes later, if so asked. */
int contenders_swept(const char *list, hga_id n, int causal, contenders *out);
/* Without those that cannot have what is done with the scene's scores. They are named on standard error; of those that
   the list names the first is refused. */
int contenders_keep(const scene *s, const char *list, contenders *c);

/* Its graph on a scene: with the text's own tree, sentences or leaves, where the variant takes them. Heads that choose
   for themselves must choose together (share=all). */
int contender_build(const scene *s, const contender *c, hga_graph **g, hga_program *p);

#endif
