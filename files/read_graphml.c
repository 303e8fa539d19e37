/* read_graphml.c: GraphML, by libxml2's reader. */
#include "keyed.h"
#include "import_names.h"
#include "readers.h"
#include "scan.h"

#include <errno.h>
#include <libxml/xmlreader.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { OF_NODES = 1, OF_EDGES = 2 };

typedef struct key { /* <key id= for= attr.name=><default>: texts in import.text, -1 without */
    int64_t id, name, standard;
    int of; /* OF_NODES, OF_EDGES, both or neither */
} key;

typedef struct graphml {
    keyed k;
    xmlTextReaderPtr reader;
    int64_t n_keys, key_capacity;
    key *keys;
    int undirected;      /* the default of edges */
    char complaint[200]; /* libxml2's first error */
    int starved;         /* an allocation of libxml2 failed */
} graphml;

/* Records libxml2's errors, which are not printed. */
static void complain(void *context, xmlErrorPtr error)
{
    graphml *g = context;
    const char *message = error->message ? error->message : "no XML";
    g->starved |= error->code == XML_ERR_NO_MEMORY;
    if (g->complaint[0]) return;
    g->k.x.reader.line = error->line;
    snprintf(g->complaint, sizeof g->complaint, "%.*s", (int)strcspn(message, "\n"), message);
}

/* When an allocation fails libxml2 may skip data and continue, but malloc sets errno. */
static void look_for_starvation(graphml *g) { g->starved |= errno == ENOMEM; }

static hga_status starved(const graphml *g) { return hga_fail(HGA_ENOMEM, "%s: no memory to read XML", g->k.x.name); }

/* An attribute's text, NULL if it is missing; for xmlFree. */
static xmlChar *attribute(graphml *g, const char *name)
{
    errno = 0;
    xmlChar *value = xmlTextReaderGetAttribute(g->reader, BAD_CAST name);
    look_for_starvation(g);
    return value;
}

/* Refuses references to entities that the document declares: they may name other files, and may expand to a thousand
   times its size. */
static hga_status check_reference(const graphml *g)
{
    if (xmlTextReaderNodeType(g->reader) != XML_READER_TYPE_ENTITY_REFERENCE) return HGA_OK;
    return scan_wrong(&g->k.x, "&%.40s; is not replaced: write what it stands for",
                      (const char *)xmlTextReaderConstName(g->reader));
}

/* Advances to the next node of the document; *more = 0 at its end. */
static hga_status advance(graphml *g, int *more)
{
    errno = 0;
    *more = xmlTextReaderRead(g->reader);
    look_for_starvation(g);
    if (*more >= 0 && !g->complaint[0]) {
        g->k.x.reader.line = xmlTextReaderGetParserLineNumber(g->reader);
        return *more ? check_reference(g) : HGA_OK;
    }
    return scan_wrong(&g->k.x, "%s", g->complaint[0] ? g->complaint : "no XML");
}

/* Is this the start of an element of GraphML with that name? Any prefix and version of the namespace is accepted. */
static int is_element(graphml *g, const char *name)
{
    static const char space[] = "http://graphml.graphdrawing.org/xmlns";
    if (xmlTextReaderNodeType(g->reader) != XML_READER_TYPE_ELEMENT) return 0;
    const char *here = (const char *)xmlTextReaderConstNamespaceUri(g->reader);
    return (!here || strncmp(here, space, sizeof space - 1) == 0) &&
           strcmp((const char *)xmlTextReaderConstLocalName(g->reader), name) == 0;
}

/* Advances to the next descendant of the element at that depth; *more = 0 at its end. */
static hga_status advance_inside(graphml *g, int depth, int *more)
{
    hga_status st = advance(g, more);
    *more = !st && *more && xmlTextReaderDepth(g->reader) > depth;
    return st;
}

/* Stores an attribute as text; *at = -1 if it is missing. */
static hga_status take_attribute(graphml *g, const char *name, int64_t *at)
{
    *at = -1;
    xmlChar *value = attribute(g, name);
    if (!value) return HGA_OK;
    hga_status st = import_text(&g->k.x, (const char *)value, (int64_t)strlen((const char *)value), at);
    xmlFree(value);
    return st;
}

