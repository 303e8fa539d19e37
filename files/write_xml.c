/* write_xml.c: a graph with the edges of one relation, or of all, as GraphML or GEXF, by libxml2's text writer. The two
   formats have the same contents under other names: nodes with level, mass, span, parent and side, edges with type and
   weight. */
#include "load.h"
#include "sides.h"
#include "write.h"
#include "written.h"

#include <libxml/xmlwriter.h>
#include <string.h>

enum { ATTRIBUTES = 10, NODES_AT_A_TIME = 65536 };
typedef enum dialect { GRAPHML, GEXF } dialect;

/* The attributes of nodes and edges. GEXF has a weight attribute of its own. */
static const struct attribute {
    const char *name, *type[2];
    int of_edges;
} attributes[ATTRIBUTES] = {
    {"level", {"int", "integer"}, 0},      {"mass", {"float", "float"}, 0},     {"span_first", {"int", "integer"}, 0},
    {"span_last", {"int", "integer"}, 0},  {"parent", {"int", "integer"}, 0},   {"side", {"string", "string"}, 0},
    {"type", {"int", "integer"}, 1},       {"weight", {"double", "double"}, 1}, {"label", {"string", "string"}, 0},
    {"relation", {"string", "string"}, 1},
};
enum { LEVEL, MASS, SPAN_FIRST, SPAN_LAST, PARENT, SIDE, TYPE, WEIGHT, LABEL, RELATION };

typedef struct xml {
    output out;
    dialect dialect;
    int named;    /* some node has a name */
    int weighted; /* some edge has a weight: all are written */
    int all;      /* all relations: each edge names its own */
    const char *relation;
    xmlTextWriterPtr writer;
    int failed; /* libxml2 returned an error: out of memory, since its arguments are checked */
    hga_pos n_edges;
} xml;

static int take_bytes(void *context, const char *bytes, int n)
{
    memory_is_written(bytes, (size_t)n);
    output_bytes(context, bytes, (size_t)n);
    return n;
}

static hga_status open_writer(xml *w)
{
    xmlOutputBufferPtr buffer = xmlOutputBufferCreateIO(take_bytes, NULL, &w->out, NULL);
    w->writer = buffer ? xmlNewTextWriter(buffer) : NULL;
    if (buffer && !w->writer) xmlOutputBufferClose(buffer);
    return w->writer ? HGA_OK : hga_fail(HGA_ENOMEM, "no memory for an XML writer");
}

static hga_status check_writer(const xml *w)
{
    return w->failed ? hga_fail(HGA_ENOMEM, "no memory to write XML") : output_check(&w->out);
}

/* ---- elements ---- */

static void begin_element(xml *w, const char *name)
{
    w->failed |= xmlTextWriterStartElement(w->writer, BAD_CAST name) < 0;
}

static void end(xml *w) { w->failed |= xmlTextWriterEndElement(w->writer) < 0; }

static void xml_attribute(xml *w, const char *name, const char *value)
{
    w->failed |= xmlTextWriterWriteAttribute(w->writer, BAD_CAST name, BAD_CAST value) < 0;
}

static void put_number(xml *w, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    xml_attribute(w, name, text);
}

/* "d3": the attribute's id, in GraphML a key. */
static void put_key(xml *w, const char *name, int attribute)
{
    char text[8];
    snprintf(text, sizeof text, "d%d", attribute);
    xml_attribute(w, name, text);
}

static void put_value(xml *w, int attribute, const char *text)
{
    begin_element(w, w->dialect == GRAPHML ? "data" : "attvalue");
    put_key(w, w->dialect == GRAPHML ? "key" : "for", attribute);
    if (w->dialect == GEXF)
        xml_attribute(w, "value", text);
    else
        w->failed |= xmlTextWriterWriteString(w->writer, BAD_CAST text) < 0;
    end(w);
}

static void put_integer_value(xml *w, int attribute, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    put_value(w, attribute, text);
}

static void put_real_value(xml *w, int attribute, float value)
{
    char text[REAL_BYTES];
    put_value(w, attribute, real_text(value, text));
}

/* GEXF encloses an element's values in one element. */
static void begin_values(xml *w)
{
    if (w->dialect == GEXF) begin_element(w, "attvalues");
}

static void end_values(xml *w)
{
    if (w->dialect == GEXF) end(w);
}

/* ---- the document ---- */

