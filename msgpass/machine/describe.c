/* describe.c: the machine and the placement of threads, as text and as JSON. */
#include "hga_machine.h"
#include "counted.h"
#include "machine.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The placement of threads. */
typedef struct placement {
    hga_id threads, *domain, *pu; /* [threads] */
    tuned tuning;
} placement;

/* Text that grows; after the first failure nothing more is added. */
typedef struct growing_text {
    char *bytes;
    int64_t used, capacity;
    hga_status st;
} growing_text;

/* Appends a formatted text. */
HGA_PRINTF(2, 3) static void say(growing_text *t, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    if (!t->st) t->st = hga_grow(NULL, &t->bytes, &t->capacity, t->used, t->used + n + 1, 1);
    if (!t->st) vsnprintf(t->bytes + t->used, (size_t)n + 1, format, again), t->used += n;
    va_end(again);
    va_end(args);
}

/* A string of exactly its size, as hga_text_free expects. */
static hga_status take_text(growing_text *t, char **out)
{
    if (!t->st) t->st = hga_new(NULL, t->used + 1, 1, out);
    if (!t->st) memcpy(*out, t->bytes, (size_t)t->used + 1);
    hga_delete(NULL, t->bytes, t->capacity, 1);
    return t->st;
}

/* Numbers as ranges: "0-3 8 10-11". */
static void say_ranges(growing_text *t, const hga_id *x, hga_id n)
{
    for (hga_id i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && x[end] == x[end - 1] + 1;) end++;
        say(t, i ? " %d" : "%d", x[i]);
        if (end - i > 1) say(t, "-%d", x[end - 1]);
    }
}

/* Reports a policy that keeps all memory on one node: threads of other domains read it remotely. */
static void say_memory(growing_text *t, const topology *m)
{
    hga_id node = topology_memory_node(m);
    if (node >= 0 && topology_domains(m) > 1)
        say(t, "memory: on node %d alone, by this process's policy; threads of other domains read it from there\n",
            node);
}

enum { MOST_KINDS = 16, CACHE_LEVELS = 3 };

/* Cores of several kinds, and the smallest cache of each level, where they are known. */
static void say_cores(growing_text *t, const topology *m)
{
    hga_id n_pus[MOST_KINDS], kinds = topology_kinds(m, MOST_KINDS, n_pus), said = 0;
    if (kinds > 1) {
        say(t, "cores of %d kinds, PUs of each, the slowest first:", kinds);
        for (hga_id i = 0; i < kinds; i++) say(t, "%s %d", i ? "," : "", n_pus[i]);
        say(t, "; threads have equal shares of the work, so that fast cores wait for slow ones\n");
    }
    for (hga_id level = 1; level <= CACHE_LEVELS; level++) {
        const topology_cache cache = topology_cache_at(m, level);
        if (!cache.bytes) continue;
        say(t, said++ ? ", L%d %lld kB" : "smallest caches: L%d %lld kB", level, (long long)cache.bytes / 1024);
        if (cache.n_pus > 1) say(t, " for %d PUs", cache.n_pus);
    }
    if (said) say(t, "\n");
}

/* Every domain, with its processors and threads. */
static void say_domains(growing_text *t, const topology *m, const placement *p)
{
    hga_id pus = 0, cores = 0, n = topology_domains(m);
    for (hga_id d = 0; d < n; d++) pus += topology_domain_at(m, d).n_pus, cores += topology_domain_at(m, d).n_cores;
    say(t, "%s: %s, %s, %s", topology_is_this_machine(m) ? "this machine" : "another machine",
        counted(n, "NUMA domain").text, counted(cores, "core").text, counted(pus, "PU").text);
    if (topology_cpu_quota(m) > 0) say(t, ", a quota of %.2f CPUs", topology_cpu_quota(m));
    say(t, "; %s\n", counted(p->threads, "thread").text);
    for (hga_id d = 0, i = 0; d < n; d++) {
        topology_domain domain_d = topology_domain_at(m, d);
        hga_id first = i;
        say(t, "domain %d (node %d): %s, PU%s ", d, domain_d.number, counted(domain_d.n_cores, "core").text,
            domain_d.n_pus == 1 ? "" : "s");
        say_ranges(t, domain_d.pu, domain_d.n_pus);
        while (i < p->threads && p->domain[i] == d) i++;
        if (i == first)
            say(t, "; no threads\n");
        else {
            say(t, i - first > 1 ? "; threads %d-%d on PUs " : "; thread %d on PU ", first, i - 1);
            say_ranges(t, p->pu + first, i - first);
            say(t, "\n");
        }
    }
    say_cores(t, m);
    say_memory(t, m);
    if (topology_is_this_machine(m)) say(t, "processor: %s\n", tuned_say(&p->tuning).text);
}

static json_t *list_json(const hga_id *x, hga_id n)
{
    json_t *list = json_array();
    for (hga_id i = 0; list && i < n; i++) json_array_append_new(list, json_integer(x[i]));
    return list;
}

