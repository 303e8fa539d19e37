/* parameter.h: -p name=value. What was typed becomes an array of settings beside a table of parameters, which is a
   variant's own with `tokens` before it. */
#ifndef CLI_PARAMETER_H
#define CLI_PARAMETER_H

#include "complain.h"
#include "npy.h"

enum { MAX_PARAMETERS = 24, MAX_TYPED = 64 };

typedef struct setting {
    int given;
    int64_t whole; /* flags, whole numbers, the place of a word */
    double real;
    npy array;     /* lists and files */
    hga_tree tree; /* of a file that is a tree: the array is its parents; else zeroed */
} setting;

/* A table is ended by a NULL name. Its arrays' offsets count in a variant's structure; a whole number whose `words` is
   "@" may also be an array of whole numbers. */
typedef struct settings {
    hga_parameter table[MAX_PARAMETERS + 1];
    setting value[MAX_PARAMETERS];
} settings;

/* Read "name=value" texts by a table; `whose` names the variant in complaints. */
int settings_read(const hga_parameter *table, const char *whose, const char *const *typed, int n, settings *out);
/* One more, over what was there; on failure the caller still clears. */
int settings_set(settings *s, const char *whose, const char *name, const char *value);
void settings_clear(settings *s);

/* By name, which must be in the table or is never given. */
int setting_given(const settings *s, const char *name);
hga_id setting_id(const settings *s, const char *name);
/* The array of a list or file; NULL when it was not given or is a number. */
const npy *setting_array(const settings *s, const char *name);

/* The tree of a file that says more than parents; NULL without. */
const hga_tree *setting_tree(const settings *s, const char *name);

/* A variant's structure from its defaults and what was given; arrays stay the settings'. */
int settings_fill(const settings *s, const hga_variant *v, void *parameters);

/* "64 or @FILE": what one types for a parameter. */
const char *parameter_kind_name(const hga_parameter *p);

#endif
