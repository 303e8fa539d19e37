/* program.h: the semantics of stages as data: the legal table of hga_program.h with the roles of its fields, for the
   check, the analyses and the engine. */
#ifndef HGA_PROGRAM_RULES_H
#define HGA_PROGRAM_RULES_H

#include "hga_program.h"

typedef enum stage_kind {
    KIND_NONE, /* an illegal combination */
    KIND_MEAN,
    KIND_SUM,
    KIND_WEIGHTED_SUM,
    KIND_ATTEND,
    KIND_ATTEND_MORE,
    KIND_SPREAD,
    KIND_ENERGY,
    KIND_DESCEND,
    KIND_ATTEND_INSIDE,
    KIND_USER,
    N_KINDS
} stage_kind;

/* The members of a stage that name a field; sets of roles have bit r for role r. */
typedef enum stage_role { ROLE_QUERY, ROLE_KEY, ROLE_VALUE, ROLE_GATE, ROLE_KEEP, ROLE_OUT, N_ROLES } stage_role;

enum { ON_RELATION = 1, ON_TREE_UP = 2, ON_TREE_DOWN = 4 };

/* The least operations of an edge in a stage, per column of keys and of values, per column of the out field, and per
   head. */
typedef struct edge_cost {
    int key, value, column, head;
} edge_cost;

/* Roles that are read, as sets. */
typedef struct role_reads {
    unsigned source; /* at the source of an edge */
    unsigned own;    /* at the row itself when it has an in-edge */
    unsigned lone;   /* at a row without in-edges */
    unsigned child;  /* at the row's children, which the stage has written before */
    unsigned gating; /* of lone, roles without effect where the state in ROLE_VALUE is empty */
} role_reads;

/* on: the stage propagates values: tokens that `source` of a source and `own` of the row stand for reach ROLE_OUT. */
typedef struct role_carry {
    int on;
    unsigned source, own;
} role_carry;

/* One row of the legal table. */
typedef struct stage_rule {
    const char *name;
    hga_message message;
    hga_reduce reduce;
    hga_update update;
    unsigned relations;      /* ON_* it may run along */
    unsigned orders;         /* set of hga_order */
    unsigned width[N_ROLES]; /* set of hga_width the role may have; 0: the role is unused */
    role_reads reads;
    unsigned gives_slot; /* of reads.own, those whose rows the stage may write to: a row is read before it is written */
    unsigned writes;     /* roles written */
    unsigned ready;      /* roles that an input or an earlier stage must have filled */
    unsigned may_be_out; /* roles that may name the out field too */
    unsigned must_be_out; /* roles that must */
    role_carry carry;
    int attends;         /* its edges have scores */
    int starts_from_out; /* what it computes is merged with what ROLE_OUT holds */
    edge_cost cost;
} stage_rule;

/* The table, indexed by stage_kind; row KIND_NONE has no name. */
extern const stage_rule program_rules[N_KINDS];

