/* document.c: the tree of a document's elements. */
#include "document.h"
#include "text.h"

#include <string.h>

static const char *const kinds[IS_BLOCK + 1] = {"word",    "sentence",  "part", "document", "section",
                                                "heading", "paragraph", "list", "item",     "quote",
                                                "code",    "table",     "row",  "cell",     "block"};

void document_begin(document *d, const hga_allocator *a, hga_tree *out)
{
    memset(d, 0, sizeof *d);
    memset(out, 0, sizeof *out);
    if (a) out->allocator = *a;
    d->a = a, d->tree = out;
    d->depth = 1;
    d->open[0] = (open_element){-1, IS_DOCUMENT, 0, -1};
}

/* ---- nodes ---- */

/* Appends a name to the tree's names; *at is its offset. */
static hga_status keep_name(document *d, const char *text, int64_t n, int64_t *at)
{
    hga_tree *t = d->tree;
    hga_status st = hga_grow(d->a, &t->name_text, &t->name_capacity, t->name_bytes, t->name_bytes + n + 1, 1);
    if (st) return st;
    *at = t->name_bytes;
    memcpy(t->name_text + *at, text, (size_t)n);
    t->name_text[*at + n] = 0;
    t->name_bytes += n + 1;
    return HGA_OK;
}

/* Appends a node after its parent; `name` is the offset of its name. */
static hga_status add_node(document *d, hga_id parent, int kind, int64_t name, hga_id *node)
{
    hga_status st = HGA_OK;
    hga_tree *t = d->tree;
    if (t->n > INT32_MAX - 4) return hga_fail(HGA_EOVERFLOW, "more than %d nodes", INT32_MAX - 4);
    HGA_TRY(hga_grow(d->a, &t->parent, &d->parent_capacity, t->n, (int64_t)t->n + 1, sizeof *t->parent));
    HGA_TRY(hga_grow(d->a, &t->kind, &d->kind_capacity, t->n, (int64_t)t->n + 1, sizeof *t->kind));
    HGA_TRY(hga_grow(d->a, &t->name_at, &d->name_capacity, t->n, (int64_t)t->n + 1, sizeof *t->name_at));
    t->parent[t->n] = parent, t->kind[t->n] = (uint8_t)kind, t->name_at[t->n] = name;
    *node = t->n++;
done:
    return st;
}

/* The innermost element's node; makes it, and first those of the enclosing elements, if necessary. */
static hga_status top_node(document *d, hga_id *node)
{
    hga_status st = HGA_OK;
    hga_id parent = -1;
    for (int i = 0; i < d->depth; i++) {
        open_element *e = &d->open[i];
        if (e->node < 0) HGA_TRY(add_node(d, parent, e->kind, e->name, &e->node));
        parent = e->node;
    }
    *node = parent;
done:
    return st;
}

/* Adds the words of a text below a node, and its sentences where it has several. A level of the text is complete before
   the next is added, so that children are in reading order. */
static hga_status add_words(document *d, const char *text, const hga_tree *found, hga_id below)
{
    hga_status st = HGA_OK;
    hga_id *node = NULL;
    hga_tree *t = d->tree;
    HGA_TRY(hga_new(d->a, found->n, sizeof *node, &node));
    for (hga_id v = found->n; v-- > 0;) node[v] = -1;
    if (found->n > 1) node[found->n - 1] = below;
    for (int kind = found->n_kinds; kind-- > 1;)
        for (hga_id v = 0; v < found->n - 1; v++)
            if (found->kind[v] == kind)
                HGA_TRY(add_node(d, node[found->parent[v]], kind == 1 ? IS_SENTENCE : IS_PART, -1, &node[v]));
    for (hga_id i = 0; i < found->n_leaves; i++) {
        int64_t name;
        hga_id up = found->n > 1 ? node[found->parent[found->leaf_node[i]]] : below, leaf;
        HGA_TRY(keep_name(d, text + found->leaf_begin[i], found->leaf_end[i] - found->leaf_begin[i], &name));
        HGA_TRY(add_node(d, up, IS_WORD, name, &leaf));
        HGA_TRY(hga_grow(d->a, &t->leaf_node, &d->leaf_capacity, t->n_leaves, (int64_t)t->n_leaves + 1,
                         sizeof *t->leaf_node));
        t->leaf_node[t->n_leaves++] = leaf;
    }
done:
    hga_delete(d->a, node, found->n, sizeof *node);
    return st;
}

hga_status document_name(document *d, const char *text, int64_t n)
{
    return keep_name(d, text, n, &d->open[d->depth - 1].name);
}

/* Adds the text since the last flush as words and sentences of the innermost element. */
hga_status document_flush(document *d)
{
    hga_status st = HGA_OK;
    hga_tree found = {0};
    hga_id node;
    int64_t n = d->block_bytes;
    d->block_bytes = 0;
    if (n == 0) return HGA_OK;
    HGA_TRY(text_words(d->a, d->block, (size_t)n, &found));
    if (found.n == 0) return HGA_OK;
    HGA_TRY(top_node(d, &node));
    HGA_TRY(add_words(d, d->block, &found, node));
done:
    if (found.n) hga_tree_clear(&found);
    return st;
}

/* ---- elements ---- */

static hga_status push_element(document *d, open_element e)
{
    if (d->depth == DOCUMENT_DEPTH)
        d->too_deep++;
    else
        d->open[d->depth++] = e;
    return HGA_OK;
}

hga_status document_open(document *d, int kind)
{
    hga_status st = document_flush(d);
    return st ? st : push_element(d, (open_element){-1, (uint8_t)kind, 0, -1});
}

