/* scene.h: a text, or tensors of files, as variants read them, and the tensors of an execution on them. */
#ifndef CLI_SCENE_H
#define CLI_SCENE_H

#include "complain.h"
#include "typed_call.h"

/* ---- words become queries, keys and values without a model file ---- */

/* Tensors [n][heads][dim] of the words of a text. */
typedef struct embedding {
    hga_id n, heads, dim;
    float *query, *key, *value;
} embedding;

/* A text, which messages call by its name, the tensors that are made of its words, and how they are attended to. */
typedef struct scene_text {
    const char *name, *text;
    size_t bytes;
    hga_id words; /* that are used */
    hga_shape shape;
    hga_options options;
    int64_t seed;
    const typed_call *call; /* NULL: nothing */
    call_files *files;      /* its, read once for all scenes of the text: a pipe is read once */
} scene_text;

/* The words' tensors, the text's own hierarchy, and leaves for the trees. */
typedef struct scene {
    hga_tree tree;
    embedding words;
    hga_id height; /* of the Treeformer tree */
    int32_t *query_leaf, *key_leaf;
    const typed_call *call;
    call_files *files;
} scene;

/* The first `max_words` words of a text (0: all). */
int scene_make(const scene_text *t, hga_id max_words, scene *out);
/* Leaves of a tree of that height: hyperplanes in random directions through the origin, or each node's median key. */
int scene_route(scene *s, hga_id height, int medians, uint64_t seed);
void scene_clear(scene *s);

/* A scene's tensors for one graph; where rows are nodes, a node above the tokens has the mean of its tokens' rows. */
typedef struct cast {
    hga_io io;
    call_files files; /* io's tables */
    float *memory, *alpha;
    float *out; /* [rows][heads][dim_v], tokens first */
} cast;
/* The bytes of the tensors of one graph. */
int64_t cast_bytes(const scene *s, const hga_graph *g, const hga_program *p, hga_id dim_v);
/* value NULL: the scene's, else [words][heads][dim_v]. */
int cast_make(const scene *s, const hga_graph *g, const hga_program *p, const float *value, hga_id dim_v, cast *out);
void cast_clear(cast *c);

#endif