/* Finds the node that an attribute names; for a <node> it adds that node. */
static hga_status find_node(graphml *g, const char *name, hga_id *node)
{
    xmlChar *value = attribute(g, name);
    if (!value) return scan_wrong(&g->k.x, "attribute %s is missing", name);
    int64_t n = (int64_t)strlen((const char *)value);
    hga_status st = node ? keyed_find(&g->k, (const char *)value, n, node) : keyed_list(&g->k, (const char *)value, n);
    xmlFree(value);
    return st;
}

/* ---- keys ---- */

/* The index of an attribute's value in a list of words that ends with NULL; `without` if it is missing. */
static hga_status read_word(graphml *g, const char *name, const char *const *words, int without, int *out)
{
    xmlChar *value = attribute(g, name);
    hga_status st = HGA_OK;
    *out = without;
    if (!value) return HGA_OK;
    for (*out = 0; words[*out] && strcmp(words[*out], (const char *)value) != 0;) ++*out;
    if (!words[*out]) st = scan_wrong(&g->k.x, "%s=\"%.40s\" is not known", name, (const char *)value);
    xmlFree(value);
    return st;
}

/* The text of the element being read, for xmlFree. */
static xmlChar *text_inside(graphml *g)
{
    errno = 0;
    xmlChar *value = xmlTextReaderReadString(g->reader);
    look_for_starvation(g);
    return value;
}

/* Stores the text of a key's default, if there is one, at offset *at. */
static hga_status read_default(graphml *g, int64_t *at)
{
    hga_status st = HGA_OK;
    int depth = xmlTextReaderDepth(g->reader), more = 1;
    if (xmlTextReaderIsEmptyElement(g->reader)) return HGA_OK;
    for (;;) {
        HGA_TRY(advance_inside(g, depth, &more));
        if (!more) break;
        if (xmlTextReaderDepth(g->reader) != depth + 1 || !is_element(g, "default")) continue;
        xmlChar *value = text_inside(g);
        if (value) st = import_text(&g->k.x, (const char *)value, (int64_t)strlen((const char *)value), at);
        xmlFree(value);
        if (st) return st;
    }
done:
    return st;
}

static int has_node_key(const graphml *g, const char *name)
{
    for (int64_t i = 0; i < g->n_keys; i++)
        if (g->keys[i].of == OF_NODES && strcmp(g->k.x.text.at + g->keys[i].name, name) == 0) return 1;
    return 0;
}

/* hga's writer always declares these four keys of nodes. */
static int is_own(const graphml *g)
{
    return has_node_key(g, "span_first") && has_node_key(g, "span_last") && has_node_key(g, "level") &&
           has_node_key(g, "mass");
}

static const key *key_of(const graphml *g, const char *id)
{
    for (int64_t i = 0; i < g->n_keys; i++)
        if (strcmp(g->k.x.text.at + g->keys[i].id, id) == 0) return &g->keys[i];
    return NULL;
}

/* Reads a key. Those of yEd have another name attribute, and none of them is understood. */
static hga_status read_key(graphml *g)
{
    static const char *const targets[] = {"graphml",   "node", "edge",     "all", "graph",
                                          "hyperedge", "port", "endpoint", NULL};
    static const int of[] = {0, OF_NODES, OF_EDGES, OF_NODES | OF_EDGES, 0, 0, 0, 0};
    hga_status st = HGA_OK;
    int target;
    key one = {.standard = -1};
    HGA_TRY(take_attribute(g, "id", &one.id));
    HGA_TRY(take_attribute(g, "attr.name", &one.name));
    if (one.name < 0) HGA_TRY(take_attribute(g, "yfiles.type", &one.name));
    if (one.id < 0) return scan_wrong(&g->k.x, "a key without an id");
    if (one.name < 0) one.name = one.id;
    const char *id = g->k.x.text.at + one.id;
    if (key_of(g, id)) return scan_wrong(&g->k.x, "two keys have the id '%.40s'", id);
    HGA_TRY(read_word(g, "for", targets, 3, &target));
    one.of = of[target];
    if (g->n_keys == 1024) return scan_wrong(&g->k.x, "more than %lld keys", (long long)g->n_keys);
    HGA_TRY(hga_grow(g->k.x.allocator, &g->keys, &g->key_capacity, g->n_keys, g->n_keys + 1, sizeof *g->keys));
    HGA_TRY(read_default(g, &one.standard));
    g->keys[g->n_keys++] = one;
    g->k.is_own = is_own(g);
done:
    return st;
}

