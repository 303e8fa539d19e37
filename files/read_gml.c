/* read_gml.c: GML: keys with numbers, texts or lists in brackets. */
#include "document.h"
#include "import_names.h"
#include "keyed.h"
#include "readers.h"
#include "scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- characters ---- */

/* Writes a character as UTF-8; returns its length. */
static int64_t put_character(char *to, int64_t code)
{
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    int n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, code >>= 6) to[i] = (char)(0x80 | (code & 63));
    to[0] = (char)(lead[n] | code);
    return n;
}

/* The code point of &..;, 0 if it is unknown. `text` is the part between & and ;. */
static int64_t character_named(const char *text, int64_t n)
{
    char name[16], *end;
    if (n < 1 || n >= (int64_t)sizeof name) return 0;
    memcpy(name, text, (size_t)n), name[n] = 0;
    if (name[0] != '#') return html_character(name);
    int is_hex = name[1] == 'x';
    const char *digits = name + 1 + is_hex;
    if (!strchr("0123456789", *digits) && !(is_hex && strchr("abcdefABCDEF", *digits))) return 0;
    long code = strtol(digits, &end, is_hex ? 16 : 10);
    return *end || !*digits || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : code;
}

/* Decodes character references as in HTML, in place, since the result is never longer; unknown ones stay. */
static int64_t decode(char *text, int64_t n)
{
    int64_t to = 0;
    for (int64_t i = 0; i < n;) {
        int64_t most = n - i < 18 ? n - i : 18;
        const char *stop = text[i] == '&' ? memchr(text + i, ';', (size_t)most) : NULL;
        int64_t length = stop ? stop - text - i - 1 : 0, code = stop ? character_named(text + i + 1, length) : 0;
        if (code)
            to += put_character(text + to, code), i += length + 2;
        else
            text[to++] = text[i++];
    }
    return to;
}

/* ---- tokens ---- */

typedef enum token { END, OPEN, CLOSE, TEXT, WORD } token;

/* Reads the next token; text and n are its content, without quotes. */
static hga_status next_token(import *x, token *is, const char **text, int64_t *n)
{
    for (;;) {
        scan_blanks(x);
        if (x->reader.at == x->reader.end || (*x->reader.at != '\n' && *x->reader.at != '#')) break;
        scan_next_line(x);
    }
    *text = x->reader.at, *n = 1;
    if (x->reader.at == x->reader.end) return *is = END, HGA_OK;
    if (*x->reader.at == '[' || *x->reader.at == ']') return *is = *x->reader.at++ == '[' ? OPEN : CLOSE, HGA_OK;
    if (*x->reader.at == '"') {
        const char *stop = memchr(x->reader.at + 1, '"', (size_t)(x->reader.end - x->reader.at - 1));
        if (!stop) return scan_wrong(x, "a text without an end");
        *text = x->reader.at + 1, *n = stop - *text;
        for (const char *c = *text; c < stop; c++) x->reader.line += *c == '\n';
        x->reader.at = stop + 1;
        *n = decode(x->file.at + (*text - x->file.at), *n);
        return *is = TEXT, HGA_OK;
    }
    while (x->reader.at < x->reader.end && (!*x->reader.at || !strchr(" \t\r\n[]\"", *x->reader.at))) x->reader.at++;
    *n = x->reader.at - *text;
    return *is = WORD, HGA_OK;
}

/* Skips a list whose bracket was read. */
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

/* Calls a function for the pairs of a list up to its bracket, or of the file up to its end. */
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
        if (is == END) return scan_wrong(&k->x, "a list without an end");
        if (is != WORD) return scan_wrong(&k->x, "a key is expected");
        if (n >= (int64_t)sizeof key)
            return scan_wrong(&k->x, "the key %.40s.. has more than %zu bytes", text, sizeof key - 1);
        memcpy(key, text, (size_t)n), key[n] = 0;
        HGA_TRY(next_token(&k->x, &is, &text, &n));
        if (is == END || is == CLOSE) return scan_wrong(&k->x, "key %s has no value", key);
        HGA_TRY(read(k, key, is, text, n));
    }
done:
    return st;
}