/* Domain d, whose threads begin at *at, which is moved past them. */
static json_t *domain_json(const topology *m, hga_id d, const placement *p, hga_id *at)
{
    topology_domain one = topology_domain_at(m, d);
    hga_id first = *at;
    while (*at < p->threads && p->domain[*at] == d) ++*at;
    return json_pack("{s:i, s:i, s:i, s:o, s:i, s:o}", "domain", (int)d, "node", (int)one.number, "cores",
                     (int)one.n_cores, "pus", list_json(one.pu, one.n_pus), "first_thread", (int)first, "thread_pus",
                     list_json(p->pu + first, *at - first));
}

/* A quota, rounded to two digits. */
static json_t *quota_json(const topology *m)
{
    double quota = topology_cpu_quota(m);
    return quota > 0 ? json_real(floor(quota * 100) / 100) : json_null();
}

/* PUs of each kind; [] where kinds are not known. */
static json_t *kinds_json(const topology *m)
{
    hga_id n_pus[MOST_KINDS], kinds = topology_kinds(m, MOST_KINDS, n_pus);
    return list_json(n_pus, kinds);
}

/* The smallest cache of each level that is known. */
static json_t *caches_json(const topology *m)
{
    json_t *list = json_array();
    for (hga_id level = 1; list && level <= CACHE_LEVELS; level++) {
        const topology_cache cache = topology_cache_at(m, level);
        if (cache.bytes)
            json_array_append_new(list, json_pack("{s:i, s:I, s:i}", "level", (int)level, "bytes",
                                                  (json_int_t)cache.bytes, "pus", (int)cache.n_pus));
    }
    return list;
}

/* The machine and where the threads of a placement would run. */
static json_t *machine_json(const topology *m, const char *synthetic, const placement *p)
{
    json_t *domains = json_array();
    for (hga_id d = 0, at = 0; domains && d < topology_domains(m); d++)
        json_array_append_new(domains, domain_json(m, d, p, &at));
    hga_id memory = topology_memory_node(m);
    return json_pack("{s:i, s:s?, s:b, s:o, s:i, s:o, s:o, s:o, s:o, s:i, s:o}", "schema", 1, "synthetic", synthetic,
                     "this_machine", topology_is_this_machine(m), "cpu_quota", quota_json(m), "usable",
                     (int)topology_cores(m), "memory_node", memory < 0 ? json_null() : json_integer(memory), "kinds",
                     kinds_json(m), "smallest_caches", caches_json(m), "domains", domains, "threads", (int)p->threads,
                     "tuning", topology_is_this_machine(m) ? tuned_json(&p->tuning) : json_null());
}

/* Appends the machine as JSON text to t, which records failures. */
static void say_json(growing_text *t, const topology *m, const char *synthetic, const placement *p)
{
    json_t *j = machine_json(m, synthetic, p);
    char *dump = j ? json_dumps(j, JSON_REAL_PRECISION(6)) : NULL;
    json_decref(j);
    if (dump)
        say(t, "%s\n", dump);
    else if (!t->st)
        t->st = hga_fail(HGA_ENOMEM, "the machine's text cannot be made");
    free(dump);
}

/* Places the threads, then writes it all as JSON or text. */
hga_status topology_describe(const topology *m, const char *synthetic, hga_id threads, hga_format format, char **out)
{
    hga_status st = HGA_OK;
    placement p = {.threads = threads ? threads : topology_cores(m)};
    growing_text t = {0};
    HGA_TRY(isa_tuning(&p.tuning));
    HGA_TRY(hga_new(NULL, p.threads, sizeof *p.domain, &p.domain));
    HGA_TRY(hga_new(NULL, p.threads, sizeof *p.pu, &p.pu));
    topology_locate(m, p.threads, p.domain, p.pu);
    if (format == HGA_JSON)
        say_json(&t, m, synthetic, &p);
    else
        say_domains(&t, m, &p);
    HGA_TRY(take_text(&t, out));
done:
    hga_delete(NULL, p.domain, p.threads, sizeof *p.domain);
    hga_delete(NULL, p.pu, p.threads, sizeof *p.pu);
    return st;
}

hga_status hga_topology_describe(const char *synthetic, hga_id threads, hga_format format, char **out)
{
    topology *m = NULL;
    if (!out) return hga_fail(HGA_EINVAL, "topology: nowhere to put the text");
    *out = NULL;
    if (threads < 0 || threads > 1 << 20) return hga_fail(HGA_EINVAL, "topology: %d threads", threads);
    if (format > HGA_JSON) return hga_fail(HGA_EINVAL, "topology: format %d", (int)format);
    hga_status st = topology_open(synthetic, &m);
    if (!st) st = topology_describe(m, synthetic, threads, format, out);
    topology_close(m);
    return st;
}
