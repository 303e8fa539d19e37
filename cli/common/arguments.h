/* arguments.h: command lines. Each subcommand has an argp of its own; errors are one line, and what several subcommands
   share is a child. */
#ifndef CLI_ARGUMENTS_H
#define CLI_ARGUMENTS_H

#include <argp.h>
#include <stddef.h>

#include "complain.h"

/* Of an option's flags: --help leaves it out, --help-all has it. */
enum { ARGUMENTS_MORE = 1 << 16 };

/* Parse argv by `argp` into `input`. --help prints the options that most calls need with their defaults, --help-all,
   which is `hga help NAME --all`, prints all, and both end the process with 0. */
int arguments_parse(const struct argp *argp, int argc, char **argv, void *input);

/* What an argp parser returns once a function below has complained: 0 for CLI_GOOD, else the error that arguments_parse
   stays silent about. */
error_t arguments_said(int status);

/* Keys of options that only leave what was typed: in the member of the parser's input that takes the text, a const char
   *, or that becomes 1, an int. */
#define OPTION_TO(base, input, member, type) \
    ((base) + (int)offsetof(input, member) + (int)(0 * sizeof(1 ? &((input *)0)->member : (type *)0)))
#define TEXT(input, member) OPTION_TO(KEYS_OF_TEXTS, input, member, const char *)
#define FLAG(input, member) OPTION_TO(KEYS_OF_FLAGS, input, member, int)
enum { KEYS_OF_TEXTS = 1 << 20, KEYS_OF_FLAGS = 1 << 21, KEYS_OF_EACH = 1 << 20 };

/* For a parser's default: does it, or returns ARGP_ERR_UNKNOWN. */
error_t arguments_put(int key, char *value, void *input);

/* A whole number in [lo, hi], or a finite number; `what` is the option's name in the complaint. */
int read_whole(const char *what, const char *text, int64_t lo, int64_t hi, int64_t *out);
int read_id(const char *what, const char *text, int64_t lo, int64_t hi, hga_id *out);
int read_number(const char *what, const char *text, double *out);

/* A number that float32 holds. */
int read_float(const char *what, const char *text, double *out);

/* A number above 0. */
int read_positive(const char *what, const char *text, double *out);

/* Whole numbers with commas between them, at most `room`. */
int read_list(const char *what, const char *text, int64_t lo, int64_t hi, int room, int *n, hga_id *out);

/* The same from `lo`, with or without "word:" before it (word NULL: without); another word is told what to be. */
int read_list_behind(const char *word, const char *what, const char *text, int64_t lo, int room, int *n, hga_id *out);

/* "a b c" has `text`: its index, or -1. */
int choice_of(const char *choices, const char *text);

/* --threads, --isa, --precision, --bind (by itself auto): input is an hga_options. */
extern const struct argp machine_argp;
/* --heads, --kv-heads, --dim: input is an hga_shape. */
extern const struct argp shape_argp;
enum { DEFAULT_HEADS = 8, DEFAULT_DIM = 64, MAX_HEADS = 4096, MAX_DIM = 65536 };

/* An ISA or precision by name. */
int read_isa(const char *what, const char *text, const char **out);
int read_precision(const char *what, const char *text, hga_precision *out);
/* "off", "on" or "auto", as hga_options.bind has it. */
int read_bind(const char *what, const char *text, int *out);
#define BIND_HELP                                                                                                      \
    "off, on or auto: threads are bound to processors, where there are several NUMA domains and OpenMP binds nothing " \
    "(default: auto)"

/* What runs when no ISA is named: HGA_ISA, or the best that this machine has. */
const char *default_isa(void);

#endif
