/* grid.c: an image as nested patches. Level 0 are the pixels, level l + 1 the patches of patch[l] x patch[l] cells of
   level l (fewer at the right and lower edge), and above the last one root, unless a single cell is left. Nodes are
   numbered level by level; within a level the cells of one patch follow each other, row by row, patch after patch. The
   position embedding of cell (y, x) of a family of h x w cells is e = (cos(pi y / h), sin(pi y / h), cos(pi x / w),
   sin(pi x / w)), so that e(A).e(B) = cos(pi (y_A - y_B) / h) + cos(pi (x_A - x_B) / w) falls with either distance. A
   patch at the edge keeps the h and w of a whole one. The root has 0. */
#include "hga_builders.h"

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;
static const char *const kinds[] = {"pixel", "patch", "image"};
enum { MAX_GRIDS = 72 };

typedef struct grid {
    hga_id height, width, first; /* cells, and the node of the first */
    hga_id side_y, side_x;       /* a cell of this level has side_y x side_x cells below */
} grid;

typedef struct pyramid {
    hga_id n, n_nodes; /* levels, their nodes */
    grid level[MAX_GRIDS];
} pyramid;

static hga_id divide_up(hga_id n, hga_id d) { return (hga_id)(((int64_t)n + d - 1) / d); }

/* Refuses images without pixels, patches without size, and too many levels. */
static hga_status check_grid(hga_id height, hga_id width, const hga_id *patch, hga_id n_patch)
{
    if (height < 1 || width < 1)
        return hga_fail(HGA_EINVAL, "an image of %d x %d; both must be at least 1", height, width);
    if (n_patch < 0 || (n_patch > 0 && !patch))
        return hga_fail(HGA_EINVAL, "n_patch is %d and patch is %s", n_patch, patch ? "given" : "NULL");
    if (n_patch > MAX_GRIDS - 2)
        return hga_fail(HGA_EINVAL, "n_patch is %d; there are at most %d levels of patches", n_patch, MAX_GRIDS - 2);
    for (hga_id l = 0; l < n_patch; l++)
        if (patch[l] < 1) return hga_fail(HGA_EINVAL, "patch[%d] is %d; it must be at least 1", l, patch[l]);
    return HGA_OK;
}

/* Appends a level, if all cells fit an id. */
static hga_status push_level(pyramid *p, grid g)
{
    int64_t nodes = p->n_nodes + (int64_t)g.height * g.width;
    if (nodes > INT32_MAX - 2)
        return hga_fail(HGA_EOVERFLOW, "level %d of %d x %d cells: more than %d nodes", p->n, g.height, g.width,
                        INT32_MAX - 2);
    g.first = p->n_nodes;
    p->level[p->n++] = g;
    p->n_nodes = (hga_id)nodes;
    return HGA_OK;
}

/* the levels' sizes, pixels first, one root last */
static hga_status size_levels(hga_id height, hga_id width, const hga_id *patch, hga_id n_patch, pyramid *p)
{
    hga_status st = HGA_OK;
    HGA_TRY(push_level(p, (grid){.height = height, .width = width}));
    for (hga_id l = 0; l < n_patch; l++) {
        height = divide_up(height, patch[l]), width = divide_up(width, patch[l]);
        HGA_TRY(push_level(p, (grid){.height = height, .width = width, .side_y = patch[l], .side_x = patch[l]}));
    }
    if ((int64_t)height * width > 1)
        HGA_TRY(push_level(p, (grid){.height = 1, .width = 1, .side_y = height, .side_x = width}));
done:
    return st;
}

static void set_pos(float *e, hga_id y, hga_id h, hga_id x, hga_id w)
{
    e[0] = (float)cos(pi * y / h), e[1] = (float)sin(pi * y / h);
    e[2] = (float)cos(pi * x / w), e[3] = (float)sin(pi * x / w);
}

