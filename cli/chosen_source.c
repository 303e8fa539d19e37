/* chosen_source.c: tensors, or a choice, become the graph of a head. */
#include "chosen_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "variant.h"

/* ---- the command line ---- */

static const option_row head_options[] = {
    {"head", ID_SAID(chosen_source, head, 0, MAX_HEADS - 1, typed_head), "H", 0,
     "for routed: the graph that this query head chose", 2},
    {0},
};
static const option_row scores_options[] = {
    {"block-scores", TEXT(chosen_source, scores), "FILE", ARGUMENTS_MORE,
     "for routed with -p score=given: the scores of blocks, [choosers][query blocks][blocks]", 2},
    {0},
};
static const option_row options[] = {
    {"query", TEXT(chosen_source, query), "FILE", 0,
     "for routed: the queries that choose the graph, [rows][dim] or [rows][heads][dim]", 2},
    {"key", TEXT(chosen_source, key), "FILE", 0, "for routed: the keys that go with --query", 2},
    {"layout", CHOICE(chosen_source, layout, LAYOUT_WORDS), "L", ARGUMENTS_MORE,
     "of these: nhd, or hnd, heads first, as torch has it (default: nhd)", 2},
    {0},
};
const option_list chosen_head_list = {.rows = head_options};
const option_list chosen_scores_list = {.rows = scores_options};
static const option_part chosen_parts[] = {{&chosen_head_list, 0, NULL, 0}, {&chosen_scores_list, 0, NULL, 0}, {0}};
const option_list chosen_list = {.rows = options, .parts = chosen_parts};

void chosen_by_target(const typed_variant *typed, graph_target *t, chosen_source *c)
{
    const picture_tensors *x = &t->picture.tensors;
    if (!routed_is(typed)) return;
    c->query = x->query, c->key = x->key, c->layout = x->layout;
    c->typed_head = x->head >= 0, c->head = c->typed_head ? x->head : 0;
    if (!x->query || !graph_target_is_picture(t)) picture_forget_tensors(&t->picture);
}

/* ---- inputs ---- */

/* Of a variant that content chooses. */
typedef struct chosen_inputs {
    attend_io io; /* query and key; the value is the key and is not read */
    npy scores;
    hga_id choosers, heads; /* heads 0: there are no tensors, and a choice determines how many choose */
} chosen_inputs;

static int read_tensors(const chosen_source *c, chosen_inputs *in)
{
    MUST(tensor_file_read_pair(c->query, c->key, c->layout, &in->io.query, &in->io.key));
    in->heads = in->io.query.heads;
    return CLI_GOOD;
}

/* Reads the number of choosers: the third axis from the end. */
static int count_in_choice(const typed_variant *typed, hga_id *n)
{
    settings s = {0};
    const hga_variant *v;
    int status = variant_settings(typed, &s, &v);
    const npy *a = status ? NULL : setting_array(&s, "choice");
    const int64_t found = a && a->n_dims >= 3 ? a->dim[a->n_dims - 3] : 1;
    *n = found <= INT32_MAX ? (hga_id)found : 1;
    settings_clear(&s);
    return status;
}

/* Reads scores, queries and keys, and finds how many heads choose for themselves. */
static int open_inputs(const typed_variant *typed, const chosen_source *c, chosen_inputs *in)
{
    *in = (chosen_inputs){0};
    if (!c->query != !c->key) return complain(CLI_USAGE, "--query and --key go together");
    if (c->scores) MUST(npy_read(c->scores, NPY_ENDLESS, &in->scores));
    if (c->query) MUST(read_tensors(c, in));
    return in->heads ? routed_choosers(typed, in->heads, in->io.key.heads, &in->choosers)
                     : count_in_choice(typed, &in->choosers);
}

static void close_inputs(chosen_inputs *in)
{
    npy_clear(&in->io.query.array);
    npy_clear(&in->io.key.array);
    npy_clear(&in->scores);
}

/* ---- the graph ---- */

/* "routed block=16, head 3 of 8" */
static int add_to_title(hga_id head, hga_id heads, model *m)
{
    char text[64];
    snprintf(text, sizeof text, ", %s %d of %d", "head", head, heads);
    char *title = realloc(m->title, strlen(m->title) + strlen(text) + 1);
    if (!title) return complain(CLI_OUTSIDE, "out of memory");
    m->title = strcat(title, text);
    return CLI_GOOD;
}

/* Builds the graph of one chooser, of the heads that follow it. */
static int build_chosen(const typed_variant *typed, const chosen_source *c, const chosen_inputs *in, hga_id chooser,
                        model *out)
{
    choosing how = {.chooser = chooser,
                    .choosers = in->choosers,
                    .scores = in->scores.path ? &in->scores : NULL,
                    .scale = c->scale};
    attend_io one = {0};
    head_part p = {0};
    model_tensors tensors = {.choosing = &how};
    int status = CLI_GOOD;
    if (in->heads) {
        p = part_of(&in->io, chooser, in->choosers);
        TRY(attend_io_part(&in->io, 0, &p, &one));
        tensors = attend_io_tensors(&one);
        tensors.choosing = &how;
    }
    TRY(model_build(typed, &tensors, out));
    out->first_head = p.first, out->n_heads = p.n;
done:
    if (in->heads) attend_io_part_clear(&in->io, &one);
    return status;
}

/* Finds which heads' choice is shown: that of --head, or the only one. */
static int find_chooser(const typed_variant *typed, const chosen_source *c, const chosen_inputs *in, chosen_head which,
                        hga_id *chooser)
{
    hga_id heads = in->heads ? in->heads : in->choosers;
    if (c->typed_head && c->head >= heads)
        return complain(CLI_USAGE, "--head: %d, but there are heads 0 .. %d", c->head, heads - 1);
    if (!c->typed_head && which == CHOSEN_ONE && in->choosers > 1)
        return complain(CLI_USAGE, "%s: %d heads have each chosen a graph of their own; --head H says which",
                        typed->name, in->choosers);
    *chooser = c->head / (heads / in->choosers);
    return CLI_GOOD;
}

/* Only variants that choose by content read the source. */
int chosen_build(const typed_variant *typed, const chosen_source *c, chosen_head which, int tensors, model *out)
{
    const char *option = c->typed_head ? "--head" : c->scores ? "--block-scores" : c->query ? "--query" : "--key";
    chosen_inputs in;
    hga_id chooser = 0;
    int status = CLI_GOOD;
    if (!routed_is(typed)) {
        int any = c->scores || (!tensors && (c->typed_head || c->query || c->key));
        if (any) return complain(CLI_USAGE, "%s: the graph of %s depends on no tensors", option, typed->name);
        return model_build(typed, NULL, out);
    }
    TRY(open_inputs(typed, c, &in));
    TRY(find_chooser(typed, c, &in, which, &chooser));
    TRY(build_chosen(typed, c, &in, chooser, out));
    if (in.choosers > 1 || c->typed_head) TRY(add_to_title(c->head, in.heads ? in.heads : in.choosers, out));
done:
    close_inputs(&in);
    return status;
}

int chosen_choosers(const typed_variant *typed, const chosen_source *c, hga_id *n, hga_id *heads)
{
    chosen_inputs in;
    *n = 1, *heads = 1;
    if (!routed_is(typed) || c->typed_head) return CLI_GOOD;
    int status = open_inputs(typed, c, &in);
    if (!status) *n = in.choosers, *heads = in.heads ? in.heads / in.choosers : 1;
    close_inputs(&in);
    return status;
}
