/* quota.c: the CPU quota of a process's control groups. */
#include "topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first line of a file, without its end; 0 when there is none. */
static int read_line(const char *path, char *line, int bytes)
{
    FILE *f = fopen(path, "re");
    int got = f && fgets(line, bytes, f) != NULL;
    if (f) fclose(f);
    if (got) line[strcspn(line, "\n")] = 0;
    return got;
}

static double ratio(const char *quota, const char *period)
{
    double q = strtod(quota, NULL), p = strtod(period, NULL);
    return q > 0 && p > 0 ? q / p : 0;
}

static double tighter(double a, double b) { return a <= 0 ? b : b <= 0 || a < b ? a : b; }

enum { PATH_BYTES = 4096 };

/* One group of cgroup v2 ("max 100000" or "150000 100000") or v1 (quota -1: none). */
static double group_quota(const char *folder)
{
    char path[PATH_BYTES + 32], quota[64], period[64];
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (read_line(path, quota, sizeof quota)) {
        char *space = strchr(quota, ' ');
        return space ? ratio(quota, space + 1) : 0;
    }
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_line(path, quota, sizeof quota)) return 0;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    return read_line(path, period, sizeof period) ? ratio(quota, period) : 0;
}

/* The tightest quota of a group and all above it up to the mount; a container sees its own group as the mount itself.
   */
static double tightest_above(const char *root, const char *mount, const char *group)
{
    char folder[PATH_BYTES];
    int n = snprintf(folder, sizeof folder, "%s%s%s", root, mount, group);
    size_t top = strlen(root) + strlen(mount);
    double quota = 0;
    if (n < 0 || (size_t)n >= sizeof folder) return 0;
    for (;;) {
        quota = tighter(quota, group_quota(folder));
        char *slash = strrchr(folder, '/');
        if (strlen(folder) <= top || !slash) return quota;
        folder[slash < folder + top ? top : (size_t)(slash - folder)] = 0;
    }
}

/* Whether `cpu` is one of the comma-separated controllers of a v1 line. */
static int names_cpu(const char *controllers, size_t bytes)
{
    for (const char *p = controllers; p < controllers + bytes;) {
        size_t word = strcspn(p, ",:");
        if (word == 3 && memcmp(p, "cpu", 3) == 0) return 1;
        p += word + 1;
    }
    return 0;
}

/* A line of /proc/self/cgroup is "number:controllers:group"; v2's number is 0 and has no controllers. */
static double line_quota(const char *root, char *line)
{
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) return 0;
    controllers++;
    line[strcspn(line, "\n")] = 0;
    size_t bytes = (size_t)(group - controllers);
    if (bytes == 0) return tighter(tightest_above(root, "", group + 1), tightest_above(root, "/unified", group + 1));
    if (!names_cpu(controllers, bytes)) return 0;
    return tighter(tightest_above(root, "/cpu", group + 1), tightest_above(root, "/cpu,cpuacct", group + 1));
}

hga_id topology_paid_for(double quota, hga_id pus)
{
    if (quota <= 0 || quota >= pus) return pus;
    hga_id whole = (hga_id)quota;
    return whole < quota ? whole + 1 : whole;
}

double topology_read_quota(const char *root, const char *self)
{
    char line[PATH_BYTES];
    double quota = tighter(group_quota(root), tightest_above(root, "/cpu", ""));
    FILE *f = fopen(self, "re");
    while (f && fgets(line, sizeof line, f)) quota = tighter(quota, line_quota(root, line));
    if (f) fclose(f);
    return quota;
}