/* Finds the key of that id; it must apply to the current element. */
static hga_status find_key(graphml *g, const char *id, const key **out)
{
    *out = key_of(g, id);
    if (*out && (*out)->of & (g->k.is_edge ? OF_EDGES : OF_NODES)) return HGA_OK;
    return scan_wrong(&g->k.x, "%s has data of key '%.40s', which is %s", g->k.is_edge ? "an edge" : "a node", id,
                      *out ? "for something else" : "not declared");
}

/* ---- data ---- */

static hga_status note_attribute(graphml *g, const key *of, const char *value)
{
    char name[256];
    snprintf(name, sizeof name, "%s", g->k.x.text.at + of->name); /* a copy, since x.text moves when it grows */
    return keyed_note(&g->k, name, value, (int64_t)strlen(value));
}

/* Reads <data key=>text</data> of the current node or edge. */
static hga_status read_data(graphml *g)
{
    xmlChar *id = attribute(g, "key");
    const key *of = NULL;
    if (!id) return scan_wrong(&g->k.x, "data without a key");
    hga_status st = find_key(g, (const char *)id, &of);
    xmlFree(id);
    if (st) return st;
    xmlChar *value = text_inside(g);
    st = note_attribute(g, of, value ? (const char *)value : "");
    xmlFree(value);
    return st;
}

/* Applies the defaults of attributes that are understood and that the node or edge does not have. */
static hga_status take_defaults(graphml *g)
{
    hga_status st = HGA_OK;
    for (int64_t i = 0; !st && i < g->n_keys; i++) {
        const key *one = &g->keys[i];
        if (one->standard < 0 || !(one->of & (g->k.is_edge ? OF_EDGES : OF_NODES))) continue;
        int which = keyed_attribute(&g->k, g->k.is_edge, g->k.x.text.at + one->name);
        if (which == UNKNOWN || g->k.now.declared & 1u << which) continue;
        char value[256];
        if (snprintf(value, sizeof value, "%s", g->k.x.text.at + one->standard) >= (int)sizeof value)
            return scan_wrong(&g->k.x, "a default of more than %zu bytes", sizeof value - 1);
        st = note_attribute(g, one, value);
    }
    return st;
}

/* Reads any other child of a node or an edge. */
static hga_status read_child(graphml *g)
{
    if (is_element(g, "data")) return read_data(g);
    if (is_element(g, "graph")) return scan_wrong(&g->k.x, "graphs inside of nodes are not read");
    if (is_element(g, "locator")) return scan_wrong(&g->k.x, "locators, which name other files, are not followed");
    return is_element(g, "port") ? import_note_name(&g->k.x, "nodes", "port", 4, 0) : HGA_OK;
}

/* Reads the data of a node or edge, up to its end. */
static hga_status read_all_data(graphml *g)
{
    hga_status st = HGA_OK;
    int depth = xmlTextReaderDepth(g->reader), more = !xmlTextReaderIsEmptyElement(g->reader);
    while (more) {
        HGA_TRY(advance_inside(g, depth, &more));
        if (more && xmlTextReaderDepth(g->reader) == depth + 1) HGA_TRY(read_child(g));
    }
    st = take_defaults(g);
done:
    return st;
}

/* ---- the document ---- */

static hga_status read_node(graphml *g)
{
    hga_status st = HGA_OK;
    keyed_start(&g->k, 0);
    HGA_TRY(find_node(g, "id", NULL));
    HGA_TRY(read_all_data(g));
    st = keyed_node_end(&g->k);
done:
    return st;
}

/* Reads an <edge> with its data; its direction defaults to the graph's. */
static hga_status read_graphml_edge(graphml *g)
{
    static const char *const words[] = {"false", "true", "0", "1", NULL};
    hga_status st = HGA_OK;
    int directed;
    keyed_start(&g->k, 1);
    HGA_TRY(find_node(g, "source", &g->k.source));
    HGA_TRY(find_node(g, "target", &g->k.target));
    HGA_TRY(read_word(g, "directed", words, !g->undirected, &directed));
    g->k.directed = directed % 2;
    HGA_TRY(read_all_data(g));
    st = keyed_edge_end(&g->k);
done:
    return st;
}

