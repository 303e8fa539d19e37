/* parameter.c: reads -p. */
#include "variant.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "arguments.h"
#include "tree_file.h"

static int find(const hga_parameter *table, const char *name, size_t length)
{
    const hga_variant of_table = {.parameters = table};
    const hga_parameter *p = hga_variant_parameter(&of_table, name, length);
    return p ? (int)(p - table) : -1;
}

int parameter_is_flag(const hga_parameter *table, const char *name, size_t length)
{
    const int i = find(table, name, length);
    return i >= 0 && table[i].kind == HGA_PARAMETER_FLAG;
}

/* ---- values ---- */

/* Refuses a pipe that was read before: a batch whose samples have trees of their own would wait for ever for its
   numbers. */
static int check_unread(const char *path)
{
    enum { MOST = 64 };
    static struct stat read[MOST];
    static int n;
    struct stat s;
    if (stat(path, &s) || !S_ISFIFO(s.st_mode)) return CLI_GOOD;
    for (int i = 0; i < n; i++)
        if (read[i].st_dev == s.st_dev && read[i].st_ino == s.st_ino)
            return complain(CLI_USAGE, "%s: is a pipe, which can be read once, and is needed again: give a file", path);
    if (n < MOST) read[n++] = s;
    return CLI_GOOD;
}

static int read_array(const char *path, npy_content wish, npy *out)
{
    MUST(check_unread(path));
    return npy_read(path, wish, out);
}

/* A flag, a number or a word as the library reads it. */
static int read_scalar(const hga_parameter *p, const char *text, setting *out)
{
    hga_parameter alone[2] = {*p, {0}};
    const hga_variant of_one = {.name = p->name, .parameters = alone, .keys = HGA_NOWHERE};
    alone->offset = 0;
    void *to = p->kind == HGA_PARAMETER_REAL ? (void *)&out->real : (void *)&out->whole;
    return complain_of(hga_variant_set(&of_one, to, p->name, text), CLI_USAGE, p->name);
}

/* Copies whole numbers of a typed list. */
static int copy_ids(const hga_id *from, hga_id n, const char *path, npy *out)
{
    MUST(take(n, sizeof *from, &out->whole));
    memcpy(out->whole, from, (size_t)n * sizeof *from);
    out->n_dims = 1, out->dim[0] = out->count = n;
    out->path = strdup(path);
    return out->path ? CLI_GOOD : complain(CLI_OUTSIDE, "out of memory");
}

/* Reads whole numbers from a file after '@', the parents of a tree if the parameter is one, or from a list. */
static int read_ids(const hga_parameter *p, const char *text, setting *out)
{
    hga_id list[MAX_TYPED];
    int n = 0;
    if (text[0] == '@' && strcmp(p->name, "parent") == 0 && tree_file_is(text + 1)) {
        MUST(tree_file_read(text + 1, &out->tree));
        return copy_ids(out->tree.parent, out->tree.n, text + 1, &out->array);
    }
    if (text[0] == '@') return read_array(text + 1, NPY_WHOLE, &out->array);
    MUST(read_list_behind(p->words, p->name, text, p->least, MAX_TYPED, &n, list));
    return copy_ids(list, n, p->name, &out->array);
}

int parameter_may_be_list(const hga_parameter *p)
{
    return p->kind >= HGA_PARAMETER_IDS || (p->kind == HGA_PARAMETER_WHOLE && p->count != HGA_NOWHERE);
}

static int read_number_or_file(const hga_parameter *p, const char *text, setting *out)
{
    if (parameter_may_be_list(p) && (text[0] == '@' || strchr(text, ','))) return read_ids(p, text, out);
    if (p->words && text[0] == '@') return read_array(text + 1, NPY_WHOLE, &out->array);
    return read_scalar(p, text, out);
}

static int read_floats(const hga_parameter *p, const char *text, setting *out)
{
    if (text[0] != '@') return complain(CLI_USAGE, "%s: '%s' is not an array; say @FILE.npy", p->name, text);
    return read_array(text + 1, NPY_REAL, &out->array);
}

static int (*const read_kind[HGA_PARAMETER_FLOATS + 1])(const hga_parameter *, const char *, setting *) = {
    [HGA_PARAMETER_FLAG] = read_scalar, [HGA_PARAMETER_WHOLE] = read_number_or_file,
    [HGA_PARAMETER_WORD] = read_scalar, [HGA_PARAMETER_REAL] = read_scalar,
    [HGA_PARAMETER_IDS] = read_ids,     [HGA_PARAMETER_FLOATS] = read_floats,
};

const char *parameter_kind_name(const hga_parameter *p)
{
    static const char *const kind[HGA_PARAMETER_FLOATS + 1] = {"0|1", "N", "WORD", "X", "LIST", "@FILE"};
    if (p->kind == HGA_PARAMETER_WHOLE && parameter_may_be_list(p)) return "N|LIST";
    return kind[p->kind];
}

