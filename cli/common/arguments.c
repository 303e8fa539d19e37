/* arguments.c: getopt reads command lines, with one-line errors, and argp prints their help. */
#include "arguments.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

enum { KEY_ROW = 0x1000, MOST_ROWS = 160, MOST_LISTS = 16, MOST_HEADINGS = 4 };

/* A list and its parts, as argp needs them: index 0 has the options without a heading, each heading one more. */
typedef struct parsing {
    struct {
        const option_row *row;
        void *input;
        char name[32];
        char letter, is_set;
    } row[MOST_ROWS];
    struct {
        const option_list *list;
        void *input;
    } list[MOST_LISTS];
    int n_rows, n_lists, n_places, n_options[MOST_HEADINGS + 1];
    struct argp_option option[MOST_HEADINGS + 1][MOST_ROWS + 1];
    struct argp argp[MOST_HEADINGS + 1];
    struct argp_child child[MOST_HEADINGS + 1]; /* of index 0 */
    const char *command;                        /* "hga attend" */
} parsing;

static parsing laid_out; /* a process has one command line; what --help prints of it lives until the end */

static void fail_if(int too_many)
{
    if (too_many) exit(complain(CLI_OUTSIDE, "a command line has more options than there is room for"));
}

static int key_of(const parsing *p, int i) { return p->row[i].letter ? p->row[i].letter : KEY_ROW + i; }

/* Notes one option among those of the command line, and for argp under its heading. */
static void lay_row(const option_row *row, void *input, parsing *p, int index)
{
    int i = p->n_rows++;
    fail_if(p->n_rows > MOST_ROWS);
    size_t n = strcspn(row->name, ",");
    p->row[i].row = row, p->row[i].input = input, p->row[i].letter = row->name[n] ? row->name[n + 1] : 0;
    snprintf(p->row[i].name, sizeof p->row[i].name, "%.*s", (int)n, row->name);
    int key = row->flags & OPTION_ALIAS ? 0 : key_of(p, i); /* an alias has the key of the row above it */
    p->option[index][p->n_options[index]++] =
        (struct argp_option){n ? p->row[i].name : NULL, key, row->takes, row->flags, row->says, row->group};
}

/* Notes the options of a list and of its parts; a part with a heading of its own becomes a child of argp's. */
static void lay_list(const option_list *list, void *input, parsing *p, int index)
{
    fail_if(p->n_lists == MOST_LISTS);
    p->list[p->n_lists].list = list, p->list[p->n_lists++].input = input;
    if (list->start) list->start(input);
    for (const option_row *row = list->rows; row && row->name; row++) lay_row(row, input, p, index);
    for (const option_part *part = list->parts; part && part->list; part++) {
        if (!part->heading) {
            lay_list(part->list, (char *)input + part->at, p, index);
            continue;
        }
        int mine = p->n_places++;
        fail_if(mine > MOST_HEADINGS);
        lay_list(part->list, (char *)input + part->at, p, mine);
        p->argp[mine] = (struct argp){.options = p->option[mine]};
        p->child[mine - 1] = (struct argp_child){&p->argp[mine], 0, part->heading, part->group};
    }
}

static int read_positive(const char *what, const char *text, double *out)
{
    int status = read_number(what, text, out);
    return status == CLI_GOOD && *out <= 0 ? complain(CLI_USAGE, "%s: %s is not above 0", what, text) : status;
}

/* Puts an option's value into the member that its row names, once it is read and checked. */
static int put_value(const char *what, const option_value *v, const char *text, char *input)
{
    void *to = input + v->at;
    if (v->said) *(int *)(void *)(input + v->said) = 1;
    switch (v->kind) {
    case OPTION_TEXT: *(const char **)to = text; return CLI_GOOD;
    case OPTION_FLAG: *(int *)to = 1; return CLI_GOOD;
    case OPTION_ID: return read_id(what, text, v->least, v->most, to);
    case OPTION_WHOLE: return read_whole(what, text, v->least, v->most, to);
    case OPTION_ABOVE_0: return read_positive(what, text, to);
    case OPTION_CHOICE: return read_choice(what, v->words, text, to);
    default: return v->read(text, input);
    }
}

/* The row of an option's key; -1: none. */
static int find_row(const parsing *p, int key)
{
    for (int i = 0; i < p->n_rows; i++)
        if (key && key_of(p, i) == key) return i;
    return -1;
}