/* Without edgedefault edges are undirected, as in networkx and igraph. */
static hga_status read_graph_element(graphml *g)
{
    static const char *const words[] = {"directed", "undirected", NULL};
    if (g->k.graphs++) return scan_wrong(&g->k.x, "a second graph");
    return read_word(g, "edgedefault", words, 1, &g->undirected);
}

/* Notes an element of the graph that is not supported. */
static hga_status pass_over(graphml *g)
{
    if (xmlTextReaderNodeType(g->reader) != XML_READER_TYPE_ELEMENT) return HGA_OK;
    if (is_element(g, "data") || is_element(g, "desc")) return HGA_OK;
    const char *name = (const char *)xmlTextReaderConstLocalName(g->reader);
    return import_note_name(&g->k.x, "elements", name, (int64_t)strlen(name), 0);
}

static hga_status refuse_root(graphml *g)
{
    const char *name = (const char *)xmlTextReaderConstName(g->reader);
    const char *space = (const char *)xmlTextReaderConstNamespaceUri(g->reader);
    return scan_wrong(&g->k.x, "there is no graph: the document is %.40s%s%.80s, not graphml", name,
                      space ? " of " : "", space ? space : "");
}

/* Reads an element by its name and depth. */
static hga_status read_element(graphml *g)
{
    int depth = xmlTextReaderDepth(g->reader);
    if (depth == 0 && !is_element(g, "graphml") && xmlTextReaderNodeType(g->reader) == XML_READER_TYPE_ELEMENT)
        return refuse_root(g);
    if (depth == 1 && is_element(g, "key")) return read_key(g);
    if (depth == 1 && is_element(g, "graph")) return read_graph_element(g);
    if (depth != 2) return HGA_OK;
    if (is_element(g, "edge")) return read_graphml_edge(g);
    if (is_element(g, "node")) return read_node(g);
    if (is_element(g, "hyperedge"))
        return scan_wrong(&g->k.x, "hyperedges, which join any number of nodes, are not read");
    return is_element(g, "locator") ? read_child(g) : pass_over(g);
}

/* Reads all elements. */
static hga_status read_document(graphml *g)
{
    hga_status st = HGA_OK;
    int more;
    for (;;) {
        HGA_TRY(advance(g, &more));
        if (!more) break;
        HGA_TRY(read_element(g));
    }
    if (!g->k.graphs) st = scan_wrong(&g->k.x, "there is no graph");
done:
    return st;
}

/* Opens the reader: no network, no other files, no output to stderr. */
static hga_status open_reader(graphml *g)
{
    import *x = &g->k.x;
    if (x->file.n > INT_MAX) return hga_fail(HGA_EUNSUPPORTED, "%s: %lld bytes of XML", x->name, (long long)x->file.n);
    if (x->file.n == 0) return scan_wrong(x, "the file is empty");
    g->reader = xmlReaderForMemory(x->file.at, (int)x->file.n, NULL, NULL, XML_PARSE_NONET | XML_PARSE_COMPACT);
    if (!g->reader) return hga_fail(HGA_ENOMEM, "%s: no memory for an XML reader", x->name);
    xmlTextReaderSetStructuredErrorHandler(g->reader, complain, g);
    return HGA_OK;
}

/* libxml2 reports errors as plain text only when it is out of memory. */
static void HGA_PRINTF(2, 3) ignore_text(void *context, const char *format, ...)
{
    graphml *g = context;
    (void)format;
    g->starved = 1;
}

/* Installs this thread's error handlers, which get the errors that occur outside of a reader, such as a failed
   allocation of the reader itself. */
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

hga_status import_graphml(const hga_allocator *a, const char *path, const hga_import *o, hga_graph **out)
{
    graphml g = {.undirected = 1};
    hga_status st = import_open(&g.k.x, a, path, o, out);
    if (!st) st = read_quietly(&g);
    hga_delete(a, g.keys, g.key_capacity, sizeof *g.keys);
    return keyed_close(&g.k, st, out);
}
