/* variant.c: VARIANT as typed: found in the registry, its parameters read. */
#include "variant.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "arguments.h"

/* ---- parameters ---- */

static const char tokens_says[] = "tokens (attend: from the query); @LENGTHS.npy makes a ragged batch";
static const hga_parameter tokens_row = {
    "tokens", HGA_PARAMETER_WHOLE, HGA_IN_BUILDER, HGA_NOWHERE, HGA_NOWHERE, HGA_NOWHERE, NULL, 1, "@", tokens_says,
    NULL};
static const hga_parameter file_parameters[] = {
    {"tokens", HGA_PARAMETER_WHOLE, HGA_IN_BUILDER, HGA_NOWHERE, HGA_NOWHERE, HGA_NOWHERE, NULL, 1, NULL,
     "the graph's queries, to be sure", NULL},
    {"parents", HGA_PARAMETER_IDS, HGA_IN_IO, HGA_NOWHERE, HGA_NOWHERE, HGA_NOWHERE, NULL, 0, NULL,
     "the parent of every node, -1 without: a tree over a file of edges", NULL},
    {"leaves", HGA_PARAMETER_WORD, HGA_IN_IO, HGA_NOWHERE, HGA_NOWHERE, HGA_NOWHERE, "id", 0, "id depth-first",
     "rows of tensors: id, the leaves by the file's ids, or depth-first, in the order of its tree", NULL},
    {"tree", HGA_PARAMETER_IDS, HGA_IN_IO, HGA_NOWHERE, HGA_NOWHERE, HGA_NOWHERE, NULL, 2, "metis",
     "metis:8,8,8, clusters over a file of edges that METIS finds, of so many nodes each, level by level", NULL},
    {"weights", HGA_PARAMETER_WORD, HGA_IN_IO, HGA_NOWHERE, HGA_NOWHERE, HGA_NOWHERE, "file", 0, "file ignore",
     "of edges: those of the file, or, as --pattern says, 1 whatever the file says", NULL},
    {"order", HGA_PARAMETER_WORD, HGA_IN_IO, HGA_NOWHERE, HGA_NOWHERE, HGA_NOWHERE, "none", 0, "none rcm metis degree",
     "how nodes are put near their neighbours before anything runs; what comes out keeps the file's numbers", NULL},
    {"alpha", HGA_PARAMETER_FLOATS, HGA_IN_IO, HGA_NOWHERE, HGA_NOWHERE, HGA_NOWHERE, NULL, 0, NULL,
     "the weights by type of a program with weighted sums", NULL},
    {0},
};

/* the parameters of a variant with `tokens` before them, or of graph=FILE */
static void list_parameters(const hga_variant *v, hga_parameter out[MAX_PARAMETERS + 1])
{
    int n = 0;
    memset(out, 0, (MAX_PARAMETERS + 1) * sizeof *out);
    if (v) out[n++] = tokens_row;
    for (const hga_parameter *p = v ? v->parameters : file_parameters; p->name && n < MAX_PARAMETERS; p++)
        out[n++] = *p;
}

/* ---- names ---- */

static const char file_prefix[] = "graph=";

/* a variant of the registry, or a file: then *v is NULL */
static int find_variant(const char *name, const hga_variant **v)
{
    *v = hga_variant_named(name);
    return *v || strncmp(name, file_prefix, sizeof file_prefix - 1) == 0;
}

/* Complains with the names of all variants, and the nearest one. */
static int complain_of_name(const char *name)
{
    enum { MOST = 32 };
    char text[512] = "", hint[96];
    const char *known[MOST], *here = hga_variant_elsewhere(name);
    int n = 0;
    if (here) return complain(CLI_USAGE, "no variant '%s': here it is %s", name, here);
    if (strchr(name, '=')) {
        snprintf(text, sizeof text, "%.*s", (int)strcspn(name, "="), name);
        const hga_variant *meant = hga_variant_named(text);
        return complain(CLI_USAGE, "no variant '%s'; parameters follow a variant after colons: %s:%s", name,
                        meant ? meant->name : "VARIANT", meant ? "NAME=VALUE" : name);
    }
    for (const hga_variant *v = hga_variants(); v->name && n < MOST; v++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, " %s", v->name);
        known[n++] = v->name;
    }
    nearest_hint(name, known, n, hint);
    return complain(CLI_USAGE, "no variant '%s'%s%s %s graph=FILE", name, hint,
                    *hint ? " There are:" : "; there are:", text + (*text != 0));
}

