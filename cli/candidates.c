/* candidates.c: the sweeps of the registry, written out. */
#include "candidates.h"

#include <stdio.h>
#include <string.h>

#include "arguments.h"
#include "variant.h"

enum { LEAST_LEAF = 4 };

static int is_tree(const hga_variant *v) { return (v->can & HGA_NEEDS_LEAVES) != 0; }

int candidate_routes(const candidate *c) { return is_tree(c->row); }

/* ---- the list ---- */

/* variants with settings worth comparing */
static int list_names(char *names, size_t room)
{
    size_t used = 0;
    names[0] = 0;
    for (const hga_variant *v = hga_variants(); v->name; v++)
        if (v->sweeps) used += (size_t)snprintf(names + used, room - used, "%s%s", used ? " " : "", v->name);
    return used < room;
}

static int fits_order(const hga_variant *v, int causal)
{
    return causal ? (v->can & (HGA_CAN_CAUSAL | HGA_ALWAYS_CAUSAL)) != 0 : !(v->can & HGA_ALWAYS_CAUSAL);
}

static int check_names(const char *list, int causal)
{
    char names[512];
    list_names(names, sizeof names);
    for (const char *c = list;; c += strcspn(c, ",") + 1) {
        char name[32];
        size_t length = strcspn(c, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, c);
        const hga_variant *v = length < sizeof name ? hga_variant_named(name) : NULL;
        if (!v || !v->sweeps) return complain(CLI_USAGE, "--variants: '%.*s' is not one of: %s", (int)length, c, names);
        if (!fits_order(v, causal))
            return complain(CLI_USAGE, "--variants: %s %s", v->name,
                            causal ? "cannot be causal" : "is always causal; say --causal");
        if (!c[length]) return CLI_GOOD;
    }
}

/* a candidate sees less than all there is */
static int makes_sense(const hga_variant *v, const hga_sweep *s, hga_id x, hga_id n)
{
    if (is_tree(v)) return n >> x >= LEAST_LEAF;
    return (int64_t)s->covers * x < n;
}

/* the row's text with x in each place of a number */
static void write_parameters(const char *text, hga_id x, int causal, char out[static PARAMETERS_ROOM])
{
    int used = 0;
    out[0] = 0;
    for (const char *c = text; *c && used < PARAMETERS_ROOM; c++)
        used += *c == '#' ? snprintf(out + used, (size_t)(PARAMETERS_ROOM - used), "%d", x)
                          : snprintf(out + used, (size_t)(PARAMETERS_ROOM - used), "%c", *c);
    if (causal && used < PARAMETERS_ROOM)
        snprintf(out + used, (size_t)(PARAMETERS_ROOM - used), "%scausal=1", used ? " " : "");
}

/* hyperplanes through medians, or in random places, are the tool's own choice */
static candidate candidate_of(const hga_variant *v, const hga_sweep *s, hga_id x, int causal, int medians)
{
    candidate c = {.variant = v->name, .row = v, .causal = causal, .medians = medians};
    char text[PARAMETERS_ROOM];
    const char *split = !is_tree(v) ? "" : medians ? " split=median" : " split=random";
    snprintf(text, sizeof text, "%s%s", s->words, split);
    if (is_tree(v)) c.height = x;
    write_parameters(text, x, causal && v->can & HGA_CAN_CAUSAL, c.parameters);
    return c;
}

static void add_sweep(const hga_variant *v, const hga_sweep *s, hga_id n, int causal, int medians, candidate *out,
                      int *n_out)
{
    enum { MOST = sizeof s->x / sizeof *s->x };
    if (!s->x[0] && *n_out < MAX_CANDIDATES) out[(*n_out)++] = candidate_of(v, s, 0, causal, medians);
    for (int i = 0; i < MOST && s->x[i]; i++)
        if (makes_sense(v, s, s->x[i], n) && *n_out < MAX_CANDIDATES)
            out[(*n_out)++] = candidate_of(v, s, s->x[i], causal, medians);
}

int candidates_list(const char *variants, hga_id n, int causal, candidate out[static MAX_CANDIDATES], int *n_out)
{
    *n_out = 0;
    int status = variants ? check_names(variants, causal) : CLI_GOOD;
    if (status) return status;
    for (const hga_variant *v = hga_variants(); v->name; v++) {
        if (v != hga_variants() && variants && !variant_listed(variants, v)) continue;
        if (!v->sweeps || !fits_order(v, causal)) continue;
        for (int medians = is_tree(v); medians >= 0; medians--)
            for (const hga_sweep *s = v->sweeps; s->words; s++) add_sweep(v, s, n, causal, medians, out, n_out);
    }
    return CLI_GOOD;
}

/* ---- graphs ---- */

static int build_tree(const candidate *c, const scene *s, hga_graph **g, hga_program *p)
{
    hga_treeformer t = scene_treeformer(s);
    t.causal = c->causal;
    return complain_of(c->row->build(&t, g, p), CLI_OUTSIDE, c->variant);
}

int candidate_build(const candidate *c, const scene *s, hga_graph **g, hga_program *p)
{
    return candidate_routes(c) ? build_tree(c, s, g, p) : scene_build(s, c->variant, c->parameters, g, p);
}
