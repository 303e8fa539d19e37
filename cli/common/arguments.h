/* arguments.h: command lines as rows: an option is a name, its argument, the member it sets, and a sentence. Errors
   are one line; lists that several subcommands share are parts of theirs. */
#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include <argp.h>
#include <stddef.h>
#include <stdio.h>

#include "complain.h"

/* Of an option's flags: --help leaves it out, --help-all has it. */
enum { ARGUMENTS_MORE = 1 << 16 };

typedef enum option_kind {
    OPTION_TEXT,    /* const char *: what was typed */
    OPTION_FLAG,    /* int: 1 */
    OPTION_ID,      /* hga_id, from `least` to `most` */
    OPTION_WHOLE,   /* int64_t, likewise */
    OPTION_ABOVE_0, /* double */
    OPTION_CHOICE,  /* an enumeration: the index of one of `words` */
    OPTION_READ     /* whatever `read` makes of it */
} option_kind;

/* What an option takes, and the member of its list's input that it sets. */
typedef struct option_value {
    option_kind kind;
    size_t at, said; /* said: of an int that becomes 1; 0: none */
    int64_t least, most;
    const char *words;
    int (*read)(const char *text, void *input); /* returns an exit status, and has complained */
} option_value;

#define MEMBER_OF(input, member, type) (offsetof(input, member) + 0 * sizeof(1 ? &((input *)0)->member : (type *)0))
#define VALUE(...)  \
    {               \
        __VA_ARGS__ \
    }
#define SAID(input, flag)           .said = MEMBER_OF(input, flag, int)
#define TEXT(input, member)         VALUE(OPTION_TEXT, .at = MEMBER_OF(input, member, const char *))
#define FLAG(input, member)         VALUE(OPTION_FLAG, .at = MEMBER_OF(input, member, int))
#define ABOVE_0(input, member)      VALUE(OPTION_ABOVE_0, .at = MEMBER_OF(input, member, double))
#define READ(function)              VALUE(OPTION_READ, .read = function)
#define CHOICE(input, member, list) VALUE(OPTION_CHOICE, .at = offsetof(input, member), .words = list)
#define ID(input, member, lo, hi)   VALUE(OPTION_ID, .at = MEMBER_OF(input, member, hga_id), .least = lo, .most = hi)
#define WHOLE(input, member, lo, hi) \
    VALUE(OPTION_WHOLE, .at = MEMBER_OF(input, member, int64_t), .least = lo, .most = hi)
/* The same of members that another one says were typed. */
#define CHOICE_SAID(input, member, list, flag) \
    VALUE(OPTION_CHOICE, .at = offsetof(input, member), SAID(input, flag), .words = list)
#define ID_SAID(input, member, lo, hi, flag) \
    VALUE(OPTION_ID, .at = MEMBER_OF(input, member, hga_id), SAID(input, flag), .least = lo, .most = hi)

typedef struct option_row {
    const char *name; /* "tokens,n", with the letter that is short for it; ",o", a letter alone; NULL ends a list */
    option_value value;
    const char *takes; /* "FILE"; NULL: nothing */
    int flags;         /* ARGUMENTS_MORE, and argp's */
    const char *says;
    int group; /* --help has groups one after the other */
} option_row;

typedef struct option_list option_list;

/* A list within another, whose input is a member of the other's input. */
typedef struct option_part {
    const option_list *list; /* NULL ends the parts */
    size_t at;
    const char *heading; /* NULL: its options stand among the others */
    int group;
} option_part;

enum { WORD_LEFT = -1 };

struct option_list {
    const option_row *rows;
    const option_part *parts;
    void (*start)(void *input);           /* before anything is read */
    int (*take)(char *word, void *input); /* a word that is no option: an exit status, or WORD_LEFT for others */
    int (*check)(void *input);            /* after all was read, parts first; an exit status */
    void (*tell)(FILE *file);             /* what --help says after the options; NULL: nothing */
    const char *words, *says;             /* of a command: "VARIANT", and what it does; \v before the last part */
};

/* Parse argv into `input`, by a list whose parts are filled before it. --help prints the options that most calls need
   with their defaults, --help-all, which is `hga help NAME --all`, prints all, and both end the process with 0. */
int arguments_parse(const option_list *list, int argc, char **argv, void *input);

/* The first of these names, separated by blanks, whose option is present; NULL without one. */
const char *arguments_present(const char *names);
/* The name of an option that is present and is neither `name` nor in the list, NULL without one: for a list's check. */
const char *arguments_present_besides(const char *name, const option_list *list);

/* For a list whose command takes one word: sets *to to it; refuses a second one. */
int take_once(char *word, const char **to);

/* A whole number in [lo, hi], or a finite number; `what` is the option's name in the complaint. */
int read_whole(const char *what, const char *text, int64_t lo, int64_t hi, int64_t *out);
int read_id(const char *what, const char *text, int64_t lo, int64_t hi, hga_id *out);
int read_number(const char *what, const char *text, double *out);

/* A number that float32 holds. */
int read_float(const char *what, const char *text, double *out);

/* Copies the next of words separated by commas, cut where it is too long, and advances the list. 0: none is left. */
int list_next(const char **list, char *word, size_t capacity);

/* Whole numbers separated by commas, at most `capacity`. */
int read_list(const char *what, const char *text, int64_t lo, int64_t hi, int capacity, int *n, hga_id *out);

/* The same from `lo`, with or without "word:" before it (word NULL: without); the complaint about another word names
   `word`. */
int read_list_behind(const char *word, const char *what, const char *text, int64_t lo, int capacity, int *n,
                     hga_id *out);

/* The index of `text` in "a b c", or -1; or a complaint. */
int choice_of(const char *choices, const char *text);
int read_choice(const char *what, const char *choices, const char *text, int *out);

/* --threads, --isa, --precision, --bind (by itself auto): input is an hga_options. */
extern const option_list machine_list;
/* --heads, --kv-heads, --dim: input is an hga_shape. */
extern const option_list shape_list;
enum { DEFAULT_HEADS = 8, DEFAULT_DIM = 64, MAX_HEADS = 4096, MAX_DIM = 65536 };

/* As hga_options.precision and .bind have them, in their order. */
#define PRECISION_WORDS "f32 bf16"
#define BIND_WORDS      "off on auto"
#define BIND_HELP                                                                                                      \
    "off, on or auto: threads are bound to processors, where there are several NUMA domains and OpenMP binds nothing " \
    "(default: auto)"

/* What runs when no ISA is named: HGA_ISA, or the best that this machine has. */
const char *default_isa(void);

#endif
