/* hga_variants.h: the built-in hierarchies by name, each with its parameters as data: for tools and bindings to other
   languages. A variant is one row of this table. hga_build("bpt k=4 causal=1", 4096, &g, &program); or, with arrays:
   fill a structure of `bytes` bytes by hga_variant_defaults, hga_variant_set, hga_variant_set_array (or by the offsets
   themselves) and call `build`. */
#ifndef HGA_VARIANTS_H
#define HGA_VARIANTS_H

#include "hga_program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a parameter is in C. */
typedef enum hga_parameter_kind {
    HGA_PARAMETER_FLAG,  /* int, 0 or 1 */
    HGA_PARAMETER_WHOLE, /* hga_id */
    HGA_PARAMETER_WORD,  /* an enumeration: the index of one of `words` */
    HGA_PARAMETER_REAL,  /* double, at least 0 */
    HGA_PARAMETER_IDS,   /* const hga_id *, typed 2,4,8 */
    HGA_PARAMETER_FLOATS /* const float * */
} hga_parameter_kind;

/* The structure that a parameter's offsets count in. */
typedef enum hga_parameter_place {
    HGA_IN_BUILDER,    /* the variant's own */
    HGA_IN_ROUTER,     /* hga_router: hyperplanes that route the queries, and the keys unless these have their own */
    HGA_IN_KEY_ROUTER, /* hga_router of the keys */
    HGA_IN_IO,         /* hga_io: the data of a table, whose rows say how many */
    HGA_IN_CHOICE      /* what each query block chose, [choosers][query blocks][slots], as hga_chosen_table has it */
} hga_parameter_place;

typedef struct hga_parameter {
    const char *name; /* as typed */
    hga_parameter_kind kind;
    hga_parameter_place place;
    size_t offset;
    /* arrays: offset of the hga_id that says how many (of the first axis), or HGA_NOWHERE. A whole number that has one
       may be an array instead (const hga_id *), a number for each; `columns` is then where that is */
    size_t count;
    size_t columns;       /* arrays: offset of the hga_id with the length of a second axis, or HGA_NOWHERE */
    const char *standard; /* the default as typed; NULL: none */
    hga_id least;         /* whole numbers and ids are not below */
    const char *words;    /* of HGA_PARAMETER_WORD, with blanks between them */
    const char *says;     /* one line */
    /* values, with blanks between them, that papers or comparisons need and users do not; NULL: none */
    const char *study;
} hga_parameter;

/* What a variant can. */
enum {
    HGA_CAN_CAUSAL = 1,         /* has the parameter `causal` */
    HGA_ALWAYS_CAUSAL = 2,      /* knows nothing else */
    HGA_CAN_CROSS = 4,          /* queries and keys may differ in number */
    HGA_ROWS_ARE_NODES = 8,     /* rows of tensors are nodes, not tokens; see tokens_of */
    HGA_TAKES_TREE = 16,        /* `parent` may give the hierarchy of the data */
    HGA_NEEDS_LEAVES = 32,      /* query_leaf (and key_leaf) or hyperplanes must be given */
    HGA_NEEDS_SEGMENTS = 64,    /* query_segment (and key_segment) must be given */
    HGA_NEEDS_TYPE_SCALE = 128, /* hga_io.type_scale must be given */
    HGA_TAKES_SHAPE = 256,      /* `shape` may be given: then tokens, its product, may be left out */
    HGA_NEEDS_DRAFTS = 512,     /* `parent` must be given, one a query token; keys are always other tokens */
    /* which options for scores its program takes with any parameters; with some parameters (causal hsa) it may take
       more */
    HGA_TAKES_SOFTCAP = 1024,
    HGA_TAKES_SINK = 2048,
    HGA_TAKES_SLOPES = 4096,
    HGA_TAKES_SIGMOID = 8192,
    HGA_TAKES_ENTMAX = 16384,
    HGA_NEEDS_CHOICE = 32768 /* its graph depends on queries and keys: what hga_select_blocks chose must be given */
};

/* Settings that are worth comparing: `words` with x for each #, for each x while covers * x < tokens. */
typedef struct hga_sweep {
    const char *words; /* NULL ends the table */
    hga_id covers;
    hga_id x[10]; /* ended by 0; a lone 0: the words alone, once */
} hga_sweep;

