/* keyed.c: nodes with texts as ids, attributes by name. */
#include "keyed.h"
#include "import_names.h"
#include "scan.h"

#include <string.h>
#include <strings.h>

/* ---- nodes ---- */

static const char *id_of(const void *records, int64_t i)
{
    const keyed *k = records;
    return k->x.text.at + k->ids[i].id;
}

/* The node with that id, added if it is new. */
hga_status keyed_find(keyed *k, const char *id, int64_t n, hga_id *node)
{
    hga_status st = HGA_OK;
    int64_t at;
    HGA_TRY(import_text(&k->x, id, n, &at));
    int32_t known = names_find(&k->index, k, id_of, k->x.text.at + at);
    if (known >= 0) {
        k->x.text.bytes = at; /* the copy is no longer needed */
        *node = known;
        return HGA_OK;
    }
    HGA_TRY(import_reach(&k->x, k->n_ids));
    HGA_TRY(hga_grow(k->x.allocator, &k->ids, &k->id_capacity, k->n_ids, k->n_ids + 1, sizeof *k->ids));
    k->ids[k->n_ids] = (keyed_node){at, -1, -1};
    HGA_TRY(names_add(k->x.allocator, &k->index, k, id_of));
    *node = (hga_id)k->n_ids++;
done:
    return st;
}

hga_status keyed_list(keyed *k, const char *id, int64_t n)
{
    if (k->node >= 0) return scan_wrong(&k->x, "a node has two ids, %.40s and '%.*s'", id_of(k, k->node), (int)n, id);
    hga_status st = keyed_find(k, id, n, &k->node);
    if (st) return st;
    if (k->ids[k->node].index >= 0) return scan_wrong(&k->x, "two nodes have the id '%.40s'", id_of(k, k->node));
    k->ids[k->node].index = k->n_listed++;
    return HGA_OK;
}

void keyed_start(keyed *k, int is_edge)
{
    k->is_edge = is_edge;
    k->node = k->source = k->target = -1;
    k->now = (attributes){.label = -1, .name = -1, .parent = -1, .level = -1, .weight = 1, .mass = -1};
}

/* ---- attributes ---- */

/* The attributes that are understood. Those of nodes that only hga writes may mean something else in other files,
   unless their names have this prefix. */
static const char own[] = "hga_";
static const struct {
    const char *name;
    int of_edges, is_own;
} known[ATTRIBUTES] = {
    [LABEL] = {"label", 0, 0},   [NAME] = {"name", 0, 0}, [LEVEL] = {"level", 0, 1},
    [PARENT] = {"parent", 0, 1}, [MASS] = {"mass", 0, 1}, [SIDE] = {"side", 0, 1},
    [WEIGHT] = {"weight", 1, 0}, [TYPE] = {"type", 1, 0}, [RELATION] = {"relation", 1, 0},
};

int keyed_attribute(const keyed *k, int of_edges, const char *name)
{
    int is_own = strncmp(name, own, sizeof own - 1) == 0;
    const char *plain = is_own ? name + sizeof own - 1 : name;
    for (int i = 0; i < ATTRIBUTES; i++) {
        if (known[i].of_edges != of_edges || (is_own ? !known[i].is_own : known[i].is_own && !k->is_own)) continue;
        if ((i == LABEL || i == NAME ? strcasecmp : strcmp)(plain, known[i].name) == 0) return i;
    }
    return UNKNOWN;
}

static hga_status whole(keyed *k, const char *name, const char *value, int64_t n, int64_t *out)
{
    double real;
    if (scan_text_integer(value, n, out)) return HGA_OK;
    if (!scan_text_real(value, n, &real) || !(real > -1e9 && real < 1e9) || real != (double)(int32_t)real)
        return scan_wrong(&k->x, "%s: '%.*s' is not a whole number", name, (int)(n < 40 ? n : 40), value);
    *out = (int64_t)real;
    return HGA_OK;
}

static hga_status real(keyed *k, const char *name, const char *value, int64_t n, double *out)
{
    if (scan_text_real(value, n, out)) return HGA_OK;
    return scan_wrong(&k->x, "%s: '%.*s' is not a number", name, (int)(n < 40 ? n : 40), value);
}