/* Puts an option's value; errors name the option in full. */
static int take_option(parsing *p, int key, const char *value)
{
    char what[40];
    int i = find_row(p, key);
    p->row[i].is_set = 1;
    if (*p->row[i].name)
        snprintf(what, sizeof what, "--%s", p->row[i].name);
    else
        snprintf(what, sizeof what, "-%c", p->row[i].letter);
    return put_value(what, &p->row[i].row->value, value, p->row[i].input);
}

static int take_word(const parsing *p, char *word)
{
    for (int i = 0; i < p->n_lists; i++) {
        int status = p->list[i].list->take ? p->list[i].list->take(word, p->list[i].input) : WORD_LEFT;
        if (status != WORD_LEFT) return status;
    }
    return complain(CLI_USAGE, "unexpected argument '%s'", word);
}

static int check_lists(const parsing *p)
{
    for (int i = p->n_lists - 1; i >= 0; i--) {
        int status = p->list[i].list->check ? p->list[i].list->check(p->list[i].input) : CLI_GOOD;
        if (status) return status;
    }
    return CLI_GOOD;
}

/* ---- help ---- */

/* What lists print after the options. */
static char *tell_more(int key, const char *text, void *input)
{
    const parsing *p = &laid_out; /* help has no input */
    char *all = NULL;
    size_t bytes = 0;
    (void)input;
    if (key != ARGP_KEY_HELP_EXTRA) return (char *)(uintptr_t)text;
    FILE *file = open_memstream(&all, &bytes);
    for (int i = 0; file && i < p->n_lists; i++)
        if (p->list[i].list->tell) p->list[i].list->tell(file);
    if (file && fclose(file) == 0 && bytes) return all;
    free(all);
    return NULL;
}

/* Hides the options for --help-all, and their other names; returns how many options. */
static int hide_more(parsing *p)
{
    int n = 0, hides = 0;
    for (int index = 0; index < p->n_places; index++) {
        int shown = 0;
        for (struct argp_option *o = p->option[index]; o->name || o->key; o++) {
            if (!(o->flags & OPTION_ALIAS)) hides = o->flags & ARGUMENTS_MORE, n += hides != 0;
            if (hides) o->flags |= OPTION_HIDDEN;
            shown += !(o->flags & OPTION_HIDDEN);
        }
        if (!shown) p->argp[index].options = NULL; /* of a list without any glibc loses memory */
    }
    return n;
}

static int print_help(parsing *p, int all)
{
    const char *command = strrchr(p->command, ' ');
    int more = all ? 0 : hide_more(p);
    setenv("ARGP_HELP_FMT", "no-dup-args-note", 0); /* the note would be on every page */
    argp_help(p->argp, stdout, ARGP_HELP_USAGE | ARGP_HELP_DOC | ARGP_HELP_LONG, (char *)(uintptr_t)p->command);
    const char *name = command ? command + 1 : p->command;
    if (more) printf("\n%d more option%s: `hga help %s --all`\n", more, more == 1 ? "" : "s", name);
    exit(fflush(stdout) ? complain(CLI_OUTSIDE, "standard output cannot be written") : CLI_GOOD);
}

static int read_help(const char *text, void *input) { return (void)text, print_help(input, 0); }
static int read_help_all(const char *text, void *input) { return (void)text, print_help(input, 1); }

static const option_row help_rows[] = {
    {"help", READ(read_help), NULL, 0, "print this and exit", -1},
    {"help-all", READ(read_help_all), NULL, OPTION_HIDDEN, "print every option and exit", -1},
    {0},
};
static const option_list help_list = {.rows = help_rows};

/* ---- a command line ---- */

/* The options as getopt has them; another name of an option has its key. */
static void list_options(const parsing *p, struct option *names, char *letters)
{
    *letters++ = ':';
    for (int i = 0, own = 0; i < p->n_rows; i++) {
        if (!(p->row[i].row->flags & OPTION_ALIAS)) own = i;
        const option_row *row = p->row[own].row;
        int takes = !row->takes                        ? no_argument
                    : row->flags & OPTION_ARG_OPTIONAL ? optional_argument
                                                       : required_argument;
        if (*p->row[i].name) *names++ = (struct option){p->row[i].name, takes, NULL, key_of(p, own)};
        if (!p->row[i].letter) continue;
        *letters++ = p->row[i].letter;
        if (row->takes) *letters++ = ':';
    }
}

