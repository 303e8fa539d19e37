/* keyed.c: nodes by texts for ids, attributes by name. */
#include "keyed.h"

#include <string.h>
#include <strings.h>

static const char *id_of(const void *records, int64_t i)
{
    const keyed *k = records;
    return k->x.text + k->id[i];
}

hga_status keyed_find(keyed *k, const char *id, int64_t n, hga_id *node)
{
    hga_status st = HGA_OK;
    int64_t at;
    HGA_TRY(import_text(&k->x, id, n, &at));
    int32_t known = names_find(&k->index, k, id_of, k->x.text + at);
    if (known >= 0) {
        k->x.text_bytes = at; /* the copy served its purpose */
        *node = known;
        return HGA_OK;
    }
    HGA_TRY(import_reach(&k->x, k->n_ids));
    HGA_TRY(hga_grow(k->x.allocator, &k->id, &k->id_room, k->n_ids, k->n_ids + 1, sizeof *k->id));
    k->id[k->n_ids] = at;
    HGA_TRY(names_add(k->x.allocator, &k->index, k, id_of));
    *node = (hga_id)k->n_ids++;
done:
    return st;
}

void keyed_start(keyed *k, int is_edge)
{
    k->is_edge = is_edge;
    k->node = k->source = k->target = -1;
    k->now = (attributes){-1, -1, -1, -1, -1, -1, NO_RELATION};
}

static hga_status whole(keyed *k, const char *name, const char *value, int64_t n, int64_t *out)
{
    double real;
    if (scan_text_integer(value, n, out)) return HGA_OK;
    if (!scan_text_real(value, n, &real) || real != (double)(int32_t)real)
        return scan_wrong(&k->x, "%s: '%.*s' is not a whole number", name, (int)(n < 40 ? n : 40), value);
    *out = (int64_t)real;
    return HGA_OK;
}

static hga_status real(keyed *k, const char *name, const char *value, int64_t n, double *out)
{
    if (scan_text_real(value, n, out) && *out >= 0) return HGA_OK;
    return scan_wrong(&k->x, "%s: '%.*s' is not a number >= 0", name, (int)(n < 40 ? n : 40), value);
}

hga_status keyed_note(keyed *k, const char *name, const char *value, int64_t n)
{
    char relation[64];
    if (strcasecmp(name, "label") == 0 || strcasecmp(name, "name") == 0)
        return import_text(&k->x, value, n, &k->now.label);
    if (strcmp(name, "level") == 0) return whole(k, name, value, n, &k->now.level);
    if (strcmp(name, "type") == 0 && k->is_edge) return whole(k, name, value, n, &k->now.type);
    if (strcmp(name, "parent") == 0) return import_text(&k->x, value, n, &k->now.parent);
    if (strcmp(name, "weight") == 0) return real(k, name, value, n, &k->now.weight);
    if (strcmp(name, "mass") == 0) return real(k, name, value, n, &k->now.mass);
    if (strcmp(name, "relation") != 0) return HGA_OK;
    if (n >= (int64_t)sizeof relation) return scan_wrong(&k->x, "a relation's name has at most 63 bytes");
    memcpy(relation, value, (size_t)n), relation[n] = 0;
    return import_relation(&k->x, relation, &k->now.relation);
}

hga_status keyed_node_end(keyed *k)
{
    hga_status st = HGA_OK;
    import_node *node;
    int64_t room = k->parents_room;
    if (k->node < 0) return scan_wrong(&k->x, "a node without an id");
    HGA_TRY(import_tell(&k->x, k->node, &node));
    node->label = k->now.label, node->mass = (float)k->now.mass;
    if (k->now.level > 1023) HGA_TRY(scan_wrong(&k->x, "level %lld", (long long)k->now.level));
    node->level = (hga_id)k->now.level;
    k->x.has_levels |= k->now.level >= 0;
    HGA_TRY(hga_grow(k->x.allocator, &k->parent, &k->parents_room, room, (int64_t)k->node + 1, sizeof *k->parent));
    for (; room < k->parents_room; room++) k->parent[room] = -1;
    k->parent[k->node] = k->now.parent;
done:
    return st;
}

hga_status keyed_edge_end(keyed *k)
{
    hga_status st = HGA_OK;
    hga_id relation = k->now.relation;
    if (k->source < 0 || k->target < 0) return scan_wrong(&k->x, "an edge without a source or a target");
    if (relation == NO_RELATION) HGA_TRY(import_relation(&k->x, NULL, &relation));
    int64_t type = k->now.type < 0 ? 0 : k->now.type;
    double weight = k->now.weight < 0 ? 1 : k->now.weight;
    HGA_TRY(import_edge_add(&k->x, relation, k->source, k->target, type, weight));
    if (!k->directed && relation >= 0 && k->source != k->target)
        st = import_edge_add(&k->x, relation, k->target, k->source, type, weight);
done:
    return st;
}

/* Parents are ids, which may come after their children's. */
static hga_status find_parents(keyed *k)
{
    for (int64_t v = 0; v < k->parents_room && v < k->x.n; v++) {
        if (k->parent[v] < 0) continue;
        const char *id = k->x.text + k->parent[v];
        int32_t p = strcmp(id, "-1") == 0 ? -1 : names_find(&k->index, k, id_of, id);
        if (p < 0 && strcmp(id, "-1") != 0)
            return hga_fail(HGA_EGRAPH, "%s: parent %.40s of node %.40s is not a node", k->x.name, id, id_of(k, v));
        k->x.nodes[v].parent = p;
    }
    return HGA_OK;
}

/* A node without a label is called by its id, where that is not its number. */
static hga_status find_labels(keyed *k)
{
    for (int64_t v = 0; v < k->n_ids; v++) {
        import_node *node;
        int64_t number;
        hga_status st = import_tell(&k->x, (hga_id)v, &node);
        if (st) return st;
        const char *id = id_of(k, v);
        if (node->label < 0 && !(scan_text_integer(id, (int64_t)strlen(id), &number) && number == v))
            node->label = k->id[v];
    }
    return HGA_OK;
}

hga_status keyed_close(keyed *k, hga_status st, hga_graph **out)
{
    const hga_allocator *a = k->x.allocator;
    if (!st) st = find_parents(k);
    if (!st) st = find_labels(k);
    names_clear(a, &k->index);
    hga_delete(a, k->id, k->id_room, sizeof *k->id);
    hga_delete(a, k->parent, k->parents_room, sizeof *k->parent);
    return import_close(&k->x, st, out);
}
