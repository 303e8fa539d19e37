/* variant.h: VARIANT and its parameters, as typed, become a graph and a program. */
#ifndef CLI_VARIANT_H
#define CLI_VARIANT_H

#include "complain.h"
#include "npy.h"
#include "arguments.h"
#include <stdio.h>

#include "node_ids.h"
#include "rows.h"

/* ---- parameter.c: -p name=value, an array of settings beside a table of parameters ---- */

enum { MAX_PARAMETERS = 24, MAX_TYPED = 64 };

typedef struct setting {
    int is_set;
    hga_id whole; /* flags, whole numbers, the index of a word */
    double real;
    npy array;     /* lists and files */
    hga_tree tree; /* of a file that is a tree: the array is its parents; else zeroed */
} setting;

/* A table is ended by a NULL name. Its arrays' offsets count in a variant's structure; a whole number whose `words` is
   "@" may also be an array of whole numbers, and so may one that has a count (parameter_may_be_list). */
typedef struct settings {
    hga_parameter table[MAX_PARAMETERS + 1];
    setting value[MAX_PARAMETERS];
} settings;

/* Read "name=value" texts by a table; `whose` names the variant in complaints. */
int settings_read(const hga_parameter *table, const char *whose, const char *const *typed, int n, settings *out);
/* Adds one, of that many letters; refuses a parameter given twice. On failure the caller still clears. */
int settings_set(settings *s, const char *whose, const char *name, size_t length, const char *value);
void settings_clear(settings *s);

/* By name, which must be in the table or is never set. */
int setting_is_set(const settings *s, const char *name);
hga_id setting_id(const settings *s, const char *name);
/* The array of a list or file; NULL when it was not typed or is a number. */
const npy *setting_array(const settings *s, const char *name);

/* The tree of a file that has more than parents; NULL: none. */
const hga_tree *setting_tree(const settings *s, const char *name);

/* Fills a variant's structure with its defaults and what was typed; arrays stay the settings'. */
int settings_fill(const settings *s, const hga_variant *v, void *parameters);

/* Is it an array, or a whole number that may be one? */
int parameter_may_be_list(const hga_parameter *p);

/* "64 or @FILE": the form of a parameter's value. */
const char *parameter_kind_name(const hga_parameter *p);
/* Whether `length` bytes of `name` name a flag, which may stand without a value. */
int parameter_is_flag(const hga_parameter *table, const char *name, size_t length);

/* What was typed: the variant's name and the texts of -p, all borrowed from argv. */
typedef struct typed_variant {
    const char *name;
    const char *setting[MAX_TYPED];
    const char *tokens; /* of --tokens, or NULL */
    int n;
    int takes_order; /* the command can run in an order */
    int decodes;     /* .. takes tokens as they come */
} typed_variant;

/* What --pattern says of graph=FILE. */
static const char ignore_weights[] = "weights=ignore";

/* Cuts "htransformer:block=16" or "htransformer block=16", in place, into the name and at most `most` settings. A
   value may have colons and blanks: after a '=', a part without one belongs to it (tree=metis:8,8). */
int variant_cut(char *words, int most, typed_variant *t);
/* Copies the next of names with commas between them, finds its variant or NULL, and advances the list. 0: none is
   left. */
enum { VARIANT_NAME = 64 };
int variant_next(const char **list, char name[static VARIANT_NAME], const hga_variant **v);
/* Is the variant among them? */
int variant_listed(const char *list, const hga_variant *v);
/* Is a word a variant's name, or graph=FILE? */
int variant_is_named(const char *word);
/* Adds one more -p NAME=VALUE. */
int variant_add(typed_variant *t, const char *text);
/* What would make the typed variant causal, as the end of a complaint: "; -p causal=1 is causal". "" where no parameter
   does. */
void variant_causal_hint(const typed_variant *typed, size_t capacity, char *hint);
/* Reads the VARIANT argument: words, graph=FILE, or the name of a file that exists. */
int variant_take(char *word, typed_variant *t);

/* VARIANT, -p, --tokens, --pattern: input is a typed_variant. Without a VARIANT it complains. */
extern const option_list variant_list;

/* How blocks are chosen in a call, besides what the variant says. */
typedef struct choosing {
    hga_id chooser, choosers; /* which of how many, in arrays that have all; choosers 0: one alone, which has no axis */
    hga_id sample, samples;   /* likewise of a batch */
    const npy *scores;        /* --block-scores, NULL without */
    const float *scale;       /* NULL: 1 / sqrt(dim) */
    hga_precision precision;
    hga_id threads;
    const char *isa;
} choosing;

/* Query heads [first, first + n) of a call of `of`, and the key/value heads that they read. n 0: all. */
typedef struct head_part {
    hga_id first, n, of, kv_first, kv_n;
} head_part;

