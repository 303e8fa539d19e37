/* fuzz.c: choices, memory and files. */
#define _GNU_SOURCE
#include "fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const hga_graph *graph;
static const hga_program *program;

void fuzz_set_input(const hga_graph *g, const hga_program *p) { graph = g, program = p; }

static void describe(void)
{
    hga_nodes nodes = hga_graph_nodes(graph);
    fprintf(stderr, "%d nodes, levels at", nodes.n);
    for (hga_id l = 0; l <= nodes.n_levels; l++) fprintf(stderr, " %d", nodes.level_ptr[l]);
    fprintf(stderr, "; queries %d + %d, keys %d + %d\n", nodes.query_first, nodes.n_queries, nodes.key_first,
            nodes.n_keys);
    for (hga_id r = 0; r < nodes.n_relations; r++) {
        hga_relation x = hga_graph_relation(graph, r);
        fprintf(stderr, "relation %d %s: %lld edges, %lld blocks\n", r, x.name, (long long)x.n_edges,
                (long long)x.n_blocks);
    }
    for (hga_id f = 1; f <= program->n_fields; f++) {
        const hga_field *x = &program->field[f];
        fprintf(stderr, "field %d %s: width %d binding %d io %d rows %d\n", f, x->name, (int)x->width, (int)x->binding,
                (int)x->io, (int)x->rows);
    }
    for (hga_id i = 0; i < program->n_stages; i++) {
        const hga_stage *s = &program->stage[i];
        fprintf(stderr, "stage %d %s: relation %d order %d by_mass %d reads %x writes %x\n", i, s->name, s->relation,
                (int)s->order, s->by_mass, s->reads, s->writes);
    }
}

void fuzz_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (program) describe();
    fputs("fuzz: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

hga_id choose(choices *c, hga_id n)
{
    uint32_t x = 0;
    if (n <= 1) return 0;
    for (hga_id reach = 1; reach < n && c->at<c->size; reach = reach> n / 256 ? n : reach * 256)
        x = x << 8 | c->data[c->at++];
    return (hga_id)(x % (uint32_t)n);
}

int rarely(choices *c, hga_id n) { return choose(c, n) == n - 1; }

void fuzz_memory_end(const filling *f, const char *who)
{
    if (f->live) fuzz_fail("%s left %lld blocks", who, (long long)f->live);
}

const char *fuzz_file(const uint8_t *data, size_t size)
{
    static int file = -1;
    static char path[64];
    if (file < 0) {
        file = memfd_create("fuzz", 0);
        if (file < 0) fuzz_fail("no memory file");
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    if (ftruncate(file, 0) || pwrite(file, data, size, 0) != (ssize_t)size) fuzz_fail("the memory file is not written");
    return path;
}

static char scratch[64];

static void remove_scratch(void) { unlink(scratch); }

const char *fuzz_scratch(void)
{
    if (!scratch[0]) {
        snprintf(scratch, sizeof scratch, "%s/fuzz-%ld.json", access("/dev/shm", W_OK) ? "." : "/dev/shm",
                 (long)getpid());
        atexit(remove_scratch);
    }
    return scratch;
}
