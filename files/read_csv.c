/* read_csv.c: edge lists, an edge per line. */
#include "keyed.h"
#include "import_names.h"
#include "readers.h"
#include "scan.h"

#include <string.h>
#include <strings.h>

typedef enum column {
    SOURCE,
    DESTINATION,
    EDGE_TYPE,
    EDGE_WEIGHT,
    EDGE_RELATION,
    SOURCE_NAME,
    DESTINATION_NAME,
    OTHER
} column;
enum { MOST_COLUMNS = 256, BLANKS = ' ' };

typedef struct cell {
    char *text;
    int64_t n;
} cell;

typedef struct table {
    keyed k;
    char between; /* ';', ',', a tab, or BLANKS: any number of them */
    column column[MOST_COLUMNS];
    cell name[MOST_COLUMNS]; /* of the columns; NULL: columns are identified by position */
    int n;
    int has_relation, has_names; /* has_names: nodes are identified by names, not by numbers */
    int has_data;                /* networkx's format: two ends and a dictionary */
    cell cell[MOST_COLUMNS];     /* of the line being read */
    int n_cells;
} table;

/* ---- cells ---- */

static int is_blank(const table *t, char c) { return c == ' ' || c == '\r' || (c == '\t' && t->between != '\t'); }

static void skip_blanks(table *t)
{
    while (t->k.x.reader.at < t->k.x.reader.end && is_blank(t, *t->k.x.reader.at)) t->k.x.reader.at++;
}

/* The separator of a line, searched outside of quotes and before a dictionary. */
static char separator_of(const import *x)
{
    static const char known[] = {';', ',', '\t'};
    char found = BLANKS;
    int rank = sizeof known, quoted = 0;
    for (const char *c = x->reader.at; c < x->reader.end && (quoted || (*c != '\n' && *c != '{')); c++) {
        quoted ^= *c == '"';
        for (int i = 0; i < rank && !quoted; i++)
            if (*c == known[i]) rank = i, found = *c;
    }
    return found;
}

/* Reads a quoted cell, in which quotes are doubled; it may span lines. */
static hga_status read_quoted(table *t, cell *out)
{
    import *x = &t->k.x;
    char *to = x->file.at + (x->reader.at - x->file.at);
    out->text = to;
    for (x->reader.at++; x->reader.at < x->reader.end; x->reader.at++) {
        if (*x->reader.at == '"' && (x->reader.at + 1 == x->reader.end || x->reader.at[1] != '"')) break;
        x->reader.at += *x->reader.at == '"', x->reader.line += *x->reader.at == '\n';
        *to++ = *x->reader.at;
    }
    if (x->reader.at == x->reader.end) return scan_wrong(x, "a text without an end");
    x->reader.at++, out->n = to - out->text;
    return HGA_OK;
}

static void read_plain(table *t, cell *out)
{
    import *x = &t->k.x;
    out->text = x->file.at + (x->reader.at - x->file.at);
    int is_data = t->between == BLANKS && t->n_cells == 3 && x->reader.at < x->reader.end && *x->reader.at == '{';
    while (x->reader.at < x->reader.end && *x->reader.at != '\n' &&
           (is_data || (*x->reader.at != t->between && !(t->between == BLANKS && is_blank(t, *x->reader.at)))))
        x->reader.at++;
    for (out->n = x->reader.at - out->text; out->n > 0 && is_blank(t, out->text[out->n - 1]);) out->n--;
}

/* Is this the start of a comment after a line's cells? */
static int is_remark(const table *t)
{
    return t->n_cells > 0 && t->between == BLANKS && (*t->k.x.reader.at == '#' || *t->k.x.reader.at == '%');
}