/* The argument that getopt stands at: of one with several letters it may not have read all. */
static const char *typed_at(char **argv)
{
    const char *read = argv[optind - 1], *last = read + strlen(read) - (*read != 0);
    int is_letters = read[0] == '-' && read[1] != '-';
    return optopt && optopt < KEY_ROW && !(is_letters && *last == optopt) && argv[optind] ? argv[optind] : read;
}

/* Reports what getopt refused: ':' a value is missing, '?' anything else. */
static int complain_about(const parsing *p, char **argv, int key)
{
    const char *typed = argv[optind - 1], *meant[2], *known[MOST_ROWS];
    char word[64] = "", hint[96] = "";
    int row = find_row(p, optopt), n = 0, takes_parameters = 0;
    if (key == ':') return complain(CLI_USAGE, "%s needs a value (%s)", typed, p->row[row].row->takes);
    if (row >= 0) return complain(CLI_USAGE, "%s: the option takes no value", typed);
    typed = typed_at(argv);
    if (strcmp(typed, "-h") == 0) return complain(CLI_USAGE, "unknown option '-h'; --help prints the options");
    size_t length = typed[1] == '-' ? strcspn(typed, "=") : 0;
    for (int i = 0; i < p->n_rows; i++) {
        const char *name = known[i] = p->row[i].name;
        takes_parameters |= strncmp(name, "parameter", strlen("parameter")) == 0;
        if (!(p->row[i].row->flags & OPTION_ALIAS) && length > 2 && n < 2 && strncmp(name, typed + 2, length - 2) == 0)
            meant[n++] = name;
    }
    if (n == 2) return complain(CLI_USAGE, "%.*s: which option, --%s or --%s?", (int)length, typed, meant[0], meant[1]);
    if (length > 2) snprintf(word, sizeof word, "%.*s", (int)length - 2, typed + 2);
    if (length > 6) nearest_hint(word, known, p->n_rows, hint); /* short words are near to anything */
    if (takes_parameters && length > 2)
        return complain(CLI_USAGE, "unknown option '%s'%s%s if it is a parameter of a VARIANT, write -p %s%s", typed,
                        hint, *hint ? "" : ";", typed + 2, strchr(typed, '=') ? "" : "=VALUE");
    if (*hint) return complain(CLI_USAGE, "unknown option '%s'%s", typed, hint);
    return complain(CLI_USAGE, "unknown option '%s'%s", typed,
                    takes_parameters ? "; parameters of a VARIANT are -p NAME=VALUE or -p NAME=@FILE" : "");
}

/* Reads options in any position, then words, then calls each list's own check. */
static int parse(parsing *p, int argc, char **argv)
{
    struct option names[MOST_ROWS + 1] = {{0}};
    char letters[2 * MOST_ROWS + 2] = "";
    int key;
    list_options(p, names, letters);
    optind = 0, opterr = 0;
    while ((key = getopt_long(argc, argv, letters, names, NULL)) != -1) {
        int status = key == '?' || key == ':' ? complain_about(p, argv, key) : take_option(p, key, optarg);
        if (status) return status;
    }
    while (optind < argc) {
        int status = take_word(p, argv[optind++]);
        if (status) return status;
    }
    return check_lists(p);
}

int arguments_parse(const option_list *list, int argc, char **argv, void *input)
{
    parsing *p = &laid_out;
    *p = (parsing){.n_places = 1, .command = argv[0]};
    lay_list(list, input, p, 0);
    lay_list(&help_list, p, p, 0);
    p->argp[0] = (struct argp){.options = *p->option,
                               .args_doc = list->words,
                               .doc = list->says,
                               .children = p->child,
                               .help_filter = tell_more};
    return parse(p, argc, argv);
}

const char *arguments_present(const char *names)
{
    const parsing *p = &laid_out;
    for (int i = 0; i < p->n_rows; i++)
        if (p->row[i].is_set && choice_of(names, p->row[i].name) >= 0) return p->row[i].name;
    return NULL;
}

static int has_row(const option_list *list, const option_row *row)
{
    for (const option_row *r = list->rows; r->name; r++)
        if (r == row) return 1;
    return 0;
}

const char *arguments_present_besides(const char *name, const option_list *list)
{
    const parsing *p = &laid_out;
    for (int i = 0; i < p->n_rows; i++)
        if (p->row[i].is_set && strcmp(p->row[i].name, name) && !has_row(list, p->row[i].row)) return p->row[i].name;
    return NULL;
}

