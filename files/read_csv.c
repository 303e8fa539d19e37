/* read_csv.c: lists of edges, one a line. */
#include "import.h"

#include <string.h>
#include <strings.h>

typedef enum column { SOURCE, DESTINATION, TYPE, WEIGHT, RELATION, OTHER } column;
enum { MOST_COLUMNS = 16 };

typedef struct table {
    column column[MOST_COLUMNS];
    int n;
} table;

static column column_named(const char *name)
{
    static const struct {
        const char *name;
        column is;
    } names[] = {{"source", SOURCE},           {"src", SOURCE},      {"from", SOURCE},        {"u", SOURCE},
                 {"destination", DESTINATION}, {"dst", DESTINATION}, {"target", DESTINATION}, {"to", DESTINATION},
                 {"v", DESTINATION},           {"type", TYPE},       {"weight", WEIGHT},      {"relation", RELATION}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(name, names[i].name) == 0) return names[i].is;
    return OTHER;
}

/* Over blanks and one comma or semicolon. */
static void step_over(import *x)
{
    scan_blanks(x);
    if (x->at < x->end && (*x->at == ',' || *x->at == ';')) x->at++;
    scan_blanks(x);
}

/* A line that begins with a letter or a quote names the columns. */
static int names_columns(const import *x)
{
    return (*x->at >= 'a' && *x->at <= 'z') || (*x->at >= 'A' && *x->at <= 'Z') || *x->at == '"';
}

/* A word without the quotes around it. */
static void read_name(import *x, char *word, int64_t room)
{
    scan_word(x, word, room);
    size_t n = strlen(word);
    if (n >= 2 && word[0] == '"' && word[n - 1] == '"') memmove(word, word + 1, n - 2), word[n - 2] = 0;
}

static hga_status read_names(import *x, table *t)
{
    int seen[OTHER + 1] = {0};
    for (t->n = 0; !scan_at_line_end(x); step_over(x)) {
        char word[64];
        if (t->n == MOST_COLUMNS) return scan_wrong(x, "more than %d columns", MOST_COLUMNS);
        read_name(x, word, sizeof word);
        column is = column_named(word);
        if (is != OTHER && seen[is]++) return scan_wrong(x, "two columns mean '%s'", word);
        t->column[t->n++] = is;
    }
    return seen[SOURCE] && seen[DESTINATION] ? HGA_OK : scan_wrong(x, "no columns are named source and destination");
}

/* A column that means nothing here: a word, or a text between quotes on one line, in which quotes are doubled. */
static void step_over_text(import *x)
{
    char word[64];
    scan_blanks(x);
    if (x->at == x->end || *x->at != '"') {
        scan_word(x, word, sizeof word);
        return;
    }
    for (int quotes = 0; x->at < x->end && *x->at != '\n'; x->at++) {
        if (quotes % 2 == 0 && quotes && *x->at != '"') return;
        quotes += *x->at == '"';
    }
}

/* A word, or what stands between quotes. */
static hga_status read_text(import *x, char *word, int64_t room)
{
    int64_t n = 0;
    scan_blanks(x);
    if (x->at == x->end || *x->at != '"') {
        read_name(x, word, room);
        return HGA_OK;
    }
    for (x->at++; x->at < x->end && *x->at != '\n'; x->at++) {
        if (*x->at == '"' && (x->at + 1 == x->end || x->at[1] != '"')) {
            x->at++, word[n] = 0;
            return HGA_OK;
        }
        x->at += *x->at == '"';
        if (n == room - 1) return scan_wrong(x, "a relation's name has at most %lld bytes", (long long)room - 1);
        word[n++] = *x->at;
    }
    return scan_wrong(x, "a text without an end");
}

static hga_status read_edge(import *x, const table *t)
{
    hga_status st = HGA_OK;
    int64_t end[2] = {0, 0}, type = 0;
    double weight = 1;
    char word[64];
    hga_id relation = 0;
    for (int i = 0; i < t->n; i++) {
        if (i > 0) step_over(x);
        switch (t->column[i]) {
        case SOURCE: st = scan_integer(x, "source", 0, INT32_MAX, &end[0]); break;
        case DESTINATION: st = scan_integer(x, "destination", 0, INT32_MAX, &end[1]); break;
        case TYPE: st = scan_integer(x, "type", 0, INT32_MAX, &type); break;
        case WEIGHT:
            if (i < 2 || !scan_at_line_end(x)) st = scan_real(x, "weight", &weight);
            break;
        case RELATION:
            st = read_text(x, word, sizeof word);
            if (!st) st = import_relation(x, word, &relation);
            break;
        default: step_over_text(x);
        }
        if (st) return st;
    }
    step_over(x);
    if (!scan_at_line_end(x)) return scan_wrong(x, "more than %d columns", t->n);
    return import_edge_add(x, relation, end[0], end[1], type, weight);
}

static hga_status read_lines(import *x)
{
    hga_status st = HGA_OK;
    table t = {{SOURCE, DESTINATION, WEIGHT}, 3};
    hga_id relation;
    int named = 0, first = 1;
    if (x->at == x->end) return HGA_OK;
    do {
        scan_blanks(x);
        if (scan_at_line_end(x) || *x->at == '#' || *x->at == '%') continue;
        if (first && names_columns(x)) {
            HGA_TRY(read_names(x, &t));
            for (int i = 0; i < t.n; i++) named |= t.column[i] == RELATION;
        } else {
            if (!named && !x->n_relations) HGA_TRY(import_relation(x, NULL, &relation));
            HGA_TRY(read_edge(x, &t));
        }
        first = 0;
    } while (scan_next_line(x));
done:
    return st;
}

hga_status hga_graph_read_csv(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out)
{
import x;
    hga_status st = import_open(&x, a, path, o, out);
    return import_close(&x, st ? st : read_lines(&x), out);
}
