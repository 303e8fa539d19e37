/* read_gml.c: GML: keys with numbers, texts or lists in brackets. */
#include "keyed.h"

#include <string.h>
#include <strings.h>

typedef enum token { END, OPEN, CLOSE, TEXT, WORD } token;

/* The next token; text and n get what it says, without quotes. */
static hga_status next_token(import *x, token *is, const char **text, int64_t *n)
{
    for (;;) {
        scan_blanks(x);
        if (x->at == x->end || (*x->at != '\n' && *x->at != '#')) break;
        scan_next_line(x);
    }
    *text = x->at, *n = 1;
    if (x->at == x->end) return *is = END, HGA_OK;
    if (*x->at == '[' || *x->at == ']') return *is = *x->at++ == '[' ? OPEN : CLOSE, HGA_OK;
    if (*x->at == '"') {
        const char *stop = memchr(x->at + 1, '"', (size_t)(x->end - x->at - 1));
        if (!stop) return scan_wrong(x, "a text without an end");
        *text = x->at + 1, *n = stop - *text;
        for (const char *c = *text; c < stop; c++) x->line += *c == '\n';
        x->at = stop + 1;
        return *is = TEXT, HGA_OK;
    }
    while (x->at < x->end && (!*x->at || !strchr(" \t\r\n[]\"", *x->at))) x->at++;
    *n = x->at - *text;
    return *is = WORD, HGA_OK;
}

/* Over a list whose bracket was read. */
static hga_status skip_list(import *x)
{
    token is;
    const char *text;
    int64_t n;
    for (int64_t depth = 1; depth > 0;) {
        hga_status st = next_token(x, &is, &text, &n);
        if (st) return st;
        if (is == END) return scan_wrong(x, "a list without an end");
        depth += (is == OPEN) - (is == CLOSE);
    }
    return HGA_OK;
}

typedef hga_status (*pair_reader)(keyed *k, const char *key, token is, const char *value, int64_t n);

/* The pairs of a list up to its bracket, or of the file up to its end. */
static hga_status each_pair(keyed *k, int is_file, pair_reader read)
{
    hga_status st = HGA_OK;
    for (;;) {
        token is;
        const char *text;
        int64_t n;
        char key[64];
        HGA_TRY(next_token(&k->x, &is, &text, &n));
        if (is == (is_file ? END : CLOSE)) return HGA_OK;
        if (is != WORD || n >= (int64_t)sizeof key) return scan_wrong(&k->x, "a key is expected");
        memcpy(key, text, (size_t)n), key[n] = 0;
        HGA_TRY(next_token(&k->x, &is, &text, &n));
        if (is == END || is == CLOSE) return scan_wrong(&k->x, "key %s has no value", key);
        HGA_TRY(read(k, key, is, text, n));
    }
done:
    return st;
}

static hga_status read_node_pair(keyed *k, const char *key, token is, const char *value, int64_t n)
{
    if (is == OPEN) return skip_list(&k->x);
    if (strcmp(key, "id") == 0) return keyed_find(k, value, n, &k->node);
    return keyed_note(k, key, value, n);
}

static hga_status read_edge_pair(keyed *k, const char *key, token is, const char *value, int64_t n)
{
    if (is == OPEN) return skip_list(&k->x);
    if (strcmp(key, "source") == 0) return keyed_find(k, value, n, &k->source);
    if (strcmp(key, "target") == 0) return keyed_find(k, value, n, &k->target);
    return keyed_note(k, key, value, n);
}

static hga_status read_graph_pair(keyed *k, const char *key, token is, const char *value, int64_t n)
{
    hga_status st = HGA_OK;
    if (is == OPEN && strcmp(key, "node") == 0) {
        keyed_start(k, 0);
        HGA_TRY(each_pair(k, 0, read_node_pair));
        return keyed_node_end(k);
    }
    if (is == OPEN && strcmp(key, "edge") == 0) {
        keyed_start(k, 1);
        HGA_TRY(each_pair(k, 0, read_edge_pair));
        return keyed_edge_end(k);
    }
    if (is == OPEN) return skip_list(&k->x);
    if (strcmp(key, "directed") == 0) k->directed = n == 1 && *value == '1';
done:
    return st;
}

static hga_status read_file_pair(keyed *k, const char *key, token is, const char *value, int64_t n)
{
    (void)value, (void)n;
    if (is != OPEN) return HGA_OK;
    if (strcmp(key, "graph") != 0) return skip_list(&k->x);
    if (k->graphs++) return scan_wrong(&k->x, "a second graph");
    return each_pair(k, 0, read_graph_pair);
}

hga_status hga_graph_read_gml(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out)
{
    keyed k = {.directed = 0};
    hga_status st = import_open(&k.x, a, path, o, out);
    if (!st) st = each_pair(&k, 1, read_file_pair);
    if (!st && !k.graphs) st = scan_wrong(&k.x, "there is no graph");
    return keyed_close(&k, st, out);
}
