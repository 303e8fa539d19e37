/* degrees.c: degree statistics and their histogram by powers of two. */
#include "degrees.h"

#include <stdio.h>
#include <stdlib.h>

enum { BUCKETS = 64, NAME = 32 };

static int by_size(const void *a, const void *b)
{
    hga_pos x = *(const hga_pos *)a, y = *(const hga_pos *)b;
    return (x > y) - (x < y);
}

/* Sorted, without the zeros; *n gets how many there are. */
static void sort_degrees(hga_pos *degree, hga_id nodes, hga_id *n)
{
    *n = 0;
    for (hga_id v = 0; v < nodes; v++)
        if (degree[v] > 0) degree[(*n)++] = degree[v];
    qsort(degree, (size_t)*n, sizeof *degree, by_size);
}

/* 1, 2-3, 4-7, .. */
static json_t *histogram(const hga_pos *degree, hga_id n)
{
    json_t *list = json_array();
    for (hga_id i = 0; i < n;) {
        int bits = 0;
        while (bits + 1 < BUCKETS - 1 && degree[i] >> (bits + 1)) bits++;
        hga_id first = i;
        while (i < n && degree[i] >> bits == 1) i++;
        json_array_append_new(list, json_pack("{s:I, s:I, s:i}", "from", (json_int_t)1 << bits, "to",
                                              ((json_int_t)2 << bits) - 1, "nodes", i - first));
    }
    return list;
}

static double mean_of(const hga_pos *degree, hga_id n)
{
    double sum = 0;
    for (hga_id i = 0; i < n; i++) sum += (double)degree[i];
    return n ? sum / n : 0;
}

static double median_of(const hga_pos *degree, hga_id n)
{
    return n ? ((double)degree[(n - 1) / 2] + (double)degree[n / 2]) / 2 : 0;
}

static int set_member(json_t *row, const char *prefix, const char *name, json_t *value)
{
    char key[NAME];
    snprintf(key, sizeof key, "%s_%s", prefix, name);
    return json_object_set_new(row, key, value) == 0 ? CLI_GOOD : complain(CLI_OUTSIDE, "out of memory");
}

int degrees_add(const hga_graph *g, hga_id relation, const char *prefix, json_t *row)
{
    hga_id nodes = hga_graph_nodes(g).n, n;
    hga_pos *degree = NULL;
    int status = CLI_GOOD;
    TRY(take(nodes, sizeof *degree, &degree));
    hga_graph_degrees(g, relation, 0, nodes, degree);
    sort_degrees(degree, nodes, &n);
    TRY(set_member(row, prefix, "nodes", json_integer(n)));
    TRY(set_member(row, prefix, "min", json_integer(n ? degree[0] : 0)));
    TRY(set_member(row, prefix, "mean", json_real(mean_of(degree, n))));
    TRY(set_member(row, prefix, "median", json_real(median_of(degree, n))));
    TRY(set_member(row, prefix, "max", json_integer(n ? degree[n - 1] : 0)));
    TRY(set_member(row, prefix, "histogram", histogram(degree, n)));
done:
    free(degree);
    return status;
}
