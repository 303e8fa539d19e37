/* read_graphml.c: GraphML, by libxml2's reader. */
#include "keyed.h"

#include <errno.h>
#include <libxml/xmlreader.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

typedef struct key { /* <key id= for= attr.name=>: texts in import.text */
    int64_t id, name;
} key;

typedef struct graphml {
    keyed k;
    xmlTextReaderPtr reader;
    int64_t n_keys, key_room;
    key *keys;
    char complaint[200]; /* libxml2's first */
    int starved;         /* malloc refused libxml2 something */
} graphml;

/* libxml2's errors: nothing of them on stderr. */
static void complain(void *context, xmlErrorPtr error)
{
    graphml *g = context;
    const char *message = error->message ? error->message : "no XML";
    g->starved |= error->code == XML_ERR_NO_MEMORY;
    if (g->complaint[0]) return;
    g->k.x.line = error->line;
    snprintf(g->complaint, sizeof g->complaint, "%.*s", (int)strcspn(message, "\n"), message);
}

/* Without memory libxml2 may leave out what it was asked for and go on, but malloc tells by errno. */
static void look_for_starvation(graphml *g) { g->starved |= errno == ENOMEM; }

static hga_status starved(const graphml *g) { return hga_fail(HGA_ENOMEM, "%s: no memory to read XML", g->k.x.name); }

/* An attribute's text, NULL without; for xmlFree. */
static xmlChar *attribute(graphml *g, const char *name)
{
    errno = 0;
    xmlChar *value = xmlTextReaderGetAttribute(g->reader, BAD_CAST name);
    look_for_starvation(g);
    return value;
}

/* The next node of the document; *more = 0 at its end. */
static hga_status advance(graphml *g, int *more)
{
    errno = 0;
    *more = xmlTextReaderRead(g->reader);
    look_for_starvation(g);
    if (*more >= 0 && !g->complaint[0]) {
        g->k.x.line = xmlTextReaderGetParserLineNumber(g->reader);
        return HGA_OK;
    }
    return scan_wrong(&g->k.x, "%s", g->complaint[0] ? g->complaint : "no XML");
}

static int is_element(graphml *g, const char *name)
{
    return xmlTextReaderNodeType(g->reader) == XML_READER_TYPE_ELEMENT &&
           strcmp((const char *)xmlTextReaderConstLocalName(g->reader), name) == 0;
}

/* Keep an attribute as text; *at = -1 without. */
static hga_status take_attribute(graphml *g, const char *name, int64_t *at)
{
    *at = -1;
    xmlChar *value = attribute(g, name);
    if (!value) return HGA_OK;
    hga_status st = import_text(&g->k.x, (const char *)value, (int64_t)strlen((const char *)value), at);
    xmlFree(value);
    return st;
}

/* The node that an attribute names. */
static hga_status find_node(graphml *g, const char *name, hga_id *node)
{
    xmlChar *value = attribute(g, name);
    if (!value) return scan_wrong(&g->k.x, "attribute %s is missing", name);
    hga_status st = keyed_find(&g->k, (const char *)value, (int64_t)strlen((const char *)value), node);
    xmlFree(value);
    return st;
}

static hga_status read_key(graphml *g)
{
    hga_status st = HGA_OK;
    key one;
    HGA_TRY(take_attribute(g, "id", &one.id));
    HGA_TRY(take_attribute(g, "attr.name", &one.name));
    if (one.id < 0) return scan_wrong(&g->k.x, "a key without an id");
    if (g->n_keys == 1024) return scan_wrong(&g->k.x, "more than %lld keys", (long long)g->n_keys);
    HGA_TRY(hga_grow(g->k.x.allocator, &g->keys, &g->key_room, g->n_keys, g->n_keys + 1, sizeof *g->keys));
    g->keys[g->n_keys++] = one;
done:
    return st;
}

/* The attribute that a key stands for; NULL for what is not understood. */
static const char *key_name(const graphml *g, const char *id)
{
    const char *text = g->k.x.text;
    for (int64_t i = 0; i < g->n_keys; i++)
        if (strcmp(text + g->keys[i].id, id) == 0) return g->keys[i].name < 0 ? NULL : text + g->keys[i].name;
    return NULL;
}

/* <data key=>text</data> of the node or edge being read. */
static hga_status read_data(graphml *g)
{
    char name[64];
    xmlChar *id = attribute(g, "key");
    const char *stands_for = id ? key_name(g, (const char *)id) : NULL;
    int known = stands_for && strlen(stands_for) < sizeof name;
    if (known) memcpy(name, stands_for, strlen(stands_for) + 1);
    xmlFree(id);
    if (!known) return HGA_OK;
    errno = 0;
    xmlChar *value = xmlTextReaderReadString(g->reader);
    look_for_starvation(g);
    const char *text = value ? (const char *)value : "";
    hga_status st = keyed_note(&g->k, name, text, (int64_t)strlen(text));
    xmlFree(value);
    return st;
}

