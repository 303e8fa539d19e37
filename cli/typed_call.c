/* typed_call.c: options, refusals and settings of programs, by the rows of hga_call_tables(). */
#include "typed_call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"

/* ---- normalisers ---- */

static int read_normaliser(const char *text, void *input)
{
    typed_normaliser *out = &((typed_call *)input)->normaliser;
    out->words = text;
    return complain_of(hga_normaliser_named(text, &out->which, &out->alpha, &out->bias), CLI_USAGE, "--normaliser");
}

static int sends(const hga_program *p, hga_message message)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].message == message) return 1;
    return 0;
}

static int merges(const hga_program *p)
{
    for (hga_id i = 0; i < p->n_stages; i++)
        if (p->stage[i].update == HGA_UPDATE_MERGE) return 1;
    return 0;
}

/* Entmax of alpha 1 is softmax. */
static int is_softmax(const typed_normaliser *typed)
{
    return typed->which == HGA_NORMALISER_SOFTMAX || typed->alpha == 1;
}

int normaliser_makes_zeros(const typed_normaliser *typed)
{
    return typed->which == HGA_NORMALISER_ENTMAX && !is_softmax(typed);
}

static int put_normaliser(const typed_normaliser *typed, model *m)
{
    if (!typed->words) return CLI_GOOD;
    if (!score_stage(&m->program)) return complain(CLI_USAGE, "--normaliser: %s computes no scores", m->title);
    if (typed->which == HGA_NORMALISER_SIGMOID && sends(&m->program, HGA_ENERGY))
        return complain(CLI_USAGE, "--normaliser: the energies of %s are softmax's or entmax's", m->title);
    if (normaliser_makes_zeros(typed) && merges(&m->program))
        return complain(CLI_USAGE, "--normaliser: %s merges softmax states, and those of entmax cannot be merged",
                        m->title);
    return complain_of(hga_program_normalise(&m->program, typed->which, typed->alpha), CLI_USAGE, m->title);
}

/* ---- rows ---- */

int call_is_number(const hga_call_row *row) { return row->rows == HGA_EXTENT_ONE && row->columns == HGA_EXTENT_ONE; }

int call_has_option(const hga_call_row *row)
{
    return !(row->is & (HGA_CALL_BY_VARIANT | HGA_CALL_BY_WORD | HGA_CALL_OF_GRAPH));
}

int call_is_fit(const hga_call_row *row, double x)
{
    return !row->numbers || (x >= row->least && x <= row->most) || x == row->none;
}

/* Does it have entries for each head? */
static int call_is_by_head(const hga_call_row *row)
{
    return row->rows == HGA_EXTENT_HEADS || row->columns == HGA_EXTENT_HEADS || row->columns == HGA_EXTENT_KEYS ||
           row->columns == HGA_EXTENT_COLUMNS;
}

const char *call_shape(const hga_call_row *row, char text[static CALL_SHAPE_CAPACITY])
{
    int shared = row->columns == HGA_EXTENT_HEADS; /* files may have one column for all heads */
    const char *columns = hga_extent_name(shared ? HGA_EXTENT_HEADS_OR_ONE : row->columns);
    if (row->columns == HGA_EXTENT_ONE)
        snprintf(text, CALL_SHAPE_CAPACITY, "[%s]", hga_extent_name(row->rows));
    else
        snprintf(text, CALL_SHAPE_CAPACITY, "[%s][%s]", hga_extent_name(row->rows), columns);
    return text;
}

/* Does a command with such options have one for this table? */
static int is_taken(const hga_call_row *row, call_options which)
{
    if (!call_has_option(row)) return 0;
    int of_graph = row->rows == HGA_EXTENT_TYPES || row->rows == HGA_EXTENT_EDGES || row->rows == HGA_EXTENT_NODES;
    switch (which) {
    case CALL_WHOLE: return row->columns != HGA_EXTENT_COLUMNS;
    case CALL_WITHOUT_EDGES: return row->rows != HGA_EXTENT_EDGES;
    case CALL_OF_SHAPE: return !of_graph;
    case CALL_OF_VARIANTS: return !of_graph && !(row->is & HGA_CALL_NO_PRODUCT);
    default: return 1;
    }
}

