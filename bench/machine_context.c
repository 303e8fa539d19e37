/* machine_context.c: Linux's files about the machine and its load. */
#include "machine_context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CPU0 "/sys/devices/system/cpu/cpu0/"

/* the first line of a file; "": none */
static void read_line(const char *path, int capacity, char *text)
{
    FILE *file = fopen(path, "r");
    text[0] = 0;
    if (file && fgets(text, capacity, file)) text[strcspn(text, "\n")] = 0;
    if (file) fclose(file);
}

/* "model name : X", "cpu MHz : Y" of the first core */
static void read_cpu(bench_context *out)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file)) {
        const char *value = strchr(line, ':');
        line[strcspn(line, "\n")] = 0;
        if (!value || line[0] == 0) continue;
        value += strspn(value, ": ");
        if (strncmp(line, "model name", 10) == 0 && !out->cpu[0]) snprintf(out->cpu, sizeof out->cpu, "%.127s", value);
        if (strncmp(line, "cpu MHz", 7) == 0 && out->mhz <= 0) out->mhz = strtod(value, NULL);
    }
    if (file) fclose(file);
}

/* cores in a list such as 0-3,8 */
static int count_cores(const char *list)
{
    int n = 0;
    while (*list) {
        char *end;
        long first = strtol(list, &end, 10), last = first;
        if (end == list) break;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        n += (int)(last - first) + 1;
        list = *end == ',' ? end + 1 : end;
    }
    return n;
}

/* "48K", "2M" */
static long long bytes_of(const char *text)
{
    char *unit;
    long long n = strtoll(text, &unit, 10);
    return *unit == 'K' ? n << 10 : *unit == 'M' ? n << 20 : n;
}

static int read_cache(int i, bench_cache *out)
{
    char path[96], text[64];
    snprintf(path, sizeof path, CPU0 "cache/index%d/size", i);
    read_line(path, sizeof text, text);
    if (!text[0]) return 0;
    out->bytes = bytes_of(text);
    snprintf(path, sizeof path, CPU0 "cache/index%d/level", i);
    read_line(path, sizeof text, text);
    out->level = (int)strtol(text, NULL, 10);
    snprintf(path, sizeof path, CPU0 "cache/index%d/type", i);
    read_line(path, sizeof out->type, out->type);
    snprintf(path, sizeof path, CPU0 "cache/index%d/shared_cpu_list", i);
    read_line(path, sizeof text, text);
    out->sharing = count_cores(text);
    return 1;
}

void bench_context_read(bench_context *out)
{
    *out = (bench_context){.cores = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    read_cpu(out);
    read_line(CPU0 "cpufreq/scaling_governor", sizeof out->governor, out->governor);
    if (getloadavg(out->load, 3) != 3) memset(out->load, 0, sizeof out->load);
    while (out->n_caches < BENCH_MAX_CACHES && read_cache(out->n_caches, &out->cache[out->n_caches])) out->n_caches++;
}
