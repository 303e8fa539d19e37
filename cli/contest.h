/* contest.h: every variant on one text: the graphs, and the tensors that go in. */
#ifndef CLI_CONTEST_H
#define CLI_CONTEST_H

#include "call_files.h"
#include "embed.h"

/* A text as the variants see it: its words' tensors, its own hierarchy, and leaves for the trees. */
typedef struct scene {
    hga_tree tree;
    embedding words;
    hga_id height; /* of the Treeformer tree */
    int32_t *query_leaf, *key_leaf;
} scene;

/* A text, which messages call by its name, and the tensors that are made of its words. */
typedef struct scene_text {
    const char *name, *text;
    size_t bytes;
    hga_id heads, dim;
    uint64_t seed;
} scene_text;
/* The first `max_words` words of a text (0: all). */
int scene_make(const scene_text *t, hga_id max_words, scene *out);
/* Leaves for a tree of that height: hyperplanes in random directions through the origin, or through the median key of
   each node. */
int scene_route(scene *s, hga_id height, int medians, uint64_t seed);
/* What both Treeformers are built from. */
hga_treeformer scene_treeformer(const scene *s);
void scene_clear(scene *s);

/* One variant of the contest. */
typedef struct contender {
    const char *name, *parameters; /* as people read them: "the text's tree causal=1" */
    const char *words;             /* as typed */
    const hga_variant *variant;
    int causal;
} contender;
/* Ended by a NULL name: what shows each variant of the registry. The first two are dense attention, without and with
   the causal mask; each variant is compared with the one of its kind. */
extern const contender *const contenders;
/* Only the variants in a list with commas, dense ones always among them; NULL: all. Once, before anybody looks. */
int contenders_choose(const char *list);

/* What is done with the scores of all of them, from now on; NULL: nothing. Those that cannot have it are left out and
   named on standard error; of those that the list names the first is refused. Once, after they are chosen. */
int contenders_modify(const scene *s, const char *list, const typed_call *typed);
/* What that has read. */
void contenders_clear(void);

/* The graph of a variant whose parameters were typed, with blanks between them, over the words of a scene; heads that
   choose for themselves must choose together (share=all). */
int scene_build(const scene *s, const char *variant, const char *words, hga_graph **g, hga_program *p);
/* Its graph on a scene: with the text's own tree, sentences or leaves, where the variant takes them. */
int contender_build(const scene *s, const contender *c, hga_graph **g, hga_program *p);
/* The same of a contender that is told as what it is: trial_of.build. */
int contender_made(const scene *s, const void *contender, hga_graph **g, hga_program *p);

/* The tensors of a scene for one graph. Where rows are nodes, a node above the tokens has the mean of its tokens' rows.
   */
typedef struct cast {
    hga_io io;
    call_files files; /* io's tables */
    float *memory, *alpha;
    int64_t bytes; /* of query, key, value and output */
    float *out;    /* [rows][heads][dim_v], tokens first */
} cast;
/* What the tensors of one graph take. */
int64_t cast_bytes(const scene *s, const hga_graph *g, const hga_program *p, hga_id dim_v);
/* value NULL: the scene's, else [words][heads][dim_v]. */
int cast_make(const scene *s, const hga_graph *g, const hga_program *p, const float *value, hga_id dim_v, cast *out);
void cast_clear(cast *c);

#endif