/* The tensors a model is made for, as [rows][heads][dim]; NULL where there are none. */
typedef struct model_tensors {
    const npy *query, *key;
    hga_id heads, kv_heads, dim;
    const choosing *choosing; /* of routed; NULL: as nothing was said */
    head_part part;           /* that chooses; n 0: all */
} model_tensors;

/* What a chooser chose: [rows][slots] as hga_chosen_table writes it; and where tokens are. */
typedef struct chosen_blocks {
    int32_t *block;
    hga_id rows, slots;
    hga_id k;                  /* of the chooser; 0: by a threshold */
    hga_id *block_of, *row_of; /* [tokens]: the block of the key in its sample, and the row of the query */
    hga_id most_blocks;        /* of a sample */
} chosen_blocks;
void chosen_blocks_clear(chosen_blocks *c);

/* What a variant is once its parameters are known. */
typedef struct model {
    hga_graph *graph;
    hga_program program;
    char *title; /* "bpt k=4" */
    node_ids map;
    hga_id tree_heads; /* more than 1: rows are token * tree_heads + head, and there is one head */
    float *alpha;      /* [n_alpha], the weights of levels, NULL without */
    hga_id n_alpha;
    hga_id *order;      /* [nodes], the node at each index of `ordered`, NULL without */
    hga_graph *ordered; /* the graph in that order (ordered.h), NULL without */
    chosen_blocks chosen;
    hga_selection how;          /* of tokens that choose as they come; block 0: they do not */
    hga_id *k_each;             /* .. its own, NULL without */
    hga_id prefill;             /* .. several at a time: see hga_decode_options */
    hga_id first_head, n_heads; /* whose graph it is, n_heads 0: all heads' */
    int from_file;              /* the program was read, so what is wrong with it is bad data */
    char causal_hint[160];      /* what is said where a causal one is needed */
} model;

/* tensors NULL: `tokens` must be among the parameters. */
int model_build(const typed_variant *typed, const model_tensors *tensors, model *out);
void model_clear(model *m);
/* Of a graph and a program that others own, for what reads no more of a model; not to be cleared. */
model model_of(const hga_graph *g, const hga_program *p, const char *title);
/* complain_of for a call with a model: CLI_DATA for a program that was read. */
int model_complain_of(hga_status st, const model *m);
/* "bpt k=4", the variant as it was typed, for free(). */
int variant_title(const typed_variant *typed, char **title);

/* The parameters alone, defaults filled in; release with settings_clear. Sets *v to the variant, NULL for a file's. */
int variant_settings(const typed_variant *typed, settings *out, const hga_variant **v);

/* Of a graph=FILE: the file. */
const char *variant_path(const typed_variant *typed);

/* A variant's name, what it is and its parameters, a line each; NULL: those of graph=FILE. */
void variant_print(FILE *file, const hga_variant *v);

/* The relation that `build` and `export` write when none is named: the first that is attended; without one, the last
   stage's. -1 without stages on relations. */
hga_id main_relation(const hga_program *p);

/* ---- of variants whose graph queries and keys choose ---- */

/* Is it a variant whose graph queries and keys choose? */
int routed_is(const typed_variant *typed);
/* How many tokens ahead a causal choice reads queries: query blocks of several tokens; 0 of other variants. */
int routed_ahead(const typed_variant *typed, hga_id *ahead);
/* How many choose, each with a graph of its own, in a call of so many heads; 1 of other variants. */
int routed_choosers(const typed_variant *typed, hga_id heads, hga_id kv_heads, hga_id *n);

/* ---- for the variants' own files ---- */

/* What is to be made. */
typedef struct variant_job {
    const typed_variant *typed;
    const settings *settings;
    const model_tensors *tensors; /* or NULL */
    const hga_variant *variant;   /* NULL: the file `path` */
    const char *path, *name;
} variant_job;

/* The weights of levels, [n_alpha]. */
int model_take_alpha(const npy *a, model *out);
/* Makes one graph of `tokens`, or one for each length, joined. */
int make_from_tokens(const variant_job *job, model *out);
int make_treeformer(const variant_job *job, model *out);
int make_routed(const variant_job *job, model *out);

/* A batch: each sample's tokens, graph and program. Zeroed: none. */
typedef struct samples {
    hga_id n, *length;
    hga_graph **graph;
    hga_program *program;
} samples;

/* Without tokens and graphs yet. */
int samples_make(hga_id n, samples *s);
void samples_clear(samples *s);
/* The samples that `tokens` or the query's rows determine, and their lengths; *batch: was a file of lengths typed? */
int samples_of(const variant_job *job, samples *s, int *batch);
/* Joins their graphs, with a program that runs on them. */
int samples_join(const samples *s, model *out);

#endif