int take_once(char *word, const char **to)
{
    if (*to) return WORD_LEFT;
    *to = word;
    return CLI_GOOD;
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

int list_next(const char **list, char *word, size_t capacity)
{
    size_t n = *list ? strcspn(*list, ",") : 0;
    if (!*list) return 0;
    snprintf(word, capacity, "%.*s", (int)n, *list);
    *list = (*list)[n] ? *list + n + 1 : NULL;
    return 1;
}

int read_list(const char *what, const char *text, int64_t lo, int64_t hi, int capacity, int *n, hga_id *out)
{
    char word[32];
    *n = 0;
    for (const char *list = text; list_next(&list, word, sizeof word); ++*n) {
        if (strlen(word) + 1 == sizeof word || *n == capacity)
            return complain(CLI_USAGE, "%s: '%s' is not a list of at most %d whole numbers", what, text, capacity);
        MUST(read_id(what, word, lo, hi, &out[*n]));
    }
    return CLI_GOOD;
}

int read_list_behind(const char *word, const char *what, const char *text, int64_t lo, int capacity, int *n,
                     hga_id *out)
{
    size_t length = word ? strlen(word) : 0;
    const char *list = length && strncmp(text, word, length) == 0 && text[length] == ':' ? text + length + 1 : text;
    if (word && !isdigit((unsigned char)*list))
        return complain(CLI_USAGE, "%s: '%s' is not %s:LIST, such as %s:8,8", what, text, word, word);
    return read_list(what, list, lo, INT32_MAX, capacity, n, out);
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

int read_choice(const char *what, const char *choices, const char *text, int *out)
{
    int i = choice_of(choices, text);
    if (i < 0) return complain(CLI_USAGE, "%s: '%s' is not one of: %s", what, text, choices);
    *out = i;
    return CLI_GOOD;
}

/* ---- shared options ---- */

static void start_machine(void *options) { ((hga_options *)options)->bind = HGA_BIND_AUTO; }

static int read_machines_isa(const char *text, void *options)
{
    int i;
    ((hga_options *)options)->isa = text;
    return read_choice("--isa", hga_isa_list(), text, &i);
}

static const option_row machine_rows[] = {
    {"threads,t", ID(hga_options, threads, 1, 4096), "T", 0,
     "threads (default: OMP_NUM_THREADS, or the cores this process may use)", 8},
    {"isa", READ(read_machines_isa), "ISA", ARGUMENTS_MORE,
     "ref, avx2, avx512, avx512bf16, neon or neonbf16: the instruction set (default: HGA_ISA, or the best here)", 8},
    {"precision", CHOICE(hga_options, precision, PRECISION_WORDS), "P", 0,
     "f32 or bf16: bf16 keeps keys and values in 16 bits (default: f32)", 8},
    {"bind", CHOICE(hga_options, bind, BIND_WORDS), "WHEN", ARGUMENTS_MORE, BIND_HELP, 8},
    {0},
};
const option_list machine_list = {.rows = machine_rows, .start = start_machine};

static void start_shape(void *shape)
{
    *(hga_shape *)shape = (hga_shape){.n_heads = DEFAULT_HEADS, .dim = DEFAULT_DIM};
}

static int check_shape(void *shape)
{
    const hga_shape *s = shape;
    if (s->n_kv_heads == 0 || s->n_heads % s->n_kv_heads == 0) return CLI_GOOD;
    return complain(CLI_USAGE, "--kv-heads: %d does not divide the %d heads", s->n_kv_heads, s->n_heads);
}

static const option_row shape_rows[] = {
    {"heads", ID(hga_shape, n_heads, 1, MAX_HEADS), "H", 0, "query heads (default: 8)", 7},
    {"kv-heads", ID(hga_shape, n_kv_heads, 1, MAX_HEADS), "H", 0, "key/value heads (default: as many as query heads)",
     7},
    {"dim", ID(hga_shape, dim, 1, MAX_DIM), "D", 0, "dimension of a head (default: 64)", 7},
    {0},
};
const option_list shape_list = {.rows = shape_rows, .start = start_shape, .check = check_shape};

/* the best instruction set of this machine is the last of the list */
const char *default_isa(void)
{
    const char *forced = getenv("HGA_ISA"), *last = strrchr(hga_isa_list(), ' ');
    return forced && *forced ? forced : last ? last + 1 : hga_isa_list();
}