/* ---- the command line ---- */

enum { GROUP = 4 };

static int read_entry(const hga_call_row *row, const char *text, float *out)
{
    char what[64];
    double x = 0;
    snprintf(what, sizeof what, "--%s", row->option);
    int status = read_float(what, text, &x);
    *out = (float)x;
    return status || call_is_fit(row, x) ? status : complain(CLI_USAGE, "%s: %s is not %s", what, text, row->numbers);
}

/* Checks the typed numbers. */
static int check(void *input)
{
    typed_call *typed = input;
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++)
        if (typed->text[t] && call_is_number(&hga_call_tables()[t]))
            MUST(read_entry(&hga_call_tables()[t], typed->text[t], &typed->number[t]));
    return CLI_GOOD;
}

/* "[heads], finite and at least 0: scores lose .. (default: none)"; of numbers what the row says. */
static void describe(const hga_call_row *row, size_t capacity, char *text)
{
    char shape[CALL_SHAPE_CAPACITY];
    const char *without = strstr(row->says, "(default: ") ? "" : " (default: none)";
    if (call_is_number(row))
        snprintf(text, capacity, "%s%s", row->says, without);
    else
        snprintf(text, capacity, "%s%s%s: %s%s", call_shape(row, shape), row->numbers ? ", " : "",
                 row->numbers ? row->numbers : "", row->says, without);
}

/* "from scores to weights: softmax; sigmoid, sigmoid:B, each weight by itself, ..; .. (default: ..)", of the rows of
   normalisers. */
static const char *describe_normalisers(void)
{
    static char says[512];
    size_t at = (size_t)snprintf(says, sizeof says, "from scores to weights");
    const char *before = ": ";
    for (const hga_normaliser_row *row = hga_normalisers(); row->name && at < sizeof says; row++, before = "; ")
        at += (size_t)snprintf(says + at, sizeof says - at, "%s%s%s%s%s%s%s%s", before,
                               row->needs_number ? "" : row->name, row->number && !row->needs_number ? ", " : "",
                               row->number ? row->name : "", row->number ? ":" : "", row->number ? row->number : "",
                               row->says ? ", " : "", row->says ? row->says : "");
    if (at < sizeof says) snprintf(says + at, sizeof says - at, " (default: the program's, softmax)");
    return says;
}

enum { N_FIRST = 2 };
static void put_normaliser_options(option_row *out)
{
    out[0] = (option_row){"normaliser", READ(read_normaliser), "N", ARGUMENTS_MORE, describe_normalisers(), GROUP};
    out[1] = (option_row){"normalizer", READ(read_normaliser), NULL, OPTION_ALIAS, NULL, GROUP};
}

/* One option for each table that the command takes, made of the tables' rows. */
const option_list *call_list(call_options which)
{
    static option_list lists[N_CALL_OPTIONS];
    static option_row rows[N_CALL_OPTIONS][N_FIRST + HGA_N_TABLES + 1];
    static char says[HGA_N_TABLES][256];
    option_row *out = rows[which];
    put_normaliser_options(out), out += N_FIRST;
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        const hga_call_row *row = &hga_call_tables()[t];
        if (!is_taken(row, which)) continue;
        describe(row, sizeof says[t], says[t]);
        const option_value value = {.kind = OPTION_TEXT, .at = offsetof(typed_call, text) + t * sizeof(char *)};
        int flags = t == HGA_TABLE_SCALE ? 0 : ARGUMENTS_MORE; /* what most calls need */
        *out++ = (option_row){row->option, value, call_is_number(row) ? "X" : "FILE", flags, says[t], GROUP};
    }
    lists[which] = (option_list){.rows = rows[which], .check = check};
    return &lists[which];
}

/* ---- values as typed ---- */

const char *call_typed(const typed_call *typed)
{
    static char option[64];
    if (typed->normaliser.words) return "--normaliser";
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++)
        if (typed->text[t]) return snprintf(option, sizeof option, "--%s", hga_call_tables()[t].option), option;
    return NULL;
}

