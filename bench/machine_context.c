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

/* On ARM cores have numbers for names, "CPU implementer : 0x41", "CPU part : 0xd49": those of each kind once, as
   "0x41 0xd49". */
static void add_core(const char *implementer, const char *part, bench_context *out)
{
    char core[32];
    const size_t at = strlen(out->cpu);
    snprintf(core, sizeof core, "%.10s %.10s", implementer, part);
    if (strstr(out->cpu, core)) return;
    snprintf(out->cpu + at, sizeof out->cpu - at, "%s%s", at ? ", " : "ARM cores ", core);
}

/* "model name : X", "cpu MHz : Y" of the first core */
void bench_context_cpu(const char *path, bench_context *out)
{
    char line[256], implementer[16] = "";
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        const char *value = strchr(line, ':');
        line[strcspn(line, "\n")] = 0;
        if (!value || line[0] == 0) continue;
        value += strspn(value, ": ");
        if (strncmp(line, "model name", 10) == 0 && !out->cpu[0]) snprintf(out->cpu, sizeof out->cpu, "%.127s", value);
        if (strncmp(line, "CPU implementer", 15) == 0) snprintf(implementer, sizeof implementer, "%.15s", value);
        if (strncmp(line, "CPU part", 8) == 0) add_core(implementer, value, out);
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
    bench_context_cpu("/proc/cpuinfo", out);
    read_line(CPU0 "cpufreq/scaling_governor", sizeof out->governor, out->governor);
    if (getloadavg(out->load, 3) != 3) memset(out->load, 0, sizeof out->load);
    while (out->n_caches < BENCH_MAX_CACHES && read_cache(out->n_caches, &out->cache[out->n_caches])) out->n_caches++;
}
