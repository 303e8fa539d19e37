/* jax_plans.c: plans of XLA's calls, made of what a program says of them. */
#define _GNU_SOURCE
#include "jax.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static hga_status write_text(int file, const char *text, int64_t bytes)
{
    while (bytes > 0) {
        ssize_t some = write(file, text, (size_t)bytes);
        if (some <= 0) return hga_fail(HGA_ENOMEM, "no memory for a hierarchy of %lld bytes", (long long)bytes);
        text += some, bytes -= some;
    }
    return HGA_OK;
}

/* A graph and its program from text, through a file in memory, for the library reads files. */
static hga_status read_hierarchy(const hga_py_kind *kind, hga_graph **graph, hga_program *program)
{
    char path[32];
    int file = memfd_create("hierarchy", MFD_CLOEXEC);
    if (file < 0)
        return hga_fail(HGA_ENOMEM, "no memory for a hierarchy of %lld bytes", (long long)kind->hierarchy_bytes);
    snprintf(path, sizeof path, "/dev/fd/%d", file);
    hga_status st = write_text(file, kind->hierarchy, kind->hierarchy_bytes);
    if (!st) st = hga_program_read_file(NULL, path, graph, program);
    close(file);
    return st;
}

/* The plan that a kind's numbers describe. */
static hga_status make_plan(const void *of, hga_plan **out)
{
    const hga_py_kind *kind = of;
    const int64_t *n = kind->number;
    hga_graph *graph = NULL;
    hga_program program;
    char isa[32] = "";
    hga_shape shape = {.n_heads = (hga_id)n[HGA_PY_HEADS],
                       .n_kv_heads = (hga_id)n[HGA_PY_KV_HEADS],
                       .dim = (hga_id)n[HGA_PY_DIM],
                       .dim_v = (hga_id)n[HGA_PY_DIM_V],
                       .pos_dim = (hga_id)n[HGA_PY_POS_DIM]};
    hga_options options = {.threads = (hga_id)n[HGA_PY_THREADS],
                           .bind = (int)n[HGA_PY_BIND],
                           .strict_rows = n[HGA_PY_STRICT],
                           .precision = (hga_precision)n[HGA_PY_PRECISION],
                           .generic = (int)n[HGA_PY_GENERIC],
                           .gradient = (int)n[HGA_PY_GRADIENT],
                           .dropout = (float)kind->dropout};
    if (kind->isa_bytes >= (int64_t)sizeof isa)
        return hga_fail(HGA_EINVAL, "the name of the instruction set has %lld bytes", (long long)kind->isa_bytes);
    memcpy(isa, kind->isa, (size_t)kind->isa_bytes);
    options.isa = *isa ? isa : NULL;
    hga_status st = read_hierarchy(kind, &graph, &program);
    if (!st) st = hga_plan_create(graph, &program, &shape, &options, out);
    hga_graph_destroy(graph); /* the plan has one, too */
    return st;
}

hga_status hga_py_cache(const hga_py_kind *kind, hga_py_cached **out)
{
    const int64_t *key = &kind->number[HGA_PY_KEY];
    return hga_py_share(&(hga_py_maker){{key[0], key[1]}, make_plan, kind}, out);
}

hga_status hga_py_tape_bytes(const hga_py_kind *kind, int64_t *bytes)
{
    hga_py_cached *cached;
    hga_status st = hga_py_cache(kind, &cached);
    if (st) return st;
    *bytes = hga_py_tape_of(hga_py_cached_plan(cached));
    hga_py_release(cached);
    return HGA_OK;
}