/* Declares attribute i, unless no element of the document has it. */
static void put_attribute(xml *w, int i)
{
    const struct attribute *a = &attributes[i];
    if (i == WEIGHT && (w->dialect == GEXF || !w->weighted)) return;
    if (i == LABEL && (w->dialect == GEXF || !w->named)) return;
    if (i == RELATION && !w->all) return;
    begin_element(w, w->dialect == GRAPHML ? "key" : "attribute");
    put_key(w, "id", i);
    if (w->dialect == GRAPHML)
        xml_attribute(w, "for", a->of_edges ? "edge" : "node"), xml_attribute(w, "attr.name", a->name),
            xml_attribute(w, "attr.type", a->type[0]);
    else
        xml_attribute(w, "title", a->name), xml_attribute(w, "type", a->type[1]);
    end(w);
}

static void put_attributes(xml *w, int of_edges)
{
    if (w->dialect == GEXF) begin_element(w, "attributes"), xml_attribute(w, "class", of_edges ? "edge" : "node");
    for (int i = 0; i < ATTRIBUTES; i++)
        if (attributes[i].of_edges == of_edges) put_attribute(w, i);
    if (w->dialect == GEXF) end(w);
}

static void begin_graphml(xml *w, const char *name)
{
    begin_element(w, "graphml"), xml_attribute(w, "xmlns", "http://graphml.graphdrawing.org/xmlns");
    put_attributes(w, 0), put_attributes(w, 1);
    begin_element(w, "graph"), xml_attribute(w, "id", name), xml_attribute(w, "edgedefault", "directed");
}

static void begin_gexf(xml *w, const char *name)
{
    begin_element(w, "gexf"), xml_attribute(w, "xmlns", "http://www.gexf.net/1.2draft"),
        xml_attribute(w, "version", "1.2");
    begin_element(w, "meta");
    w->failed |= xmlTextWriterWriteElement(w->writer, BAD_CAST "description", BAD_CAST name) < 0;
    end(w);
    begin_element(w, "graph"), xml_attribute(w, "defaultedgetype", "directed");
    put_attributes(w, 0), put_attributes(w, 1);
}

/* GEXF has a label attribute of its own. */
static void put_node(xml *w, const hga_nodes *nodes, hga_id v, hga_id level, const char *name)
{
    static const char *const sides[HGA_SIDE_KEY + 1] = {"both", "query", "key"};
    begin_element(w, "node"), put_number(w, "id", v);
    if (w->dialect == GEXF && name) xml_attribute(w, "label", name);
    if (w->dialect == GEXF && !name) put_number(w, "label", v);
    begin_values(w);
    put_integer_value(w, LEVEL, level);
    put_real_value(w, MASS, nodes->mass[v]);
    if (nodes->span_first[v] <= nodes->span_last[v]) {
        put_integer_value(w, SPAN_FIRST, nodes->span_first[v]);
        put_integer_value(w, SPAN_LAST, nodes->span_last[v]);
    }
    if (nodes->parent && nodes->parent[v] >= 0) put_integer_value(w, PARENT, nodes->parent[v]);
    if (w->dialect == GRAPHML && name) put_value(w, LABEL, name);
    if (nodes->side) put_value(w, SIDE, sides[nodes->side[v]]);
    end_values(w);
    end(w);
}

/* Writes all nodes, level by level; checks the writer for errors now and then. */
static hga_status put_xml_nodes(xml *w, const hga_graph *g)
{
    hga_nodes nodes = hga_graph_nodes(g);
    hga_status st = HGA_OK;
    if (w->dialect == GEXF) begin_element(w, "nodes");
    for (hga_id l = 0; l < nodes.n_levels; l++)
        for (hga_id v = nodes.level_ptr[l]; v < nodes.level_ptr[l + 1]; v++) {
            put_node(w, &nodes, v, l, hga_graph_name(g, v));
            if (v % NODES_AT_A_TIME == 0) HGA_TRY(check_writer(w));
        }
    if (w->dialect == GEXF) end(w);
done:
    return st;
}

