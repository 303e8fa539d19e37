/* document_html.c: HTML as a tree: headings open sections, block elements are levels, their text is split into
   sentences and words. Parsed by libxml2's HTML parser, which closes elements that are left open. */
#include "document.h"
#include "text.h"

#include <libxml/HTMLparser.h>
#include <string.h>
#include <strings.h>

typedef enum role { INLINE, SKIP, BLOCK, BREAK } role;

static const struct element {
    const char *name;
    role role;
    int kind, rank;
} elements[] = {
    {"head", SKIP, 0, 0},
    {"script", SKIP, 0, 0},
    {"style", SKIP, 0, 0},
    {"template", SKIP, 0, 0},
    {"noscript", SKIP, 0, 0},
    {"svg", SKIP, 0, 0},
    {"math", SKIP, 0, 0},
    {"select", SKIP, 0, 0},
    {"br", BREAK, 0, 0},
    {"hr", BREAK, 0, 0},
    {"wbr", INLINE, 0, 0},
    {"h1", BLOCK, IS_HEADING, 1},
    {"h2", BLOCK, IS_HEADING, 2},
    {"h3", BLOCK, IS_HEADING, 3},
    {"h4", BLOCK, IS_HEADING, 4},
    {"h5", BLOCK, IS_HEADING, 5},
    {"h6", BLOCK, IS_HEADING, 6},
    {"p", BLOCK, IS_PARAGRAPH, 0},
    {"ul", BLOCK, IS_LIST, 0},
    {"ol", BLOCK, IS_LIST, 0},
    {"dl", BLOCK, IS_LIST, 0},
    {"menu", BLOCK, IS_LIST, 0},
    {"li", BLOCK, IS_ITEM, 0},
    {"dt", BLOCK, IS_ITEM, 0},
    {"dd", BLOCK, IS_ITEM, 0},
    {"blockquote", BLOCK, IS_QUOTE, 0},
    {"pre", BLOCK, IS_CODE, 0},
    {"table", BLOCK, IS_TABLE, 0},
    {"tr", BLOCK, IS_ROW, 0},
    {"td", BLOCK, IS_CELL, 0},
    {"th", BLOCK, IS_CELL, 0},
    {"caption", BLOCK, IS_PARAGRAPH, 0},
    {"figcaption", BLOCK, IS_PARAGRAPH, 0},
    {"summary", BLOCK, IS_PARAGRAPH, 0},
    {"body", BLOCK, IS_BLOCK, 0},
    {"div", BLOCK, IS_BLOCK, 0},
    {"section", BLOCK, IS_BLOCK, 0},
    {"article", BLOCK, IS_BLOCK, 0},
    {"main", BLOCK, IS_BLOCK, 0},
    {"aside", BLOCK, IS_BLOCK, 0},
    {"nav", BLOCK, IS_BLOCK, 0},
    {"header", BLOCK, IS_BLOCK, 0},
    {"footer", BLOCK, IS_BLOCK, 0},
    {"address", BLOCK, IS_BLOCK, 0},
    {"figure", BLOCK, IS_BLOCK, 0},
    {"details", BLOCK, IS_BLOCK, 0},
    {"form", BLOCK, IS_BLOCK, 0},
    {"fieldset", BLOCK, IS_BLOCK, 0},
};

static const struct element *element_of(const xmlNode *node)
{
    static const struct element other = {"", INLINE, 0, 0}, hidden = {"", SKIP, 0, 0};
    if (node->type != XML_ELEMENT_NODE) return &hidden;
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
        if (strcasecmp((const char *)node->name, elements[i].name) == 0) return &elements[i];
    return &other;
}

/* The text of an element with white space collapsed; xmlFree it. */
static xmlChar *heading_text(const xmlNode *node, int64_t *n)
{
    xmlChar *text = xmlNodeGetContent(node);
    char *to = (char *)text;
    for (const char *from = to; from && *from; from++) {
        int blank = *from == ' ' || (*from >= '\t' && *from <= '\r');
        if (!blank) *to++ = *from;
        if (blank && to > (char *)text && to[-1] != ' ') *to++ = ' ';
    }
    if (to > (char *)text && to[-1] == ' ') to--;
    *n = text ? to - (char *)text : 0;
    return text;
}