/* Normalises an id, since equal numbers are equal ids. */
static const char *id_text(const char *value, int64_t *n, char number[32])
{
    int64_t whole;
    double real;
    if (scan_text_integer(value, *n, &whole))
        *n = snprintf(number, 32, "%lld", (long long)whole);
    else if (!scan_text_real(value, *n, &real) || real != real)
        return value;
    else if (real > -1e15 && real < 1e15 && real == (double)(int64_t)real)
        *n = snprintf(number, 32, "%lld", (long long)real);
    else
        *n = snprintf(number, 32, "%.17g", real);
    return number;
}

/* Skips a list that is not supported. */
static hga_status pass_over(keyed *k, const char *of, const char *key)
{
    hga_status st = import_note_name(&k->x, of, key, (int64_t)strlen(key), 0);
    return st ? st : skip_list(&k->x);
}

static hga_status read_node_pair(keyed *k, const char *key, token is, const char *value, int64_t n)
{
    char number[32];
    if (is == OPEN) return pass_over(k, "nodes", key);
    if (strcmp(key, "id") != 0) return keyed_note(k, key, value, n);
    value = id_text(value, &n, number);
    return keyed_list(k, value, n);
}

/* Reads one end of an edge, or an attribute. */
static hga_status read_edge_pair(keyed *k, const char *key, token is, const char *value, int64_t n)
{
    char number[32];
    int is_source = strcmp(key, "source") == 0;
    if (is == OPEN) return pass_over(k, "edges", key);
    if (!is_source && strcmp(key, "target") != 0) return keyed_note(k, key, value, n);
    hga_id *end = is_source ? &k->source : &k->target;
    if (*end >= 0) return scan_wrong(&k->x, "an edge has two of '%s'", key);
    value = id_text(value, &n, number);
    return keyed_find(k, value, n, end);
}

static hga_status read_directed(keyed *k, const char *value, int64_t n)
{
    double number;
    if (!scan_text_real(value, n, &number))
        return scan_wrong(&k->x, "directed '%.*s' is not 0 or 1", (int)(n < 40 ? n : 40), value);
    k->directed = number != 0;
    return HGA_OK;
}

/* Edges are directed until the list ends, since `directed` may come after them. */
static hga_status read_graph_pair(keyed *k, const char *key, token is, const char *value, int64_t n)
{
    hga_status st = HGA_OK;
    int directed = k->directed, is_node = strcmp(key, "node") == 0, is_edge = strcmp(key, "edge") == 0;
    if (is != OPEN && (is_node || is_edge)) return scan_wrong(&k->x, "%s is not a list", key);
    if (is == OPEN && !is_node && !is_edge) return pass_over(k, "graph", key);
    if (strcmp(key, "directed") == 0) return read_directed(k, value, n);
    if (is != OPEN) return HGA_OK;
    keyed_start(k, is_edge);
    HGA_TRY(each_pair(k, 0, is_edge ? read_edge_pair : read_node_pair));
    k->directed = 1;
    st = is_edge ? keyed_edge_end(k) : keyed_node_end(k);
    k->directed = directed;
done:
    return st;
}

/* Ends of edges must be nodes that the file lists, before or after the edge. */
static hga_status end_graph(keyed *k)
{
    for (int64_t v = 0; v < k->n_ids; v++)
        if (k->ids[v].index < 0)
            return scan_wrong(&k->x, "an edge names node '%.40s', which is not there", k->x.text.at + k->ids[v].id);
    return k->directed ? HGA_OK : keyed_both_ways(k);
}

static hga_status read_file_pair(keyed *k, const char *key, token is, const char *value, int64_t n)
{
    (void)value, (void)n;
    if (is != OPEN) return HGA_OK;
    if (strcmp(key, "graph") != 0) return skip_list(&k->x);
    if (k->graphs++) return scan_wrong(&k->x, "a second graph");
    hga_status st = each_pair(k, 0, read_graph_pair);
    return st ? st : end_graph(k);
}

hga_status import_gml(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out)
{
    keyed k = {.directed = 0};
    hga_status st = import_open(&k.x, a, path, o, out);
    if (!st) st = scan_start(&k.x);
    if (!st) st = each_pair(&k, 1, read_file_pair);
    if (!st && !k.graphs) st = scan_wrong(&k.x, "there is no graph");
    return keyed_close(&k, st, out);
}
