/* arguments.c: argp, with one-line errors. */
#include "arguments.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- parsing ---- */

typedef struct root {
    void *input;
    int next; /* where an error stopped */
} root;

enum { KEY_HELP = 0x1000, KEY_HELP_ALL };

static int is_end(const struct argp_option *o) { return !o->name && !o->key && !o->doc; }

/* A copy of `argp` in which the options for --help-all, and their other names, are hidden; *n counts them. The process
   ends with what is printed of it. */
static struct argp *without_more(const struct argp *argp, int *n)
{
    int options = 0, children = 0, hides = 0, shown = 0;
    while (argp->options && !is_end(&argp->options[options])) options++;
    while (argp->children && argp->children[children].argp) children++;
    struct argp *out = malloc(sizeof *out);
    struct argp_option *o = calloc((size_t)options + 1, sizeof *o);
    struct argp_child *c = calloc((size_t)children + 1, sizeof *c);
    if (!out || !o || !c) exit(complain(CLI_OUTSIDE, "out of memory"));
    *out = *argp, out->options = o, out->children = c;
    for (int i = 0; i < options; i++) {
        o[i] = argp->options[i];
        if (!(o[i].flags & OPTION_ALIAS)) hides = o[i].flags & ARGUMENTS_MORE, *n += hides != 0;
        if (hides) o[i].flags |= OPTION_HIDDEN;
        shown += !(o[i].flags & OPTION_HIDDEN);
    }
    if (!shown) free(o), out->options = NULL; /* of a list without any glibc loses memory */
    for (int i = 0; i < children; i++) c[i] = argp->children[i], c[i].argp = without_more(c[i].argp, n);
    return out;
}

static void print_help(const struct argp_state *state, int all)
{
    static const struct argp *volatile shown; /* until the process ends: its memory is seen to be in use */
    int more = 0;
    shown = all ? state->root_argp : without_more(state->root_argp, &more);
    argp_help(shown, stdout, ARGP_HELP_USAGE | ARGP_HELP_DOC | ARGP_HELP_LONG, state->name);
    const char *command = strrchr(state->name, ' ');
    if (more) printf("\n%d more options: `hga help %s --all`\n", more, command ? command + 1 : state->name);
    exit(fflush(stdout) ? complain(CLI_OUTSIDE, "standard output cannot be written") : CLI_GOOD);
}