/* Splits a line into cells; a quoted cell may span lines. */
static hga_status read_cells(table *t)
{
    import *x = &t->k.x;
    hga_status st = HGA_OK;
    t->n_cells = 0;
    for (skip_blanks(t);; x->reader.at++) {
        if (t->n_cells == MOST_COLUMNS) return scan_wrong(x, "more than %d columns", MOST_COLUMNS);
        cell *out = &t->cell[t->n_cells];
        skip_blanks(t);
        if (t->between == BLANKS && (scan_at_line_end(x) || is_remark(t))) break;
        t->n_cells++;
        if (x->reader.at < x->reader.end && *x->reader.at == '"')
            HGA_TRY(read_quoted(t, out));
        else
            read_plain(t, out);
        skip_blanks(t);
        if (scan_at_line_end(x)) break;
        if (t->between == BLANKS)
            x->reader.at--;
        else if (*x->reader.at != t->between)
            return scan_wrong(x, "a text goes on behind its quotes");
    }
done:
    return st;
}

/* ---- columns ---- */

static int is_called(const cell *c, const char *name)
{
    return c->n == (int64_t)strlen(name) && strncasecmp(c->text, name, strlen(name)) == 0;
}

/* The meaning of a column of that name. */
static column column_named(const cell *c)
{
    static const struct {
        const char *name;
        column is;
    } names[] = {{"source", SOURCE},
                 {"src", SOURCE},
                 {"from", SOURCE},
                 {"u", SOURCE},
                 {"destination", DESTINATION},
                 {"dst", DESTINATION},
                 {"target", DESTINATION},
                 {"to", DESTINATION},
                 {"v", DESTINATION},
                 {"type", EDGE_TYPE},
                 {"weight", EDGE_WEIGHT},
                 {"relation", EDGE_RELATION},
                 {"source_name", SOURCE_NAME},
                 {"destination_name", DESTINATION_NAME}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_called(c, names[i].name)) return names[i].is;
    return OTHER;
}

/* Does the line name columns for both ends of an edge? */
static int names_columns(const table *t)
{
    int ends = 0;
    for (int i = 0; i < t->n_cells; i++) {
        column is = column_named(&t->cell[i]);
        if (is == SOURCE || is == DESTINATION) ends |= 1 << is;
    }
    return ends == (1 << SOURCE | 1 << DESTINATION);
}

/* Reads the columns' names from the first line; no two may have the same meaning. */
static hga_status take_names(table *t)
{
    int seen[OTHER + 1] = {0};
    for (t->n = 0; t->n < t->n_cells; t->n++) {
        const cell *c = &t->cell[t->n];
        column is = column_named(c);
        if (is != OTHER && seen[is]++)
            return scan_wrong(&t->k.x, "two columns mean '%.*s'", (int)(c->n < 40 ? c->n : 40), c->text);
        t->column[t->n] = is, t->name[t->n] = *c;
    }
    t->has_relation = seen[EDGE_RELATION];
    return HGA_OK;
}

/* Without names columns are identified by position. */
static hga_status number_columns(table *t)
{
    static const column order[] = {SOURCE, DESTINATION, EDGE_WEIGHT};
    double number;
    t->has_data = t->n_cells == 3 && t->cell[2].n > 0 && *t->cell[2].text == '{';
    for (int i = 0; i < t->n_cells && i < 2 && !t->has_data; i++)
        if (!scan_text_real(t->cell[i].text, t->cell[i].n, &number))
            return scan_wrong(&t->k.x,
                              "'%.*s' is not the number of a node, and no columns are named source and destination (or "
                              "from and to, src and dst, source and target, u and v), which names of nodes need",
                              (int)(t->cell[i].n < 40 ? t->cell[i].n : 40), t->cell[i].text);
    memcpy(t->column, order, sizeof order);
    t->n = 3;
    return HGA_OK;
}

/* Notes which columns besides the ends are understood. */
static hga_status note_columns(table *t)
{
    hga_status st = HGA_OK;
    for (int i = 0; !st && i < t->n && t->name[i].text; i++) {
        if (t->column[i] <= DESTINATION) continue;
        int is_read = t->column[i] != OTHER && !(t->column[i] == EDGE_WEIGHT && t->k.x.wish->pattern);
        st = import_note_name(&t->k.x, "columns", t->name[i].text, t->name[i].n, is_read);
    }
    return st;
}

