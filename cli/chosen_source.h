/* chosen_source.h: what a graph that content chooses is made from, in commands that show graphs: --query, --key,
   --layout, --head, --block-scores. */
#ifndef CLI_CHOSEN_SOURCE_H
#define CLI_CHOSEN_SOURCE_H

#include "arguments.h"

#include "attend_io.h"
#include "graph_file.h"

/* As typed. */
typedef struct chosen_source {
    const char *query, *key, *scores; /* NULL: not typed */
    tensor_layout layout;
    const float *scale; /* of the call, or NULL */
    hga_id head;        /* typed_head 0: not typed */
    int typed_head;
} chosen_source;

/* --head; --block-scores; and both with --query, --key and --layout: input is a chosen_source. */
extern const option_list chosen_head_list, chosen_scores_list, chosen_list;

/* A picture's tensors, layout and head choose its graph, too; no other file uses them. */
void chosen_by_target(const typed_variant *typed, graph_target *t, chosen_source *c);

/* Which heads' graph is requested, where several choose for themselves and --head was not typed? */
typedef enum chosen_head {
    CHOSEN_ONE,  /* --head must say */
    CHOSEN_FIRST /* head 0's, which the title says */
} chosen_head;

/* model_build: of a variant that content chooses the graph of a head, of others the graph, which does not depend on
   tensors. `tensors`: the source's tensors have another use, too. */
int chosen_build(const typed_variant *typed, const chosen_source *c, chosen_head which, int tensors, model *out);
/* How many choose, each a graph of its own, and how many heads each has: head i * heads is the first of chooser i. 1
   if --head was typed, and of other variants. */
int chosen_choosers(const typed_variant *typed, const chosen_source *c, hga_id *n, hga_id *heads);

#endif