typedef struct hga_variant {
    const char *name; /* NULL ends the table */
    const char *says, *paper;
    size_t bytes;                       /* of the structure that `build` takes */
    size_t tokens, keys;                /* offsets of its hga_id of query and key tokens; keys HGA_NOWHERE without */
    const hga_parameter *parameters;    /* ended by a NULL name */
    unsigned can;                       /* HGA_CAN_CAUSAL and the others of that list */
    const char *const *shows;           /* settings that show it well, in words, ended by NULL */
    const hga_sweep *sweeps;            /* NULL: none */
    hga_id (*tokens_of)(hga_id rows);   /* HGA_ROWS_ARE_NODES: the tokens of so many rows, -1 without */
    void (*defaults)(void *parameters); /* as hga_variant_defaults */
    hga_status (*build)(const void *parameters, hga_graph **g, hga_program *program);
    /* edges of all attended relations by the paper's formula, NaN where none is known; shares nothing with build */
    double (*edges)(const void *parameters);
} hga_variant;

/* All published hierarchies: the rows of the table, ended by one whose name is NULL. Static. */
HGA_API const hga_variant *hga_variants(void);
/* Find the row of a published hierarchy by its name, NULL without; treeformer_fine is treeformer-fine, neighborhood is
   neighbourhood. */
HGA_API const hga_variant *hga_variant_named(const char *name);
/* What a name that other packages and papers have is here, in words for people; NULL for other names. Static. */
HGA_API const char *hga_variant_elsewhere(const char *name);
/* Find a parameter by the first `length` bytes of `name`, NULL without; query_leaf is query-leaf. */
HGA_API const hga_parameter *hga_variant_parameter(const hga_variant *v, const char *name, size_t length);

/* Fill the v->bytes bytes at `parameters` with the variant's own defaults; arrays are NULL, which is the builder's
   default. Where you have the struct itself, hga_defaults (hga_builders.h) knows its variant. */
HGA_API void hga_variant_defaults(const hga_variant *v, void *parameters);
/* Set one flag (1, true, yes, on; 0, false, no, off), number or word as typed, `tokens` and `keys` among them;
   HGA_EINVAL names what is wrong. Parameters that are not the builder's are HGA_EINVAL. */
HGA_API hga_status hga_variant_set(const hga_variant *v, void *parameters, const char *name, const char *value);
/* Set an array of n (times `columns`; 0 means 1) numbers, borrowed: hga_id for HGA_PARAMETER_IDS and for whole numbers
   that may be an array, float for HGA_PARAMETER_FLOATS. If another array or a number has set the count already, n must
   be equal to it. */
HGA_API hga_status hga_variant_set_array(const hga_variant *v, void *parameters, const char *name, const void *array,
                                         hga_id n, hga_id columns);

/* Bits of what words declare that is no row of a variant's table. */
enum { HGA_DECLARED_KEYS = 62, HGA_DECLARED_TOKENS = 63 };

/* A variant's settings, read from words. */
typedef struct hga_words {
    const hga_variant *variant;
    void *parameters;  /* what variant->build takes: the defaults, and what the words declare */
    uint64_t declared; /* bit i: parameter i of the variant's table; HGA_DECLARED_KEYS, HGA_DECLARED_TOKENS */
} hga_words;

/* Read a variant with its settings in words, "hsa branching=2,4,8 causal=1" or "hsa:branching=2,4,8:causal", for
   structures to be copied, changed by hga_variant_set and built several times. Lists hold at most 256 numbers in all,
   and copies of the structure point to them: they live until hga_words_clear. HGA_EINVAL names the word that is wrong,
   or a parameter that is given twice; so are words that begin or end with a colon. On failure *out is zeroed. */
HGA_API hga_status hga_words_read(const char *words, hga_words *out);
/* Free what hga_words_read has filled; zeroed words are fine. */
HGA_API void hga_words_clear(hga_words *w);

/* Make the graph and the program of a published hierarchy, in words as hga_words_read takes them, over n_tokens (0:
   `tokens=` is among the words). *g is then yours (hga_graph_destroy). HGA_EINVAL as hga_words_read has it. */
HGA_API hga_status hga_build(const char *words, hga_id n_tokens, hga_graph **g, hga_program *program);

#ifdef __cplusplus
}
#endif
#endif