/* The cells below `cell` of level l, row by row, become its children; returns the next free index of level l - 1. */
static hga_id open_cell(const pyramid *p, hga_id l, hga_id index, hga_id cell, hga_id next, hga_id *below, hga_tree *t)
{
    const grid *g = &p->level[l], *finer = &p->level[l - 1];
    int64_t y0 = (int64_t)(cell / g->width) * g->side_y, x0 = (int64_t)(cell % g->width) * g->side_x;
    for (hga_id y = 0; y < g->side_y && y0 + y < finer->height; y++)
        for (hga_id x = 0; x < g->side_x && x0 + x < finer->width; x++) {
            hga_id node = finer->first + next;
            t->parent[node] = g->first + index;
            set_pos(t->pos + (int64_t)node * 4, y, g->side_y, x, g->side_x);
            below[next++] = (hga_id)((y0 + y) * finer->width + x0 + x);
        }
    return next;
}

/* From the root down: cells[i] is the row-major cell at index i of its level. At the end *cells are the pixels'. */
static void open_levels(const pyramid *p, hga_id **cells, hga_id **below, hga_tree *t)
{
    (*cells)[0] = 0;
    for (hga_id l = p->n - 1; l > 0; l--) {
        hga_id n = p->level[l].height * p->level[l].width, next = 0;
        for (hga_id index = 0; index < n; index++) next = open_cell(p, l, index, (*cells)[index], next, *below, t);
        hga_id *swap = *cells;
        *cells = *below, *below = swap;
    }
}

static void name_kinds(const pyramid *p, hga_tree *t)
{
    for (hga_id l = 1; l < p->n; l++)
        memset(t->kind + p->level[l].first, l == p->n - 1 ? 2 : 1,
               (size_t)p->level[l].height * (size_t)p->level[l].width);
    t->kind_name = kinds;
    t->n_kinds = 3;
}

/* Allocates a tree for the pyramid's nodes: pixels are leaves in their order, and the last node is the root. */
static hga_status allocate(const hga_allocator *a, const pyramid *p, hga_tree *t)
{
    hga_status st = HGA_OK;
    t->n = p->n_nodes, t->n_leaves = p->level[0].height * p->level[0].width, t->pos_dim = 4;
    HGA_TRY(hga_new(a, t->n, sizeof *t->parent, &t->parent));
    HGA_TRY(hga_new(a, t->n_leaves, sizeof *t->leaf_node, &t->leaf_node));
    HGA_TRY(hga_new_zero(a, t->n, sizeof *t->kind, &t->kind));
    HGA_TRY(hga_new_zero(a, (int64_t)t->n * 4, sizeof *t->pos, &t->pos));
    for (hga_id i = 0; i < t->n_leaves; i++) t->leaf_node[i] = i;
    t->parent[t->n - 1] = -1;
done:
    return st;
}

hga_status hga_tree_grid(const hga_allocator *a, hga_id height, hga_id width, const hga_id *patch, hga_id n_patch,
                         hga_id *cell, hga_tree *out)
{
    hga_status st = HGA_OK;
    pyramid p = {.n = 0};
    hga_id *cells = NULL, *below = NULL, n = 0;
    memset(out, 0, sizeof *out);
    if (a) out->allocator = *a;
    HGA_TRY(check_grid(height, width, patch, n_patch));
    HGA_TRY(size_levels(height, width, patch, n_patch, &p));
    n = height * width;
    HGA_TRY(allocate(a, &p, out));
    HGA_TRY(hga_new(a, n, sizeof *cells, &cells));
    HGA_TRY(hga_new(a, n, sizeof *below, &below));
    open_levels(&p, &cells, &below, out);
    name_kinds(&p, out);
    if (cell) memcpy(cell, cells, (size_t)n * sizeof *cell);
done:
    hga_delete(a, cells, n, sizeof *cells);
    hga_delete(a, below, n, sizeof *below);
    if (st) hga_tree_clear(out);
    return st;
}
