/* candidates.h: the variants and parameters that `hga choose` tries. */
#ifndef CLI_CANDIDATES_H
#define CLI_CANDIDATES_H

#include "contest.h"

enum { PARAMETERS_ROOM = 96, MAX_CANDIDATES = 128 };

typedef struct candidate {
    const char *variant;
    const hga_variant *row;           /* of the registry */
    char parameters[PARAMETERS_ROOM]; /* as for -p, with blanks between them */
    hga_id height;                    /* of a Treeformer tree, else 0 */
    int medians, causal;              /* its hyperplanes go through medians */
} candidate;

/* The candidates that make sense for n tokens, of the variants in a list with commas (NULL: all that can be causal, if
   so asked). Dense attention is always among them, and first. */
int candidates_list(const char *variants, hga_id n, int causal, candidate out[static MAX_CANDIDATES], int *n_out);

/* The graph of a candidate over the tokens of a scene. A Treeformer's leaves must be the scene's: scene_route. */
int candidate_build(const candidate *c, const scene *s, hga_graph **g, hga_program *p);
/* Does it need leaves? */
int candidate_routes(const candidate *c);

#endif