/* Closes the innermost element and the sections inside it. */
hga_status document_close(document *d)
{
    hga_status st = document_flush(d);
    if (st) return st;
    if (d->too_deep > 0) return d->too_deep--, HGA_OK;
    while (d->depth > 1 && d->open[d->depth - 1].rank) d->depth--;
    if (d->depth > 1) d->depth--;
    return HGA_OK;
}

/* Closes sections of this rank and those inside them, then opens one. */
hga_status document_section(document *d, int rank, const char *heading, int64_t n)
{
    hga_status st = HGA_OK;
    int64_t name = -1;
    HGA_TRY(document_flush(d));
    while (d->depth > 1 && d->open[d->depth - 1].rank >= rank) d->depth--;
    if (n > 0) HGA_TRY(keep_name(d, heading, n, &name));
    st = push_element(d, (open_element){-1, IS_SECTION, rank, name});
done:
    return st;
}

static int is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* Appends text, with white space collapsed to single blanks. */
hga_status document_text(document *d, const char *text, int64_t n)
{
    hga_status st = hga_grow(d->a, &d->block, &d->block_capacity, d->block_bytes, d->block_bytes + n, 1);
    for (int64_t i = 0; !st && i < n; i++) {
        if (!is_space(text[i]))
            d->block[d->block_bytes++] = text[i];
        else if (d->block_bytes && d->block[d->block_bytes - 1] != ' ')
            d->block[d->block_bytes++] = ' ';
    }
    return st;
}

/* ---- the end ---- */

/* Removes every node whose only child is not a word: the child's children become its own, except that code stays code.
   Parents precede their children; to[v] is the node that replaces v. */
static hga_status leave_out(document *d)
{
    hga_status st = HGA_OK;
    hga_tree *t = d->tree;
    hga_id *children = NULL, *to = NULL, kept = 0;
    HGA_TRY(hga_new_zero(d->a, t->n, sizeof *children, &children));
    HGA_TRY(hga_new(d->a, t->n, sizeof *to, &to));
    for (hga_id v = 1; v < t->n; v++) children[t->parent[v]]++;
    for (hga_id v = 0; v < t->n; v++) {
        hga_id up = t->parent[v];
        if (up >= 0 && children[up] == 1 && t->kind[v] != IS_WORD) {
            hga_id stays = to[up];
            if (t->name_at[stays] < 0) t->name_at[stays] = t->name_at[v];
            if (t->kind[stays] == IS_BLOCK || t->kind[v] == IS_CODE) t->kind[stays] = t->kind[v];
            to[v] = stays;
            continue;
        }
        to[v] = kept;
        t->parent[kept] = up < 0 ? -1 : to[up], t->kind[kept] = t->kind[v], t->name_at[kept] = t->name_at[v];
        kept++;
    }
    for (hga_id i = 0; i < t->n_leaves; i++) t->leaf_node[i] = to[t->leaf_node[i]];
    hga_delete(d->a, children, t->n, sizeof *children), children = NULL;
    hga_delete(d->a, to, t->n, sizeof *to), to = NULL;
    t->n = kept;
done:
    hga_delete(d->a, children, t->n, sizeof *children);
    hga_delete(d->a, to, t->n, sizeof *to);
    return st;
}

/* Shrinks an array to its length. */
static hga_status fit(document *d, void *array, int64_t capacity, int64_t n, size_t size)
{
    void *fitting = NULL, *old;
    memcpy(&old, array, sizeof old);
    hga_status st = hga_new(d->a, n, size, &fitting);
    if (st) return st;
    if (n) memcpy(fitting, old, (size_t)n * size);
    hga_delete(d->a, old, capacity, size);
    memcpy(array, &fitting, sizeof fitting);
    return HGA_OK;
}

/* Removes redundant nodes and shrinks the arrays of the tree. */
static hga_status finish(document *d)
{
    hga_status st = HGA_OK;
    hga_tree *t = d->tree;
    HGA_TRY(document_flush(d));
    if (t->n_leaves == 0) return hga_fail(HGA_EFORMAT, "the document has no word");
    HGA_TRY(leave_out(d));
    HGA_TRY(fit(d, &t->parent, d->parent_capacity, t->n, sizeof *t->parent));
    d->parent_capacity = t->n;
    HGA_TRY(fit(d, &t->kind, d->kind_capacity, t->n, sizeof *t->kind));
    d->kind_capacity = t->n;
    HGA_TRY(fit(d, &t->name_at, d->name_capacity, t->n, sizeof *t->name_at));
    d->name_capacity = t->n;
    HGA_TRY(fit(d, &t->leaf_node, d->leaf_capacity, t->n_leaves, sizeof *t->leaf_node));
    d->leaf_capacity = t->n_leaves;
    t->kind_name = kinds, t->n_kinds = IS_BLOCK + 1;
done:
    return st;
}

/* After an error the tree is empty. */
hga_status document_end(document *d, hga_status st)
{
    hga_tree *t = d->tree;
    if (!st) st = finish(d);
    hga_delete(d->a, d->block, d->block_capacity, 1);
    if (!st) return HGA_OK;
    hga_delete(d->a, t->parent, d->parent_capacity, sizeof *t->parent);
    hga_delete(d->a, t->kind, d->kind_capacity, sizeof *t->kind);
    hga_delete(d->a, t->name_at, d->name_capacity, sizeof *t->name_at);
    hga_delete(d->a, t->leaf_node, d->leaf_capacity, sizeof *t->leaf_node);
    hga_delete(d->a, t->name_text, t->name_capacity, 1);
    memset(t, 0, sizeof *t);
    return st;
}