static hga_status note_relation(keyed *k, const char *value, int64_t n)
{
    char relation[64];
    if (n >= (int64_t)sizeof relation) return scan_wrong(&k->x, "a relation's name has at most 63 bytes");
    memcpy(relation, value, (size_t)n), relation[n] = 0;
    return import_relation(&k->x, relation, &k->now.relation);
}

static hga_status read_side(keyed *k, const char *value, int64_t n)
{
    static const char *const sides[HGA_SIDE_KEY + 1] = {"both", "query", "key"};
    for (int i = 0; i < 3; i++)
        if (n == (int64_t)strlen(sides[i]) && memcmp(value, sides[i], (size_t)n) == 0) {
            k->now.side = i, k->x.has_sides |= i != HGA_SIDE_BOTH;
            return HGA_OK;
        }
    return scan_wrong(&k->x, "side '%.*s' is neither query nor key", (int)(n < 40 ? n : 40), value);
}

static hga_status read_type(keyed *k, const char *name, const char *value, int64_t n)
{
    import_type(&k->x, value, n, &k->now.type);
    return k->x.has_strange_types ? import_note_name(&k->x, "edges", name, (int64_t)strlen(name), 0) : HGA_OK;
}

/* Reads the value of one attribute of the current element by the attribute's type. */
static hga_status read_attribute(keyed *k, int which, const char *name, const char *value, int64_t n)
{
    attributes *now = &k->now;
    switch (which) {
    case LABEL: return import_text(&k->x, value, n, &now->label);
    case NAME: return import_text(&k->x, value, n, &now->name);
    case PARENT: return import_text(&k->x, value, n, &now->parent);
    case LEVEL: return whole(k, name, value, n, &now->level);
    case TYPE: return read_type(k, name, value, n);
    case WEIGHT: return scan_weight(&k->x, value, n, &now->weight);
    case MASS: return real(k, name, value, n, &now->mass);
    case SIDE: return read_side(k, value, n);
    default: return note_relation(k, value, n);
    }
}

static int is_number_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* Notes an attribute; texts are unchanged, numbers are stripped of blanks. */
hga_status keyed_note(keyed *k, const char *name, const char *value, int64_t n)
{
    hga_status st = HGA_OK;
    int which = keyed_attribute(k, k->is_edge, name);
    int is_read = which != UNKNOWN && !(which == WEIGHT && k->x.wish->pattern);
    if (!k->is_own)
        HGA_TRY(import_note_name(&k->x, k->is_edge ? "edges" : "nodes", name, (int64_t)strlen(name), is_read));
    if (!is_read) return HGA_OK;
    if (k->now.declared & 1u << which) return scan_wrong(&k->x, "%s is told twice", name);
    for (; which != LABEL && which != NAME && n > 0 && is_number_blank(*value); n--) value++;
    while (which != LABEL && which != NAME && n > 0 && is_number_blank(value[n - 1])) n--;
    if (n == 0) return HGA_OK;
    k->now.declared |= 1u << which;
    st = read_attribute(k, which, name, value, n);
done:
    return st;
}

/* Assigns the noted attributes to the node. */
hga_status keyed_node_end(keyed *k)
{
    hga_status st = HGA_OK;
    import_node *node;
    if (k->node < 0) return scan_wrong(&k->x, "a node without an id");
    HGA_TRY(import_tell(&k->x, k->node, &node));
    node->label = k->now.declared & 1 << LABEL ? k->now.label : k->now.name;
    node->mass = (float)k->now.mass, node->side = k->now.side;
    if (k->now.declared & 1 << MASS && !(node->mass >= 0))
        HGA_TRY(scan_wrong(&k->x, "mass %g is not a number >= 0", k->now.mass));
    if (k->now.level > 1023) HGA_TRY(scan_wrong(&k->x, "level %lld", (long long)k->now.level));
    node->level = (hga_id)k->now.level;
    k->x.has_levels |= k->now.level >= 0;
    k->ids[k->node].parent = k->now.parent;
done:
    return st;
}