/* The data of a node or edge, up to its end. */
static hga_status read_all_data(graphml *g)
{
    hga_status st = HGA_OK;
    int depth = xmlTextReaderDepth(g->reader), more = 1;
    if (xmlTextReaderIsEmptyElement(g->reader)) return HGA_OK;
    for (;;) {
        HGA_TRY(advance(g, &more));
        if (!more || xmlTextReaderDepth(g->reader) <= depth) break;
        if (is_element(g, "graph")) return scan_wrong(&g->k.x, "graphs inside of nodes are not read");
        if (is_element(g, "data")) HGA_TRY(read_data(g));
    }
done:
    return st;
}

static hga_status read_node(graphml *g)
{
    hga_status st = HGA_OK;
    keyed_start(&g->k, 0);
    HGA_TRY(find_node(g, "id", &g->k.node));
    HGA_TRY(read_all_data(g));
    st = keyed_node_end(&g->k);
done:
    return st;
}

static hga_status read_edge(graphml *g)
{
    hga_status st = HGA_OK;
    int was = g->k.directed;
    keyed_start(&g->k, 1);
    HGA_TRY(find_node(g, "source", &g->k.source));
    HGA_TRY(find_node(g, "target", &g->k.target));
    xmlChar *directed = attribute(g, "directed");
    if (directed) g->k.directed = strcmp((const char *)directed, "true") == 0;
    xmlFree(directed);
    HGA_TRY(read_all_data(g));
    st = keyed_edge_end(&g->k);
done:
    g->k.directed = was;
    return st;
}

static hga_status read_graph_element(graphml *g)
{
    if (g->k.graphs++) return scan_wrong(&g->k.x, "a second graph");
    xmlChar *directed = attribute(g, "edgedefault");
    g->k.directed = !directed || strcmp((const char *)directed, "undirected") != 0;
    xmlFree(directed);
    return HGA_OK;
}

static hga_status read_document(graphml *g)
{
    hga_status st = HGA_OK;
    int more;
    for (;;) {
        HGA_TRY(advance(g, &more));
        if (!more) break;
        if (is_element(g, "key")) HGA_TRY(read_key(g));
        if (is_element(g, "graph")) HGA_TRY(read_graph_element(g));
        if (is_element(g, "node")) HGA_TRY(read_node(g));
        if (is_element(g, "edge")) HGA_TRY(read_edge(g));
    }
    if (!g->k.graphs) st = scan_wrong(&g->k.x, "there is no graph");
done:
    return st;
}

/* No network, no other files, nothing on stderr. */
static hga_status open_reader(graphml *g)
{
    import *x = &g->k.x;
    if (x->n_bytes > INT_MAX)
        return hga_fail(HGA_EUNSUPPORTED, "%s: %lld bytes of XML", x->name, (long long)x->n_bytes);
    if (x->n_bytes == 0) return scan_wrong(x, "the file is empty");
    g->reader = xmlReaderForMemory(x->bytes, (int)x->n_bytes, NULL, NULL, XML_PARSE_NONET | XML_PARSE_COMPACT);
    if (!g->reader) return hga_fail(HGA_ENOMEM, "%s: no memory for an XML reader", x->name);
    xmlTextReaderSetStructuredErrorHandler(g->reader, complain, g);
    return HGA_OK;
}

/* Errors as bare text are libxml2's own want of memory. */
static void HGA_PRINTF(2, 3) ignore_text(void *context, const char *format, ...)
{
    graphml *g = context;
    (void)format;
    g->starved = 1;
}

/* What has no reader to complain to, an allocation of a string or of the reader, complains to this thread's handlers.
 */
static hga_status read_quietly(graphml *g)
{
    xmlStructuredErrorFunc handler = xmlStructuredError;
    xmlGenericErrorFunc text_handler = xmlGenericError;
    void *context = xmlStructuredErrorContext, *text_context = xmlGenericErrorContext;
    xmlSetStructuredErrorFunc(g, complain);
    xmlSetGenericErrorFunc(g, ignore_text);
    hga_status st = open_reader(g);
    if (!st) st = read_document(g);
    if (g->starved) st = starved(g);
    if (g->reader) xmlFreeTextReader(g->reader);
    xmlSetStructuredErrorFunc(context, handler);
    xmlSetGenericErrorFunc(text_context, text_handler);
    return st;
}

hga_status hga_graph_read_graphml(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out)
{
    graphml g = {.k = {.directed = 1}};
    hga_status st = import_open(&g.k.x, a, path, o, out);
    if (!st) st = read_quietly(&g);
    hga_delete(a, g.keys, g.key_room, sizeof *g.keys);
    return keyed_close(&g.k, st, out);
}
