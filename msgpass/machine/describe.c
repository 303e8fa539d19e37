/* describe.c: the machine in words and as JSON, and where threads would go. */
#include "hga_machine.h"
#include "topology.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Text that grows; after the first failure nothing more is added. */
typedef struct text {
    char *bytes;
    int64_t used, room;
    hga_status st;
} text;

HGA_PRINTF(2, 3) static void say(text *t, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    if (!t->st) t->st = hga_grow(NULL, &t->bytes, &t->room, t->used, t->used + n + 1, 1);
    if (!t->st) vsnprintf(t->bytes + t->used, (size_t)n + 1, format, again), t->used += n;
    va_end(again);
    va_end(args);
}

/* A string of exactly its size, as hga_text_free expects. */
static hga_status take(text *t, char **out)
{
    if (!t->st) t->st = hga_new(NULL, t->used + 1, 1, out);
    if (!t->st) memcpy(*out, t->bytes, (size_t)t->used + 1);
    hga_delete(NULL, t->bytes, t->room, 1);
    return t->st;
}

/* Numbers as ranges: "0-3 8 10-11". */
static void say_ranges(text *t, const hga_id *x, hga_id n)
{
    for (hga_id i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && x[end] == x[end - 1] + 1;) end++;
        say(t, i ? " %d" : "%d", x[i]);
        if (end - i > 1) say(t, "-%d", x[end - 1]);
    }
}

static void say_list(text *t, const hga_id *x, hga_id n)
{
    say(t, "[");
    for (hga_id i = 0; i < n; i++) say(t, i ? ", %d" : "%d", x[i]);
    say(t, "]");
}

static void say_quoted(text *t, const char *s)
{
    say(t, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            say(t, "\\%c", c);
        else if (c < 0x20)
            say(t, "\\u%04x", c);
        else
            say(t, "%c", c);
    }
    say(t, "\"");
}

static void say_domains(text *t, const topology *m, const hga_id *domain, const hga_id *pu, hga_id threads)
{
    hga_id pus = 0, cores = 0, n = topology_domains(m);
    for (hga_id d = 0; d < n; d++) pus += topology_domain_at(m, d).n_pus, cores += topology_domain_at(m, d).n_cores;
    say(t, "%s: %d NUMA domain%s, %d cores, %d PUs",
        topology_is_this_machine(m) ? "this machine" : "a synthetic machine", n, n == 1 ? "" : "s", cores, pus);
    if (topology_cpu_quota(m) > 0) say(t, ", a quota of %.2f CPUs", topology_cpu_quota(m));
    say(t, "; %d threads\n", threads);
    for (hga_id d = 0, i = 0; d < n; d++) {
        topology_domain domain_d = topology_domain_at(m, d);
        hga_id first = i;
        say(t, "domain %d (node %d): %d cores, PUs ", d, domain_d.number, domain_d.n_cores);
        say_ranges(t, domain_d.pu, domain_d.n_pus);
        while (i < threads && domain[i] == d) i++;
        if (i == first)
            say(t, "; no threads\n");
        else {
            say(t, i - first > 1 ? "; threads %d-%d on PUs " : "; thread %d on PU ", first, i - 1);
            say_ranges(t, pu + first, i - first);
            say(t, "\n");
        }
    }
}

static void say_json(text *t, const topology *m, const char *synthetic, const hga_id *domain, const hga_id *pu,
                     hga_id threads)
{
    say(t, "{\"schema\": 1, \"synthetic\": ");
    if (synthetic)
        say_quoted(t, synthetic);
    else
        say(t, "null");
    say(t, ", \"this_machine\": %s, \"cpu_quota\": ", topology_is_this_machine(m) ? "true" : "false");
    if (topology_cpu_quota(m) > 0)
        say(t, "%d.%02d", (int)topology_cpu_quota(m), (int)(topology_cpu_quota(m) * 100) % 100);
    else
        say(t, "null");
    say(t, ", \"usable\": %d, \"domains\": [", topology_cores(m));
    for (hga_id d = 0, i = 0; d < topology_domains(m); d++) {
        topology_domain domain_d = topology_domain_at(m, d);
        hga_id first = i;
        while (i < threads && domain[i] == d) i++;
        say(t, "%s\n {\"domain\": %d, \"node\": %d, \"cores\": %d, \"pus\": ", d ? "," : "", d, domain_d.number,
            domain_d.n_cores);
        say_list(t, domain_d.pu, domain_d.n_pus);
        say(t, ", \"first_thread\": %d, \"thread_pus\": ", first);
        say_list(t, pu + first, i - first);
        say(t, "}");
    }
    say(t, "],\n \"threads\": %d}\n", threads);
}

static hga_status describe(const char *synthetic, hga_id threads, int json, char **out)
{
    hga_status st = HGA_OK;
    topology *m = NULL;
    hga_id *domain = NULL, *pu = NULL;
    text t = {0};
    if (!out) return hga_fail(HGA_EINVAL, "topology: nowhere to put the text");
    *out = NULL;
    if (threads < 0 || threads > 1 << 20) return hga_fail(HGA_EINVAL, "topology: %d threads", threads);
    HGA_TRY(topology_open(synthetic, &m));
    if (threads == 0) threads = topology_cores(m);
    HGA_TRY(hga_new(NULL, threads, sizeof *domain, &domain));
    HGA_TRY(hga_new(NULL, threads, sizeof *pu, &pu));
    topology_place(m, threads, domain, pu);
    if (json)
        say_json(&t, m, synthetic, domain, pu, threads);
    else
        say_domains(&t, m, domain, pu, threads);
    HGA_TRY(take(&t, out));
done:
    hga_delete(NULL, domain, threads, sizeof *domain);
    hga_delete(NULL, pu, threads, sizeof *pu);
    topology_close(m);
    return st;
}

hga_status hga_topology_describe(const char *synthetic, hga_id threads, char **out)
{
    return describe(synthetic, threads, 0, out);
}

hga_status hga_topology_describe_json(const char *synthetic, hga_id threads, char **out)
{
    return describe(synthetic, threads, 1, out);
}