static error_t parse_root(int key, char *value, struct argp_state *state)
{
    (void)value;
    root *r = state->input;
    switch (key) {
    case ARGP_KEY_INIT: state->child_inputs[0] = r->input; return 0;
    case ARGP_KEY_ERROR: r->next = state->next; return 0;
    case KEY_HELP:
    case KEY_HELP_ALL: print_help(state, key == KEY_HELP_ALL); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* the option called `name` in the tree of argps, NULL when there is none */
static const struct argp_option *find_option(const struct argp *argp, const char *name, size_t length)
{
    for (const struct argp_option *o = argp->options; o && (o->name || o->key || o->doc); o++) {
        if (o->name && strlen(o->name) == length && strncmp(o->name, name, length) == 0) return o;
        if (length == 1 && o->key == name[0]) return o;
    }
    for (const struct argp_child *c = argp->children; c && c->argp; c++) {
        const struct argp_option *o = find_option(c->argp, name, length);
        if (o) return o;
    }
    return NULL;
}

/* say what getopt did not like about argv[next - 1] */
static int complain_about(const struct argp *argp, const char *argument)
{
    const char *name = argument + strspn(argument, "-");
    size_t length = strcspn(name, "=");
    const struct argp_option *o = find_option(argp, name, length);
    if (o && o->arg) return complain(CLI_USAGE, "%s needs a value (%s)", argument, o->arg);
    if (o && name[length]) return complain(CLI_USAGE, "%s: the option takes no value", argument);
    return complain(CLI_USAGE, "unknown option '%s'%s", argument,
                    find_option(argp, "parameter", strlen("parameter"))
                        ? "; parameters of a VARIANT are -p NAME=VALUE or -p NAME=@FILE"
                        : "");
}

int arguments_parse(const struct argp *argp, int argc, char **argv, void *input)
{
    static const struct argp_option options[] = {
        {"help", KEY_HELP, NULL, 0, "print this and exit", -1},
        {"help-all", KEY_HELP_ALL, NULL, OPTION_HIDDEN, "print every option and exit", -1},
        {0}};
    struct argp_child children[] = {{argp, 0, NULL, 0}, {0}};
    struct argp top = {
        .options = options, .parser = parse_root, .args_doc = argp->args_doc, .doc = argp->doc, .children = children};
    struct argp below = *argp;
    below.args_doc = below.doc = NULL; /* the top says it */
    children[0].argp = &below;
    root r = {.input = input};
    int next = 0;
    error_t e = argp_parse(&top, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP, &next, &r);
    if (e == ECANCELED) return CLI_USAGE;
    if (e == ENOMEM) return complain(CLI_OUTSIDE, "out of memory");
    if (e) return complain_about(&top, argv[r.next > 0 && r.next <= argc ? r.next - 1 : 0]);
    if (next < argc) return complain(CLI_USAGE, "unexpected argument '%s'", argv[next]);
    return CLI_GOOD;
}

error_t arguments_said(int status) { return status ? ECANCELED : 0; }

error_t arguments_put(int key, char *value, void *input)
{
    const int at = key % KEYS_OF_EACH;
    if (key < KEYS_OF_TEXTS || key >= KEYS_OF_FLAGS + KEYS_OF_EACH) return ARGP_ERR_UNKNOWN;
    if (key < KEYS_OF_FLAGS)
        *(const char **)(void *)((char *)input + at) = value;
    else
        *(int *)(void *)((char *)input + at) = 1;
    return 0;
}

/* ---- values ---- */

int read_whole(const char *what, const char *text, int64_t lo, int64_t hi, int64_t *out)
{
    char *end = NULL;
    errno = 0;
    long long value = isspace((unsigned char)*text) ? 0 : strtoll(text, &end, 10);
    if (!end || end == text || *end) return complain(CLI_USAGE, "%s: '%s' is not a whole number", what, text);
    if (errno == ERANGE || value < lo || value > hi)
        return complain(CLI_USAGE, "%s: %s is not in %lld .. %lld", what, text, (long long)lo, (long long)hi);
    *out = value;
    return CLI_GOOD;
}

int read_id(const char *what, const char *text, int64_t lo, int64_t hi, hga_id *out)
{
    int64_t value = 0;
    int status = read_whole(what, text, lo, hi, &value);
    if (status == CLI_GOOD) *out = (hga_id)value;
    return status;
}

int read_number(const char *what, const char *text, double *out)
{
    char *end = NULL;
    double value = isspace((unsigned char)*text) ? 0 : strtod(text, &end);
    if (!end || end == text || *end || !isfinite(value))
        return complain(CLI_USAGE, "%s: '%s' is not a finite number", what, text);
    *out = value;
    return CLI_GOOD;
}

int read_float(const char *what, const char *text, double *out)
{
    int status = read_number(what, text, out);
    if (status == CLI_GOOD && !isfinite((float)*out))
        return complain(CLI_USAGE, "%s: %s does not fit float32", what, text);
    return status;
}

int read_positive(const char *what, const char *text, double *out)
{
    int status = read_number(what, text, out);
    return status == CLI_GOOD && *out <= 0 ? complain(CLI_USAGE, "%s: %s is not above 0", what, text) : status;
}

int read_list(const char *what, const char *text, int64_t lo, int64_t hi, int room, int *n, hga_id *out)
{
    *n = 0;
    while (1) {
        char word[32];
        size_t length = strcspn(text, ",");
        if (length >= sizeof word || *n == room)
            return complain(CLI_USAGE, "%s: '%s' is not a list of at most %d whole numbers", what, text, room);
        memcpy(word, text, length);
        word[length] = 0;
        int status = read_id(what, word, lo, hi, &out[*n]);
        if (status) return status;
        ++*n;
        if (!text[length]) return CLI_GOOD;
        text += length + 1;
    }
}

int read_list_behind(const char *word, const char *what, const char *text, int64_t lo, int room, int *n, hga_id *out)
{
    size_t length = word ? strlen(word) : 0;
    const char *list = length && strncmp(text, word, length) == 0 && text[length] == ':' ? text + length + 1 : text;
    if (word && !isdigit((unsigned char)*list))
        return complain(CLI_USAGE, "%s: '%s' is not %s:LIST, such as %s:8,8", what, text, word, word);
    return read_list(what, list, lo, INT32_MAX, room, n, out);
}

int choice_of(const char *choices, const char *text)
{
    size_t length = strlen(text);
    int index = 0;
    for (const char *c = choices; *c; index++) {
        size_t n = strcspn(c, " ");
        if (n == length && strncmp(c, text, n) == 0) return index;
        c += n + strspn(c + n, " ");
    }
    return -1;
}

int read_isa(const char *what, const char *text, const char **out)
{
    if (choice_of(hga_isa_list(), text) < 0)
        return complain(CLI_USAGE, "%s: '%s' is not one of: %s", what, text, hga_isa_list());
    *out = text;
    return CLI_GOOD;
}

int read_precision(const char *what, const char *text, hga_precision *out)
{
    int i = choice_of("f32 bf16", text);
    if (i < 0) return complain(CLI_USAGE, "%s: '%s' is not one of: f32 bf16", what, text);
    *out = i == 0 ? HGA_PRECISION_F32 : HGA_PRECISION_BF16;
    return CLI_GOOD;
}

int read_bind(const char *what, const char *text, int *out)
{
    int i = choice_of("off on auto", text); /* in the order of HGA_BIND_OFF, HGA_BIND_ON, HGA_BIND_AUTO */
    if (i < 0) return complain(CLI_USAGE, "%s: '%s' is not one of: off on auto", what, text);
    *out = i;
    return CLI_GOOD;
}

/* ---- shared options ---- */

enum { KEY_ISA = 0x1100, KEY_PRECISION, KEY_BIND, KEY_HEADS, KEY_KV_HEADS, KEY_DIM };

static error_t parse_machine(int key, char *value, struct argp_state *state)
{
    hga_options *o = state->input;
    switch (key) {
    case ARGP_KEY_INIT: o->bind = HGA_BIND_AUTO; return 0;
    case 't': return arguments_said(read_id("--threads", value, 1, 65536, &o->threads));
    case KEY_ISA: return arguments_said(read_isa("--isa", value, &o->isa));
    case KEY_PRECISION: return arguments_said(read_precision("--precision", value, &o->precision));
    case KEY_BIND: return arguments_said(read_bind("--bind", value, &o->bind));
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option machine_options[] = {
    {"threads", 't', "T", 0, "threads (default: OMP_NUM_THREADS, or the cores this process may use)", 8},
    {"isa", KEY_ISA, "ISA", ARGUMENTS_MORE,
     "ref, avx2, avx512 or avx512bf16: the instruction set (default: HGA_ISA, or the best here)", 8},
    {"precision", KEY_PRECISION, "P", 0, "f32 or bf16: bf16 keeps keys and values in 16 bits (default: f32)", 8},
    {"bind", KEY_BIND, "WHEN", ARGUMENTS_MORE, BIND_HELP, 8},
    {0},
};
const struct argp machine_argp = {.options = machine_options, .parser = parse_machine};

static error_t parse_shape(int key, char *value, struct argp_state *state)
{
    hga_shape *s = state->input;
    switch (key) {
    case ARGP_KEY_INIT: *s = (hga_shape){.n_heads = DEFAULT_HEADS, .dim = DEFAULT_DIM}; return 0;
    case KEY_HEADS: return arguments_said(read_id("--heads", value, 1, MAX_HEADS, &s->n_heads));
    case KEY_KV_HEADS: return arguments_said(read_id("--kv-heads", value, 1, MAX_HEADS, &s->n_kv_heads));
    case KEY_DIM: return arguments_said(read_id("--dim", value, 1, MAX_DIM, &s->dim));
    case ARGP_KEY_END:
        if (s->n_kv_heads == 0 || s->n_heads % s->n_kv_heads == 0) return 0;
        return arguments_said(
            complain(CLI_USAGE, "--kv-heads: %d does not divide the %d heads", s->n_kv_heads, s->n_heads));
    default: return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option shape_options[] = {
    {"heads", KEY_HEADS, "H", 0, "query heads (default: 8)", 7},
    {"kv-heads", KEY_KV_HEADS, "H", 0, "key/value heads (default: as many as query heads)", 7},
    {"dim", KEY_DIM, "D", 0, "dimension of a head (default: 64)", 7},
    {0},
};
const struct argp shape_argp = {.options = shape_options, .parser = parse_shape};

/* the best instruction set of this machine is the last of the list */
const char *default_isa(void)
{
    const char *forced = getenv("HGA_ISA"), *last = strrchr(hga_isa_list(), ' ');
    return forced && *forced ? forced : last ? last + 1 : hga_isa_list();
}