int variant_title(const typed_variant *typed, char **title)
{
    size_t length = strlen(typed->name) + 1;
    for (int i = 0; i < typed->n; i++) length += strlen(typed->setting[i]) + 1;
    if (typed->tokens) length += strlen(typed->tokens) + sizeof " tokens=";
    MUST(take((int64_t)length, 1, title));
    strcpy(*title, typed->name);
    for (int i = 0; i < typed->n; i++) strcat(strcat(*title, " "), typed->setting[i]);
    if (typed->tokens) strcat(strcat(*title, " tokens="), typed->tokens);
    return CLI_GOOD;
}

/* Reads the settings by the table of the variant's parameters; sets tokens last. */
int variant_settings(const typed_variant *typed, settings *out, const hga_variant **v)
{
    hga_parameter table[MAX_PARAMETERS + 1];
    int status = CLI_GOOD;
    if (!find_variant(typed->name, v)) return complain_of_name(typed->name);
    list_parameters(*v, table);
    TRY(settings_read(table, typed->name, typed->setting, typed->n, out));
    if (typed->tokens) TRY(settings_set(out, typed->name, "tokens", strlen("tokens"), typed->tokens));
done:
    if (status) settings_clear(out);
    return status;
}

const char *variant_path(const typed_variant *typed) { return typed->name + sizeof file_prefix - 1; }

/* ---- typed ---- */

static const char between[] = ": ";

/* the colon or blank before the next setting, "name=value" or a flag's name; NULL where `part` is the last */
static char *next_setting(const hga_variant *v, char *part)
{
    char *cut = strpbrk(part, between);
    const char *equals = strchr(part, '=');
    while (cut && equals && equals < cut) {
        size_t n = strcspn(cut + 1, ": =");
        if (cut[1 + n] == '=' || (v && parameter_is_flag(v->parameters, cut + 1, n))) break;
        cut = strpbrk(cut + 1, between);
    }
    return cut;
}

/* A setting ends where the next one begins, so that values may have blanks and colons. */
int variant_cut(char *words, int most, typed_variant *t)
{
    const hga_variant *v = NULL;
    for (char *part = words, *next; part; part = next) {
        next = next_setting(v, part);
        if (next) *next++ = 0, next += strspn(next, between);
        if (next && !*next) next = NULL;
        if (part != words && t->n == most) return complain(CLI_USAGE, "%s: more than %d parameters", words, most);
        if (part == words)
            t->name = part, v = hga_variant_named(part);
        else
            t->setting[t->n++] = part;
    }
    return CLI_GOOD;
}

int variant_next(const char **list, char name[static VARIANT_NAME], const hga_variant **v)
{
    if (!list_next(list, name, VARIANT_NAME)) return 0;
    *v = hga_variant_named(name);
    return 1;
}

int variant_listed(const char *list, const hga_variant *v)
{
    char name[VARIANT_NAME];
    const hga_variant *one = NULL;
    while (one != v && variant_next(&list, name, &one)) continue;
    return one == v;
}

int variant_is_named(const char *word)
{
    char name[64];
    const hga_variant *v;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, between), word);
    return find_variant(strncmp(word, file_prefix, sizeof file_prefix - 1) == 0 ? word : name, &v);
}

static int is_file(const char *name)
{
    struct stat s;
    return stat(name, &s) == 0 && (S_ISREG(s.st_mode) || S_ISFIFO(s.st_mode));
}

/* a file's name as graph=FILE says it; a command has one VARIANT */
static int take_file(const char *path, typed_variant *t)
{
    static char name[sizeof file_prefix + PATH_MAX];
    if (strlen(path) >= PATH_MAX) return complain(CLI_USAGE, "%.40s..: the name is too long", path);
    t->name = strcat(strcpy(name, file_prefix), path);
    return CLI_GOOD;
}

int variant_take(char *word, typed_variant *t)
{
    if (!variant_is_named(word) && is_file(word)) return take_file(word, t);
    if (strncmp(word, file_prefix, sizeof file_prefix - 1) == 0) {
        t->name = word;
        return CLI_GOOD;
    }
    MUST(variant_cut(word, MAX_TYPED, t));
    const hga_variant *v = hga_variant_named(t->name);
    if (!v) return complain_of_name(t->name);
    t->name = v->name;
    return CLI_GOOD;
}