/* Whether the kind computes energies. */
static inline int kind_has_energies(stage_kind kind) { return kind == KIND_ENERGY || kind == KIND_ATTEND_INSIDE; }
/* Whether some stage does; then scores are an energy's. */
int program_has_energies(const hga_program *p);
/* The row of a stage; KIND_NONE when no row has its message, reduce and update. */
stage_kind program_kind(const hga_stage *s);
/* "mean", "weighted sum", ..; "none" for an illegal combination. */
const char *program_stage_kind(const hga_stage *s);
/* The field in a role, 0 without. */
hga_id program_role(const hga_stage *s, stage_role role);
/* The fields in a set of roles, as a set of fields. */
uint32_t program_fields(const hga_stage *s, unsigned roles);
/* The fields that a stage both reads at the sources and writes there. With any it must run level by level. */
uint32_t program_in_place(const hga_stage *s);
/* The normaliser of all stages that attend; softmax where there are none. */
hga_normaliser program_normaliser(const hga_program *p);
/* Whether only the plain semantics computes the program. */
int program_is_plain(const hga_program *p);
/* Whether a stage has scores, the caller's own functions included. */
int program_has_scores(const hga_program *p);
/* The first stage that attends; NULL: none. */
const hga_stage *program_first_attended(const hga_program *p);
/* The alpha of entmax; else 0. */
double program_alpha(const hga_program *p);
/* "softmax", .. */
extern const char *const program_normaliser_names[];
/* What a normaliser is, and where the fused functions leave it to the plain executor. */
enum {
    NORMALISER_HAS_LSE = 1,    /* states have log-sum-exps: energies, descend and io.lse read them */
    NORMALISER_MERGES = 2,     /* states of a row's parts merge */
    NORMALISER_SHARES_OUT = 4, /* a row's weights sum to 1: `attend inside` shares them out */
    NORMALISER_HAS_BIAS = 8,   /* the number is the call's bias */
    NORMALISER_HAS_ALPHA = 16, /* the number is the stages' alpha, or 1, which is softmax */
    NORMALISER_IS_PLAIN = 32,
    NORMALISER_IS_PLAIN_BESIDE_USERS = 64, /* user functions see log-sum-exps, which fused sums have not */
    NORMALISER_IS_PLAIN_OF_SUMS = 128      /* of additive scores */
};
/* These, of a program's normaliser. */
unsigned program_normaliser_is(const hga_program *p);
/* These, of any. */
unsigned normaliser_is(hga_normaliser normaliser);
/* Whether the number is one that the normaliser can have. */
int normaliser_takes(hga_normaliser normaliser, double number);
/* "product", .. */
extern const char *const program_scores_names[];
/* Whether the caller fills tensors of this binding. */
int program_is_input(hga_binding binding);
/* The field bound to `binding`, 0 without. */
hga_id program_bound(const hga_program *p, hga_binding binding);
/* Whether node v is among `rows`. */
int program_row(const hga_nodes *nodes, hga_field_rows rows, hga_id v);

/* The number of rows, from *first on; all nodes for rows of a side. */
hga_id program_row_range(const hga_nodes *nodes, hga_field_rows rows, hga_id *first);
/* Whether the stage's kind attends. */
static inline int kind_attends(stage_kind kind) { return program_rules[kind].attends; }
/* Whether it computes a sum of its sources' rows, each times a number that depends on no row. */
static inline int kind_sums(stage_kind kind)
{
    return kind == KIND_MEAN || kind == KIND_SUM || kind == KIND_WEIGHTED_SUM;
}
/* Whether the old value of its out field enters the result. */
static inline int kind_starts_from_out(stage_kind kind) { return program_rules[kind].starts_from_out; }

/* Node v's children, as many as the result: (*list)[0 ..], or when that is NULL the ids from *first on. */
static inline hga_id children_of(const hga_nodes *nodes, hga_id v, const hga_id **list, hga_id *first)
{
    if (!nodes->child_ptr || v < nodes->level_ptr[1]) return 0;
    const hga_id *ptr = nodes->child_ptr + (v - nodes->level_ptr[1]);
    *first = ptr[0], *list = nodes->child_list ? nodes->child_list + ptr[0] : NULL;
    return ptr[1] - ptr[0];
}
/* Child i of the list and *first of children_of. */
static inline hga_id child_number(const hga_id *list, hga_id first, hga_id i) { return list ? list[i] : first + i; }

/* Whether every node of the graph among rows `a` is also among rows `b`. Tokens may have sides like any node. */
int program_rows_within(const hga_nodes *nodes, hga_field_rows a, hga_field_rows b);
/* Whether these rows are a contiguous range of nodes. */
static inline int program_is_range(hga_field_rows rows)
{
    return rows != HGA_ROWS_QUERY_SIDE && rows != HGA_ROWS_KEY_SIDE;
}

#endif