/* Adds an edge with the noted attributes, or two where it is undirected. */
hga_status keyed_edge_end(keyed *k)
{
    hga_status st = HGA_OK;
    hga_id relation = k->now.relation;
    const attributes *now = &k->now;
    if (k->source < 0 || k->target < 0) return scan_wrong(&k->x, "an edge without a source or a target");
    if (!(now->declared & 1u << RELATION)) HGA_TRY(import_relation(&k->x, NULL, &relation));
    HGA_TRY(import_edge_add(&k->x, relation, k->source, k->target, now->type, now->weight));
    if (!k->directed && relation >= 0 && k->source != k->target)
        st = import_edge_add(&k->x, relation, k->target, k->source, now->type, now->weight);
done:
    return st;
}

hga_status keyed_both_ways(keyed *k)
{
    hga_status st = HGA_OK;
    for (int64_t i = 0, n = k->x.edges.n; !st && i < n; i++) {
        const import_edge e = k->x.edges.list[i];
        if (e.src != e.dst) st = import_edge_add(&k->x, e.relation, e.dst, e.src, e.type, (double)e.weight);
    }
    return st;
}

/* ---- the end ---- */

/* Numbers nodes in the order of the file's list, then those that are not listed, in their order. */
static void place_nodes(keyed *k)
{
    hga_id next = k->n_listed;
    for (int64_t v = 0; v < k->n_ids; v++)
        if (k->ids[v].index < 0) k->ids[v].index = next++;
}

/* Finds a parent by its id, which may come after its children's. */
static hga_status find_parent(const keyed *k, int64_t v, hga_id *parent)
{
    *parent = -1;
    if (k->ids[v].parent < 0) return HGA_OK;
    const char *id = k->x.text.at + k->ids[v].parent;
    if (strcmp(id, "-1") == 0) return HGA_OK;
    int32_t p = names_find(&k->index, k, id_of, id);
    if (p < 0) return hga_fail(HGA_EGRAPH, "%s: parent %.40s of node %.40s is not a node", k->x.name, id, id_of(k, v));
    *parent = k->ids[p].index;
    return HGA_OK;
}

/* A node without a label gets its id as label, unless the id is its number. */
static int64_t find_label(const keyed *k, const import_node *node, int64_t v)
{
    int64_t number;
    const char *id = id_of(k, v);
    int is_number = scan_text_integer(id, (int64_t)strlen(id), &number) && number == k->ids[v].index;
    return node->label < 0 && !is_number ? k->ids[v].id : node->label;
}

/* Renumbers nodes and edges. */
static hga_status move_nodes(keyed *k)
{
    import *x = &k->x;
    hga_status st = HGA_OK;
    import_node *moved = NULL, *declared;
    if (!k->n_ids) return HGA_OK;
    HGA_TRY(import_tell(x, (hga_id)k->n_ids - 1, &declared));
    HGA_TRY(hga_new(x->allocator, x->node.capacity, sizeof *moved, &moved));
    memcpy(moved, x->node.list, (size_t)x->node.capacity * sizeof *moved);
    for (int64_t v = 0; v < k->n_ids; v++) {
        import_node *node = &moved[k->ids[v].index];
        *node = x->node.list[v];
        node->label = find_label(k, &x->node.list[v], v);
        if (node->parent >= 0) node->parent = k->ids[node->parent].index; /* given by an edge of the tree */
        if (k->ids[v].parent >= 0) HGA_TRY(find_parent(k, v, &node->parent));
    }
    for (int64_t i = 0; i < x->edges.n; i++) {
        x->edges.list[i].src = k->ids[x->edges.list[i].src].index;
        x->edges.list[i].dst = k->ids[x->edges.list[i].dst].index;
    }
    memcpy(x->node.list, moved, (size_t)x->node.capacity * sizeof *moved);
done:
    hga_delete(x->allocator, moved, x->node.capacity, sizeof *moved);
    return st;
}

hga_status keyed_close(keyed *k, hga_status st, hga_graph **out)
{
    const hga_allocator *a = k->x.allocator;
    if (!st) place_nodes(k), st = move_nodes(k);
    names_clear(a, &k->index);
    hga_delete(a, k->ids, k->id_capacity, sizeof *k->ids);
    return import_close(&k->x, st, out);
}