int variant_add(typed_variant *t, const char *text)
{
    if (t->n == MAX_TYPED) return complain(CLI_USAGE, "-p: more than %d of them", MAX_TYPED);
    t->setting[t->n++] = text;
    return CLI_GOOD;
}

/* The value as it was typed, "1" for a flag alone; NULL: not typed. */
static const char *typed_value(const typed_variant *typed, const char *name)
{
    const size_t length = strlen(name);
    for (int i = 0; i < typed->n; i++) {
        const char *text = typed->setting[i];
        if (strncmp(text, name, length)) continue;
        if (text[length] == '=') return text + length + 1;
        if (!text[length]) return "1";
    }
    return NULL;
}

void variant_causal_hint(const typed_variant *typed, size_t capacity, char *hint)
{
    const hga_variant *v = hga_variant_named(typed->name);
    const char *value = typed_value(typed, "causal");
    *hint = 0;
    if (!v || !(v->can & HGA_CAN_CAUSAL)) return;
    if (!value || strcmp(value, "0") == 0) {
        snprintf(hint, capacity, "; with -p causal=1 none does");
        return;
    }
    for (const hga_parameter *p = v->parameters; p->name; p++)
        if (p->kind == HGA_PARAMETER_WORD && p->study && (value = typed_value(typed, p->name)) &&
            strcmp(value, p->study) == 0)
            snprintf(hint, capacity, "; %s=%s is for study, the default %s=%s is causal", p->name, value, p->name,
                     p->standard);
}

static int add_parameter(const char *text, void *input) { return variant_add(input, text); }

static int ignore_all_weights(const char *text, void *input)
{
    (void)text;
    return variant_add(input, ignore_weights);
}

static int take_variant(char *word, void *input)
{
    typed_variant *t = input;
    return t->name ? WORD_LEFT : variant_take(word, t);
}

static const option_row variant_options[] = {
    {"parameter,p", READ(add_parameter), "NAME=VALUE", 0,
     "a parameter of the variant, repeatable; @FILE.npy is an array", 1},
    {"tokens,n", TEXT(typed_variant, tokens), "N", 0, "the number of tokens, as -p tokens=N", 1},
    {"pattern", READ(ignore_all_weights), NULL, ARGUMENTS_MORE,
     "for graph=FILE, a file of edges: every edge has weight 1, as -p weights=ignore", 1},
    {0},
};

/* ---- help ---- */

static void print_parameter(FILE *file, const hga_parameter *p)
{
    fprintf(file, "  %s=%s", p->name, parameter_kind_name(p));
    if (p->standard) fprintf(file, " (default: %s)", p->standard);
    fprintf(file, "  %s", p->says);
    if (p->study) fprintf(file, " (%s is for study)", p->study);
    fputc('\n', file);
}

void variant_print(FILE *file, const hga_variant *v)
{
    hga_parameter table[MAX_PARAMETERS + 1];
    list_parameters(v, table);
    fprintf(file, "%s: %s\n", v ? v->name : "graph=FILE",
            v ? v->says
              : "a graph and its program from JSON, or a graph from a file of edges (.mtx, .csv, .tsv, .edges, "
                ".graphml, .gml, .graph, .npy, .npz), whose relations are attended jointly, or HSA on a tree (.html, "
                ".md, .npy of parents or of scipy's linkage)");
    for (const hga_parameter *p = table; p->name; p++) print_parameter(file, p);
}

/* which variants there are, after the options of --help */
static void help_variants(FILE *file)
{
    fprintf(file, "Variants (`hga help VARIANT` has the parameters, `hga variants` all of them):");
    for (const hga_variant *v = hga_variants(); v->name; v++) fprintf(file, " %s", v->name);
    fprintf(file, " graph=FILE");
}

static int check_variant(void *input)
{
    return ((const typed_variant *)input)->name ? CLI_GOOD : complain(CLI_USAGE, "VARIANT is missing");
}

const option_list variant_list = {
    .rows = variant_options, .take = take_variant, .check = check_variant, .tell = help_variants};