/* What was typed: numbers as such, files by their names. */
json_t *call_json(const typed_call *typed)
{
    json_t *all = json_object();
    if (typed->normaliser.words) json_object_set_new(all, "normaliser", json_string(typed->normaliser.words));
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        const hga_call_row *row = &hga_call_tables()[t];
        if (!typed->text[t]) continue;
        json_object_set_new(all, row->name,
                            call_is_number(row) ? json_real(strtod(typed->text[t], NULL))
                                                : json_string(typed->text[t]));
    }
    return all;
}

void call_tell(FILE *file, const typed_call *typed, void (*put)(FILE *file, const char *text))
{
    const char *before = "; ", *words = typed->normaliser.words;
    if (words) fprintf(file, "%snormaliser ", before), put(file, words), before = ", ";
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        if (!typed->text[t]) continue;
        fprintf(file, "%s%s ", before, hga_call_tables()[t].name);
        put(file, typed->text[t]), before = ", ";
    }
}

/* ---- programs and plans ---- */

/* Refuses distances without positions. */
static int check_positions(const hga_call_row *row, const model *m)
{
    double *at = NULL;
    int status = CLI_GOOD;
    TRY(take(hga_graph_nodes(m->graph).n, sizeof *at, &at));
    if (hga_graph_positions(m->graph, at))
        TRY(complain(CLI_USAGE, "--%s: %s: %s", row->option, m->title, hga_error_detail()));
done:
    free(at);
    return status;
}

/* Refuses a table of something that the program lacks. */
static int check_row(const hga_call_row *row, const model *m)
{
    const hga_program *p = &m->program;
    const char *option = row->option, *title = m->title;
    if (row->is & HGA_CALL_NEEDS_SCORES && !score_stage(p))
        return complain(CLI_USAGE, "--%s: %s computes no scores", option, title);
    if (row->is & HGA_CALL_NEEDS_SUMS && !sends(p, HGA_SCALED))
        return complain(CLI_USAGE, "--%s: %s has no weighted sums", option, title);
    if (row->is & HGA_CALL_NO_ENERGY && (sends(p, HGA_ENERGY) || sends(p, HGA_GATE)))
        return complain(CLI_USAGE, "--%s: the energies of %s are softmax's", option, title);
    if (row->is & HGA_CALL_NEEDS_LSE && !p->has_lse)
        return complain(CLI_USAGE, "--%s: %s has no softmax denominator", option, title);
    if (row->is & HGA_CALL_NO_PRODUCT && p->scores != HGA_SCORES_ADDITIVE)
        return complain(CLI_USAGE, "--%s: the scores of %s are products", option, title);
    if (call_is_by_head(row) && m->tree_heads > 1)
        return complain(CLI_USAGE, "--%s: %s has a tree for each head, and takes nothing by head%s", option, title,
                        row->rows == HGA_EXTENT_TYPES ? "; biases by edge are for all heads" : "");
    return row->is & HGA_CALL_NEEDS_POSITIONS ? check_positions(row, m) : CLI_GOOD;
}

/* Was the number set in the program? 0 there means that programs have none. */
int call_is_put(const typed_call *typed, hga_call_table which)
{
    const hga_call_row *row = &hga_call_tables()[which];
    return typed->text[which] && row->member && (typed->number[which] != 0 || row->none == 0);
}

int call_put(const typed_call *typed, model *m)
{
    MUST(put_normaliser(&typed->normaliser, m));
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++) {
        const hga_call_row *row = &hga_call_tables()[t];
        if (typed->text[t]) MUST(check_row(row, m));
        if (call_is_put(typed, t)) memcpy((char *)&m->program + row->standard, &typed->number[t], sizeof(float));
    }
    return CLI_GOOD;
}

void call_plan(const typed_call *typed, hga_options *options)
{
    for (hga_call_table t = 0; t < HGA_N_TABLES; t++)
        if (typed->text[t] && hga_call_tables()[t].is & HGA_CALL_IS_PLAIN && !call_is_put(typed, t))
            options->generic = 1;
}