/* Writes an edge with its type, and in GraphML its weight and relation as values. */
static void put_edge(xml *w, hga_id source, hga_id destination, int32_t type, float weight)
{
    char text[REAL_BYTES];
    begin_element(w, "edge"), put_number(w, "id", w->n_edges++);
    put_number(w, "source", source), put_number(w, "target", destination);
    if (w->dialect == GEXF && w->weighted) xml_attribute(w, "weight", real_text(weight, text));
    begin_values(w);
    put_integer_value(w, TYPE, type);
    if (w->dialect == GRAPHML && w->weighted) put_real_value(w, WEIGHT, weight);
    if (w->all) put_value(w, RELATION, w->relation);
    end_values(w);
    end(w);
}

static hga_status put_xml_edges(const hga_csr *rows, void *context)
{
    xml *w = context;
    for (hga_id i = 0; i < rows->n; i++)
        for (hga_pos e = rows->ptr[i]; e < rows->ptr[i + 1]; e++)
            put_edge(w, rows->src[e], rows->first + i, rows->type[e], rows->weight[e]);
    return check_writer(w);
}

/* The first character of a UTF-8 name that XML does not allow; 0 if there is none. */
static int character_of_no_xml(const char *name, const char *besides)
{
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        if (*c < ' ' && !strchr(besides, *c)) return *c;
        if (c[0] == 0xEF && c[1] == 0xBF && c[2] >= 0xBE) return 0xFF40 + c[2]; /* U+FFFE, U+FFFF */
    }
    return 0;
}

/* Refuses a name that libxml2 would report on stderr, or write as invalid XML. */
static hga_status check_name(const char *name)
{
    if (!is_utf8(name, (int64_t)strlen(name))) return hga_fail(HGA_EINVAL, "a relation's name, %s, is not UTF-8", name);
    const int wrong = character_of_no_xml(name, "");
    return wrong ? hga_fail(HGA_EINVAL, "relation %s: XML has no character %d", name, wrong) : HGA_OK;
}

/* Checks the names of all nodes. */
static hga_status check_names(xml *w, const hga_graph *g)
{
    for (hga_id v = 0; v < hga_graph_nodes(g).n; v++) {
        const char *name = hga_graph_name(g, v);
        w->named |= name != NULL;
        const int wrong = name ? character_of_no_xml(name, "\t\n") : 0;
        if (wrong) return hga_fail(HGA_EINVAL, "the name of node %d: XML has no character %d", v, wrong);
    }
    return HGA_OK;
}

/* Checks all names before anything is written. */
static hga_status write_document(xml *w, const hga_graph *g, hga_id relation, const char *path, hga_progress progress,
                                 void *context)
{
    relations all = relations_of(g, relation);
    const char *name = all.all ? "all" : relation_view(g, relation).name;
    hga_status st = HGA_OK;
    for (hga_id i = 0; !st && i < all.n; i++) st = check_name(relation_view(g, relations_at(g, &all, i)).name);
    if (!st) st = check_names(w, g);
    w->weighted = all.weighted, w->all = all.all;
    if (st) return st;
    HGA_TRY(output_open(&w->out, path));
    HGA_TRY(open_writer(w));
    xmlTextWriterSetIndent(w->writer, 1);
    w->failed |= xmlTextWriterStartDocument(w->writer, NULL, "UTF-8", NULL) < 0;
    if (w->dialect == GRAPHML)
        begin_graphml(w, name);
    else
        begin_gexf(w, name);
    HGA_TRY(put_xml_nodes(w, g));
    if (w->dialect == GEXF) begin_element(w, "edges");
    for (hga_id i = 0; i < all.n; i++) {
        hga_id one = relations_at(g, &all, i);
        w->relation = relation_view(g, one).name;
        HGA_TRY(chunks_visit(g, one, put_xml_edges, w, progress, context));
    }
    w->failed |= xmlTextWriterEndDocument(w->writer) < 0;
    HGA_TRY(check_writer(w));
done:
    if (w->writer) xmlFreeTextWriter(w->writer);
    return output_close(&w->out, st);
}

hga_status hga_graph_write_graphml(const hga_graph *g, hga_id relation, const char *path, hga_progress progress,
                                   void *context)
{
    xml w = {.dialect = GRAPHML};
    hga_status st = relations_check(g, relation);
    return st ? st : write_document(&w, g, relation, path, progress, context);
}

hga_status hga_graph_write_gexf(const hga_graph *g, hga_id relation, const char *path, hga_progress progress,
                                void *context)
{
    xml w = {.dialect = GEXF};
    hga_status st = relations_check(g, relation);
    return st ? st : write_document(&w, g, relation, path, progress, context);
}