/* ---- an edge ---- */

/* Reads a node's number, which pandas may have written as 3.0. */
static int node_number(const cell *c, int64_t *out)
{
    double real;
    if (scan_text_integer(c->text, c->n, out)) return 1;
    if (!scan_text_real(c->text, c->n, &real) || !(real >= 0 && real < 1e15) || real != (double)(int64_t)real) return 0;
    *out = (int64_t)real;
    return 1;
}

/* Finds a node by its name, or by its number where nodes have no names. */
static hga_status read_end(table *t, const char *what, const cell *c, hga_id *out)
{
    import *x = &t->k.x;
    int64_t number = 0;
    int shown = (int)(c->n < 40 ? c->n : 40);
    *out = 0;
    if (c->n == 0) return scan_wrong(x, "%s is missing", what);
    if (t->has_names) return keyed_find(&t->k, c->text, c->n, out);
    if (!node_number(c, &number))
        return scan_wrong(x, "%s: '%.*s' is not a whole number, and nodes are numbers here, from 0", what, shown,
                          c->text);
    if (number < 0 || number > INT32_MAX)
        return scan_wrong(x, "%s: %lld is not one of 0 .. %d", what, (long long)number, INT32_MAX);
    *out = (hga_id)number;
    return HGA_OK;
}

/* Reads a type: an integer, or a direction as Gephi writes it. */
static hga_status read_type(table *t, int at, const cell *c, int64_t *type, int *both_ways)
{
    *both_ways = is_called(c, "undirected");
    if (c->n == 0 || *both_ways || is_called(c, "directed")) return HGA_OK;
    import_type(&t->k.x, c->text, c->n, type);
    if (!t->k.x.has_strange_types) return HGA_OK;
    return import_note_name(&t->k.x, "columns", t->name[at].text, t->name[at].n, 0);
}

static hga_status read_weight(table *t, const cell *c, int is_named, double *weight)
{
    if (t->has_data && c->n > 0 && *c->text == '{') return edge_data_read(&t->k.x, c->text, c->n, weight);
    if (t->k.x.wish->pattern || (!is_named && c->n == 0)) return HGA_OK;
    if (c->n == 0) return scan_wrong(&t->k.x, "weight is missing");
    return scan_weight(&t->k.x, c->text, c->n, weight);
}

static hga_status find_relation(table *t, const cell *c, hga_id *relation)
{
    char name[64];
    if (c->n >= (int64_t)sizeof name)
        return scan_wrong(&t->k.x, "a relation's name has at most %zu bytes", sizeof name - 1);
    if (c->n == 0) return scan_wrong(&t->k.x, "relation is missing");
    memcpy(name, c->text, (size_t)c->n), name[c->n] = 0;
    return import_relation(&t->k.x, name, relation);
}

/* The cell of a column, empty where the line does not have it. */
static const cell *cell_of(const table *t, column is)
{
    static const cell nothing = {0};
    for (int i = 0; i < t->n && i < t->n_cells; i++)
        if (t->column[i] == is) return &t->cell[i];
    return &nothing;
}

static hga_status name_end(table *t, column is, hga_id node)
{
    import_node *named;
    const cell *c = cell_of(t, is);
    hga_status st = c->n ? import_tell(&t->k.x, node, &named) : HGA_OK;
    return c->n && !st ? import_text(&t->k.x, c->text, c->n, &named->label) : st;
}

