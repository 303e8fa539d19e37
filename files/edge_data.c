/* edge_data.c: the attributes of an edge as a Python dictionary, {'weight': 2.5, 'color': 'red'}, which networkx writes
   after the ends of the edge. */
#include "import.h"
#include "import_names.h"
#include "scan.h"

#include <string.h>

typedef struct dictionary {
    import *x;
    const char *at, *end;
} dictionary;

static hga_status wrong(const dictionary *d)
{
    return scan_wrong(d->x, "'%.*s' is not the end of a Python dictionary",
                      (int)(d->end - d->at < 40 ? d->end - d->at : 40), d->at);
}

static void skip(dictionary *d)
{
    while (d->at < d->end && (*d->at == ' ' || *d->at == '\t')) d->at++;
}

/* Reads the next character if it is c. */
static int take_character(dictionary *d, char c)
{
    skip(d);
    int is = d->at < d->end && *d->at == c;
    d->at += is;
    return is;
}

/* Skips a quoted text; 0 if it is not terminated. */
static int pass_quoted(dictionary *d)
{
    char quote = *d->at++;
    for (; d->at < d->end && *d->at != quote; d->at++) d->at += *d->at == '\\' && d->at + 1 < d->end;
    return d->at++ < d->end;
}

/* Skips a value, which may be a list; returns its length. */
static int64_t pass_value(dictionary *d)
{
    const char *start = d->at;
    int depth = 0;
    while (d->at < d->end && (depth > 0 || (*d->at != ',' && *d->at != '}'))) {
        depth += strchr("([{", *d->at) && *d->at;
        depth -= strchr(")]}", *d->at) && *d->at;
        if (*d->at == '\'' || *d->at == '"')
            pass_quoted(d);
        else
            d->at++;
    }
    return (d->at < d->end ? d->at : d->end) - start;
}

/* Reads a key and its value; only the weight is used. */
static hga_status read_pair(dictionary *d, double *weight)
{
    hga_status st = HGA_OK;
    skip(d);
    if (d->at == d->end || (*d->at != '\'' && *d->at != '"')) return wrong(d);
    const char *key = d->at + 1;
    if (!pass_quoted(d)) return wrong(d);
    int64_t n = d->at - 1 - key;
    if (!take_character(d, ':')) return wrong(d);
    skip(d);
    const char *value = d->at;
    int64_t length = pass_value(d);
    int is_read = n == 6 && memcmp(key, "weight", 6) == 0 && !d->x->wish->pattern;
    HGA_TRY(import_note_name(d->x, "edges", key, n, is_read));
    while (length > 0 && value[length - 1] == ' ') length--;
    if (is_read) st = scan_weight(d->x, value, length, weight);
done:
    return st;
}

/* Reads pairs up to the closing brace, which must be the end of the text. */
hga_status edge_data_read(import *x, const char *text, int64_t n, double *weight)
{
    dictionary d = {x, text + 1, text + n};
    hga_status st = HGA_OK;
    int more = !take_character(&d, '}');
    while (more) {
        HGA_TRY(read_pair(&d, weight));
        more = take_character(&d, ',');
        if (!more && !take_character(&d, '}')) return wrong(&d);
    }
    skip(&d);
    if (d.at < d.end) st = wrong(&d);
done:
    return st;
}