/* ---- settings ---- */

/* "bpt has no parameter 'cauzal'; did you mean 'causal'?" */
static int complain_of_parameter(const settings *s, const char *whose, const char *name, size_t length)
{
    const char *known[MAX_PARAMETERS];
    char typed[64], hint[96];
    int n = 0;
    snprintf(typed, sizeof typed, "%.*s", (int)length, name);
    for (; s->table[n].name; n++) known[n] = s->table[n].name;
    return complain(CLI_USAGE, "%s has no parameter '%s'%s", whose, typed, nearest_hint(typed, known, n, hint));
}

/* Refuses a parameter given twice. */
int settings_set(settings *s, const char *whose, const char *name, size_t length, const char *value)
{
    int i = find(s->table, name, length);
    if (i < 0) return complain_of_parameter(s, whose, name, length);
    if (s->value[i].is_set) return complain(CLI_USAGE, "%s: %s is given twice", whose, s->table[i].name);
    s->value[i].is_set = 1;
    return read_kind[s->table[i].kind](&s->table[i], value, &s->value[i]);
}

static int read_typed(settings *s, const char *whose, const char *typed)
{
    size_t length = strcspn(typed, "=");
    if (parameter_is_flag(s->table, typed, length) && !typed[length]) return settings_set(s, whose, typed, length, "1");
    if (!typed[length] || length == 0) return complain(CLI_USAGE, "-p: '%s' is not name=value", typed);
    return settings_set(s, whose, typed, length, typed + length + 1);
}

/* Sets defaults first, and then what was typed. */
int settings_read(const hga_parameter *table, const char *whose, const char *const *typed, int n, settings *out)
{
    int status = CLI_GOOD, size = 0;
    *out = (settings){.value = {{0}}};
    while (table[size].name && size < MAX_PARAMETERS) size++;
    memcpy(out->table, table, (size_t)size * sizeof *table);
    for (int i = 0; i < size; i++)
        if (table[i].standard && table[i].kind < HGA_PARAMETER_IDS)
            TRY(read_kind[table[i].kind](&table[i], table[i].standard, &out->value[i]));
    for (int i = 0; i < n; i++) TRY(read_typed(out, whose, typed[i]));
done:
    if (status) settings_clear(out);
    return status;
}

void settings_clear(settings *s)
{
    for (int i = 0; i < MAX_PARAMETERS; i++) npy_clear(&s->value[i].array), hga_tree_clear(&s->value[i].tree);
}

static const setting *value_of(const settings *s, const char *name)
{
    static const setting none;
    int i = find(s->table, name, strlen(name));
    return i < 0 ? &none : &s->value[i];
}

int setting_is_set(const settings *s, const char *name) { return value_of(s, name)->is_set; }

hga_id setting_id(const settings *s, const char *name) { return value_of(s, name)->whole; }

const npy *setting_array(const settings *s, const char *name)
{
    const setting *v = value_of(s, name);
    return v->is_set && v->array.n_dims > 0 ? &v->array : NULL;
}

const hga_tree *setting_tree(const settings *s, const char *name)
{
    const setting *v = value_of(s, name);
    return v->is_set && v->tree.n ? &v->tree : NULL;
}

/* ---- a variant's structure ---- */

/* Writes a value into the builder's structure. */
static int fill_one(const hga_variant *v, const hga_parameter *p, const setting *value, void *parameters)
{
    const npy *a = &value->array;
    char *to = (char *)parameters + p->offset;
    const int axes = p->kind >= HGA_PARAMETER_IDS && p->columns != HGA_NOWHERE ? 2 : 1;
    if (p->kind == HGA_PARAMETER_REAL) return memcpy(to, &value->real, sizeof value->real), CLI_GOOD;
    if (p->kind < HGA_PARAMETER_IDS && !a->path) return memcpy(to, &value->whole, sizeof value->whole), CLI_GOOD;
    if (a->n_dims < 1 || a->n_dims > axes || a->dim[0] > INT32_MAX || a->dim[1] > INT32_MAX)
        return complain(CLI_DATA, "%s: %s has one axis", a->path, p->name);
    return complain_of(hga_variant_set_array(v, parameters, p->name, a->whole, (hga_id)a->dim[0],
                                             a->n_dims > 1 ? (hga_id)a->dim[1] : 0),
                       CLI_USAGE, a->path);
}

int settings_fill(const settings *s, const hga_variant *v, void *parameters)
{
    hga_variant_defaults(v, parameters);
    for (int i = 0; s->table[i].name; i++) {
        const hga_parameter *p = hga_variant_parameter(v, s->table[i].name, strlen(s->table[i].name));
        if (p && p->place == HGA_IN_BUILDER && s->value[i].is_set) MUST(fill_one(v, p, &s->value[i], parameters));
    }
    return CLI_GOOD;
}
