/* parameter.h: -p name=value. A variant has a table of parameters; what was typed becomes an array of settings beside
   it. */
#ifndef CLI_PARAMETER_H
#define CLI_PARAMETER_H

#include "complain.h"
#include "npy.h"

typedef enum parameter_kind {
    PARAMETER_FLAG,    /* 0 or 1 */
    PARAMETER_WHOLE,   /* a whole number */
    PARAMETER_CHOICE,  /* one of `choices` */
    PARAMETER_LIST,    /* 2,4,8 or @FILE */
    PARAMETER_LENGTHS, /* a whole number or @FILE */
    PARAMETER_REALS,   /* @FILE of floats */
    PARAMETER_WHOLES   /* @FILE of whole numbers */
} parameter_kind;

typedef struct parameter {
    const char *name;
    parameter_kind kind;
    const char *standard; /* the default as one would type it; NULL: none */
    const char *choices;
    int32_t least; /* of whole numbers */
    const char *says;
} parameter;

enum { MAX_PARAMETERS = 16, MAX_TYPED = 64 };

typedef struct setting {
    int given;
    int64_t whole; /* flags, whole numbers, the index of a choice */
    npy array;     /* lists and files */
} setting;

typedef struct settings {
    const parameter *table; /* ended by a NULL name */
    setting value[MAX_PARAMETERS];
} settings;

/* Read "name=value" texts by a table; `whose` names the variant in complaints. */
int settings_read(const parameter *table, const char *whose, const char *const *typed, int n, settings *out);
/* One more, over what was there; on failure the caller still clears. */
int settings_set(settings *s, const char *whose, const char *name, const char *value);
void settings_clear(settings *s);

/* By name, which must be in the table or is never given. */
int setting_given(const settings *s, const char *name);
hga_id setting_id(const settings *s, const char *name);
/* The array of a list or file; NULL when it was not given or is a number. */
const npy *setting_array(const settings *s, const char *name);

#endif