/* Enters an element: ends a line, opens a block, or for a heading opens a section. */
static hga_status enter(document *d, const xmlNode *node)
{
    hga_status st = HGA_OK;
    const struct element *e = element_of(node);
    if (e->role == BREAK) return document_text(d, "\n", 1);
    if (e->role != BLOCK) return HGA_OK;
    if (e->rank) {
        int64_t n;
        xmlChar *heading = heading_text(node, &n);
        if (heading && n > 0) st = document_section(d, e->rank, (const char *)heading, n);
        if (!heading) st = hga_fail(HGA_ENOMEM, "no memory for a heading");
        xmlFree(heading);
    }
    return st ? st : document_open(d, e->kind);
}

static hga_status leave(document *d, const xmlNode *node)
{
    return element_of(node)->role == BLOCK ? document_close(d) : HGA_OK;
}

static int has_inside(const xmlNode *node) { return node->children && element_of(node)->role != SKIP; }

/* Visits all nodes from the root without recursion, since pages may nest to any depth. */
static hga_status walk_pages(document *d, const xmlNode *root)
{
    hga_status st = HGA_OK;
    for (const xmlNode *at = root; at;) {
        if (at->type == XML_TEXT_NODE || at->type == XML_CDATA_SECTION_NODE)
            HGA_TRY(document_text(d, (const char *)at->content, (int64_t)strlen((const char *)at->content)));
        HGA_TRY(enter(d, at));
        if (has_inside(at)) {
            at = at->children;
            continue;
        }
        for (; at; at = at->parent == root->parent ? NULL : at->parent) {
            HGA_TRY(leave(d, at));
            if (at == root) return HGA_OK;
            if (at->next) break;
        }
        at = at ? at->next : NULL;
    }
done:
    return st;
}

/* Names the root by the page's title. */
static hga_status name_document(document *d, const xmlNode *root)
{
    for (const xmlNode *head = root->children; head; head = head->next) {
        if (head->type != XML_ELEMENT_NODE || strcasecmp((const char *)head->name, "head") != 0) continue;
        for (const xmlNode *title = head->children; title; title = title->next) {
            int64_t n;
            if (title->type != XML_ELEMENT_NODE || strcasecmp((const char *)title->name, "title") != 0) continue;
            xmlChar *text = heading_text(title, &n);
            hga_status st = text && n > 0 ? document_name(d, (const char *)text, n) : HGA_OK;
            xmlFree(text);
            return st;
        }
    }
    return HGA_OK;
}

/* Parses a page: valid UTF-8 is parsed as such, whatever encoding the page declares; else libxml2 uses the declared
   encoding. Nesting depth is unlimited. Unclosed elements are repaired without an error; where libxml2 gives up, its
   partial tree is discarded. */
static hga_status parse_page(const char *text, size_t bytes, htmlDocPtr *out)
{
    const char *encoding = text_check(text, bytes) == HGA_OK ? "UTF-8" : NULL;
    htmlParserCtxtPtr reader = htmlNewParserCtxt();
    hga_status st = HGA_OK;
    if (!reader) return hga_fail(HGA_ENOMEM, "no memory for an HTML parser");
    reader->options |= XML_PARSE_HUGE; /* read by old releases; new ones use the options below */
    *out = htmlCtxtReadMemory(reader, text, (int)bytes, NULL, encoding,
                              HTML_PARSE_RECOVER | HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING | HTML_PARSE_NONET |
                                  HTML_PARSE_COMPACT | XML_PARSE_HUGE);
    if (reader->lastError.level == XML_ERR_FATAL) {
        const char *why = reader->lastError.message ? reader->lastError.message : "it cannot be read further";
        st = hga_fail(HGA_EFORMAT, "line %d of the HTML: %.*s", reader->lastError.line, (int)strcspn(why, "\n"), why);
    }
    htmlFreeParserCtxt(reader);
    return st;
}

int html_character(const char *name)
{
    const htmlEntityDesc *known = htmlEntityLookup(BAD_CAST name);
    return known ? (int)known->value : 0;
}

hga_status hga_tree_html(const hga_allocator *a, const char *text, size_t bytes, hga_tree *out)
{
    document d;
    document_begin(&d, a, out);
    if (bytes > INT32_MAX) return hga_fail(HGA_EOVERFLOW, "%zu bytes of HTML; there are at most %d", bytes, INT32_MAX);
    htmlDocPtr page = NULL;
    hga_status st = text && bytes ? parse_page(text, bytes, &page) : HGA_OK;
    const xmlNode *root = page ? xmlDocGetRootElement(page) : NULL;
    if (!st && !root) st = hga_fail(HGA_EFORMAT, "the document has no word");
    if (!st) st = name_document(&d, root);
    if (!st) st = walk_pages(&d, root);
    st = document_end(&d, st);
    if (page) xmlFreeDoc(page);
    return st;
}