/* Adds the edge of a line, with its other columns. */
static hga_status read_csv_edge(table *t)
{
    import *x = &t->k.x;
    hga_status st = HGA_OK;
    hga_id source, destination, relation = 0;
    int64_t type = 0;
    int both_ways = 0;
    double weight = 1;
    if (t->n_cells > t->n) return scan_wrong(x, "more than %d columns", t->n);
    HGA_TRY(read_end(t, "source", cell_of(t, SOURCE), &source));
    HGA_TRY(read_end(t, "destination", cell_of(t, DESTINATION), &destination));
    for (int i = 0; i < t->n; i++) {
        const cell *c = cell_of(t, t->column[i]);
        if (t->column[i] == EDGE_TYPE) HGA_TRY(read_type(t, i, c, &type, &both_ways));
        if (t->column[i] == EDGE_WEIGHT) HGA_TRY(read_weight(t, c, t->name[i].text != NULL, &weight));
        if (t->column[i] == EDGE_RELATION) HGA_TRY(find_relation(t, c, &relation));
    }
    if (!t->has_relation) HGA_TRY(import_relation(x, NULL, &relation));
    HGA_TRY(import_edge_add(x, relation, source, destination, type, weight));
    if (both_ways && source != destination) HGA_TRY(import_edge_add(x, relation, destination, source, type, weight));
    HGA_TRY(name_end(t, SOURCE_NAME, source));
    st = name_end(t, DESTINATION_NAME, destination);
done:
    return st;
}

/* Sets has_names if the ends of the first edge are names. */
static void look_for_names(table *t)
{
    int64_t number;
    double real;
    const cell *c[] = {cell_of(t, SOURCE), cell_of(t, DESTINATION)};
    for (int i = 0; i < 2; i++)
        t->has_names |= c[i]->n > 0 && !node_number(c[i], &number) && !scan_text_real(c[i]->text, c[i]->n, &real);
}

/* Reads a line: the first may be a header, every other one is an edge. */
static hga_status read_line(table *t, int *n_lines, int *n_edges)
{
    hga_status st = HGA_OK;
    if (*n_lines == 0) t->between = separator_of(&t->k.x);
    HGA_TRY(read_cells(t));
    int is_header = *n_lines == 0 && names_columns(t);
    if (*n_lines == 0) HGA_TRY(is_header ? take_names(t) : number_columns(t));
    ++*n_lines;
    if (is_header) return note_columns(t);
    if (++*n_edges == 1 && (t->name[0].text || t->has_data)) look_for_names(t);
    st = read_csv_edge(t);
done:
    return st;
}

/* Where nodes have names, a comment with as many cells as an edge is ambiguous and refused. */
static hga_status check_remark(const table *t, int n_edges)
{
    const import *x = &t->k.x;
    int cells = 1, quoted = 0;
    if (t->between == BLANKS || !t->name[0].text || (n_edges > 0 && !t->has_names)) return HGA_OK;
    for (const char *c = x->reader.at; c < x->reader.end && *c != '\n'; c++) {
        quoted ^= *c == '"';
        cells += !quoted && *c == t->between;
    }
    if (cells != t->n) return HGA_OK;
    return scan_wrong(x, "a line that begins with %c may be a remark or an edge: put a node's name in quotes",
                      *x->reader.at);
}

/* Reads all lines except comments and empty ones. */
static hga_status read_lines(table *t)
{
    import *x = &t->k.x;
    hga_status st = scan_start(x);
    int n_lines = 0, n_edges = 0;
    if (st || x->reader.at == x->reader.end) return st;
    do {
        const char *start = x->reader.at;
        scan_blanks(x);
        if (scan_at_line_end(x)) continue;
        if (*x->reader.at == '#' || *x->reader.at == '%') {
            HGA_TRY(check_remark(t, n_edges));
            continue;
        }
        x->reader.at = start;
        HGA_TRY(read_line(t, &n_lines, &n_edges));
    } while (scan_next_line(x));
done:
    return st;
}

hga_status import_csv(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out)
{
    table t = {0};
    hga_status st = import_open(&t.k.x, a, path, o, out);
    return keyed_close(&t.k, st ? st : read_lines(&t), out);
}
