/* parameter.c: what -p says. */
#include "parameter.h"

#include <stdlib.h>
#include <string.h>

#include "arguments.h"

static int find(const parameter *table, const char *name, size_t length)
{
    for (int i = 0; table[i].name; i++)
        if (strlen(table[i].name) == length && strncmp(table[i].name, name, length) == 0) return i;
    return -1;
}

static int read_flag(const parameter *p, const char *text, setting *out)
{
    return read_whole(p->name, text, 0, 1, &out->whole);
}

static int read_integer(const parameter *p, const char *text, setting *out)
{
    return read_whole(p->name, text, p->least, INT32_MAX, &out->whole);
}

static int read_choice(const parameter *p, const char *text, setting *out)
{
    int i = choice_of(p->choices, text);
    out->whole = i;
    return i >= 0 ? CLI_GOOD : complain(CLI_USAGE, "%s: '%s' is not one of: %s", p->name, text, p->choices);
}

static int read_wholes(const parameter *p, const char *text, setting *out)
{
    if (text[0] != '@') return complain(CLI_USAGE, "%s: '%s' is not an array; say @FILE.npy", p->name, text);
    return npy_read_whole(text + 1, &out->array);
}

static int read_reals(const parameter *p, const char *text, setting *out)
{
    if (text[0] != '@') return complain(CLI_USAGE, "%s: '%s' is not an array; say @FILE.npy", p->name, text);
    return npy_read_real(text + 1, &out->array);
}

static int read_numbers(const parameter *p, const char *text, setting *out)
{
    hga_id list[MAX_TYPED];
    int n = 0;
    if (text[0] == '@') return read_wholes(p, text, out);
    int status = read_list(p->name, text, 1, INT32_MAX, MAX_TYPED, &n, list);
    if (status == CLI_GOOD) status = take(n, sizeof *list, &out->array.whole);
    if (status) return status;
    memcpy(out->array.whole, list, (size_t)n * sizeof *list);
    out->array.n_dims = 1;
    out->array.dim[0] = out->array.count = n;
    return CLI_GOOD;
}

static int read_lengths(const parameter *p, const char *text, setting *out)
{
    return text[0] == '@' ? read_wholes(p, text, out) : read_integer(p, text, out);
}

static int (*const read_kind[])(const parameter *, const char *, setting *) = {
    [PARAMETER_FLAG] = read_flag,     [PARAMETER_WHOLE] = read_integer,   [PARAMETER_CHOICE] = read_choice,
    [PARAMETER_LIST] = read_numbers,  [PARAMETER_LENGTHS] = read_lengths, [PARAMETER_REALS] = read_reals,
    [PARAMETER_WHOLES] = read_wholes,
};

/* the later of two settings of one name counts, as with options */
static int set(settings *s, const char *whose, const char *name, size_t length, const char *value)
{
    int i = find(s->table, name, length);
    if (i < 0) return complain(CLI_USAGE, "%s has no parameter '%.*s'", whose, (int)length, name);
    npy_clear(&s->value[i].array);
    s->value[i].given = 1;
    return read_kind[s->table[i].kind](&s->table[i], value, &s->value[i]);
}

int settings_set(settings *s, const char *whose, const char *name, const char *value)
{
    return set(s, whose, name, strlen(name), value);
}

static int read_typed(settings *s, const char *whose, const char *typed)
{
    size_t length = strcspn(typed, "=");
    if (!typed[length] || length == 0) return complain(CLI_USAGE, "-p: '%s' is not name=value", typed);
    return set(s, whose, typed, length, typed + length + 1);
}

int settings_read(const parameter *table, const char *whose, const char *const *typed, int n, settings *out)
{
    int status = CLI_GOOD;
    *out = (settings){.table = table};
    for (int i = 0; table[i].name; i++)
        if (table[i].standard && table[i].kind != PARAMETER_LIST)
            TRY(read_kind[table[i].kind](&table[i], table[i].standard, &out->value[i]));
    for (int i = 0; i < n; i++) TRY(read_typed(out, whose, typed[i]));
done:
    if (status) settings_clear(out);
    return status;
}

void settings_clear(settings *s)
{
    for (int i = 0; i < MAX_PARAMETERS; i++) npy_clear(&s->value[i].array);
}

static const setting *value_of(const settings *s, const char *name)
{
    static const setting none;
    int i = find(s->table, name, strlen(name));
    return i < 0 ? &none : &s->value[i];
}

int setting_given(const settings *s, const char *name) { return value_of(s, name)->given; }

hga_id setting_id(const settings *s, const char *name) { return (hga_id)value_of(s, name)->whole; }

const npy *setting_array(const settings *s, const char *name)
{
    const setting *v = value_of(s, name);
    return v->given && v->array.n_dims > 0 ? &v->array : NULL;
}
