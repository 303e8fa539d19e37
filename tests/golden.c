/* golden.c: reads golden cases, case.json through jansson and .npy (version 1, little endian, C order) by hand. */
#include "testing.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARRAYS = 32, MAX_AXES = 6, MAX_CASES = 256 };

typedef struct array {
    char name[64], kind[4]; /* "<f4", "<f8" or "<i4" without the sign of order */
    int n_axes;
    int64_t extent[MAX_AXES], n;
    void *data;
} array;

struct golden {
    char folder[512];
    json_t *json;
    array array[MAX_ARRAYS];
    int n_arrays;
};

/* ---- .npy ---- */

/* The extents in a header's "(3, 4, )". */
static void read_extents(const char *text, array *a)
{
    const char *at = strchr(text, '(');
    a->n = 1;
    while (at && at[1] != ')' && a->n_axes < MAX_AXES) {
        char *end;
        long long extent = strtoll(at + 1, &end, 10);
        if (end == at + 1) break;
        a->extent[a->n_axes++] = extent;
        a->n *= extent;
        at = *end == ',' ? end : NULL;
    }
}

static void read_header(FILE *file, const char *path, array *a)
{
    unsigned char start[10];
    char text[1024];
    if (fread(start, 1, 10, file) != 10 || memcmp(start, "\x93NUMPY\x01", 7) != 0)
        fail_msg("%s is not a .npy of version 1", path);
    size_t length = start[8] + 256u * start[9];
    if (length >= sizeof text || fread(text, 1, length, file) != length)
        fail_msg("%s: header of %zu bytes", path, length);
    text[length] = 0;
    const char *descr = strstr(text, "'descr': '<"), *shape = strstr(text, "'shape': ");
    if (!descr || !shape || !strstr(text, "'fortran_order': False")) fail_msg("%s: header %s", path, text);
    const char *kind = descr + strlen("'descr': '<");
    a->kind[0] = kind[0], a->kind[1] = kind[1];
    read_extents(shape, a);
}

static void read_array(const char *path, array *a)
{
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("cannot open %s", path);
    read_header(file, path, a);
    size_t size = (size_t)(a->kind[1] - '0');
    a->data = memory(a->n, size);
    if (fread(a->data, size, (size_t)a->n, file) != (size_t)a->n) fail_msg("%s is short", path);
    fclose(file);
}

/* ---- cases ---- */

golden *golden_open(const char *family, const char *name)
{
    golden *c = memory(1, sizeof *c);
    char path[600];
    json_error_t error;
    snprintf(c->folder, sizeof c->folder, "%s/%s/%s", HGA_GOLDEN, family, name);
    snprintf(path, sizeof path, "%s/case.json", c->folder);
    c->json = json_load_file(path, 0, &error);
    if (!c->json) fail_msg("%s: %s", path, error.text);
    return c;
}

void golden_close(golden *c)
{
    json_decref(c->json);
    for (int i = 0; i < c->n_arrays; i++) free(c->array[i].data);
    free(c);
}

static json_t *member(const golden *c, const char *key)
{
    json_t *m = json_object_get(c->json, key);
    if (!m) fail_msg("%s has no member %s", c->folder, key);
    return m;
}

int64_t golden_int(const golden *c, const char *key) { return json_integer_value(member(c, key)); }

int golden_true(const golden *c, const char *key) { return json_is_true(member(c, key)); }

const char *golden_text(const golden *c, const char *key) { return json_string_value(member(c, key)); }

double golden_number(const golden *c, const char *key, double fallback)
{
    json_t *m = json_object_get(c->json, key);
    return json_is_number(m) ? json_number_value(m) : fallback;
}

int golden_member(const golden *c, const char *key) { return json_object_get(c->json, key) != NULL; }

int64_t golden_list(const golden *c, const char *key, hga_id *out, int64_t capacity)
{
    json_t *list = member(c, key);
    int64_t n = (int64_t)json_array_size(list);
    assert_true(n <= capacity);
    for (int64_t i = 0; i < n; i++) out[i] = (hga_id)json_integer_value(json_array_get(list, (size_t)i));
    return n;
}

double golden_tolerance(const golden *c)
{
    return json_number_value(json_object_get(member(c, "tolerance"), "float32_compute_max_abs"));
}

uint64_t golden_seed(const golden *c)
{
    const char *at = strstr(golden_text(c, "inputs"), "seeds ");
    if (!at) fail_msg("%s tells no seeds", c->folder);
    return strtoull(at + strlen("seeds "), NULL, 10);
}

int golden_has(const golden *c, const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s.npy", c->folder, name);
    FILE *file = fopen(path, "rb");
    if (file) fclose(file);
    return file != NULL;
}

/* The array of that name, read at the first use. */
static const array *find_array(golden *c, const char *name)
{
    for (int i = 0; i < c->n_arrays; i++)
        if (strcmp(c->array[i].name, name) == 0) return c->array + i;
    char path[600];
    snprintf(path, sizeof path, "%s/%s.npy", c->folder, name);
    assert_true(c->n_arrays < MAX_ARRAYS);
    array *a = c->array + c->n_arrays++;
    snprintf(a->name, sizeof a->name, "%s", name);
    read_array(path, a);
    return a;
}

int64_t golden_dim(golden *c, const char *name, int axis)
{
    const array *a = find_array(c, name);
    if (axis >= a->n_axes) fail_msg("%s/%s has %d axes", c->folder, name, a->n_axes);
    return a->extent[axis];
}

int64_t golden_count(golden *c, const char *name) { return find_array(c, name)->n; }

static const void *data_of(golden *c, const char *name, const char *kind)
{
    const array *a = find_array(c, name);
    if (strcmp(a->kind, kind) != 0) fail_msg("%s/%s is %s, not %s", c->folder, name, a->kind, kind);
    return a->data;
}

const float *golden_floats(golden *c, const char *name) { return data_of(c, name, "f4"); }

const double *golden_doubles(golden *c, const char *name) { return data_of(c, name, "f8"); }

const int32_t *golden_ints(golden *c, const char *name) { return data_of(c, name, "i4"); }

/* ---- comparing ---- */

static void compare_sum(const golden *c, const char *key, const char *name, double got, double tolerance)
{
    double want = json_number_value(json_object_get(member(c, key), name));
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s: %s is %.12g, not %.12g (tolerance %.3g)", c->folder, name, got, want, tolerance);
}

void assert_golden_checksums(const golden *c, const char *key, const float *x, int64_t n)
{
    double sum = 0, sum_abs = 0, sum_sq = 0, max_abs = 0, dot = 0;
    float *weight = random_floats(999, 1, n);
    for (int64_t i = 0; i < n; i++) {
        double value = x[i];
        sum += value, sum_abs += fabs(value), sum_sq += value * value, max_abs = fmax(max_abs, fabs(value)),
                                                                       dot += value * weight[i];
    }
    free(weight);
    double each = golden_tolerance(c), all = each * sqrt((double)n); /* roundings of n values go both ways */
    compare_sum(c, key, "sum", sum, all);
    compare_sum(c, key, "sum_abs", sum_abs, all);
    compare_sum(c, key, "sum_sq", sum_sq, 2 * max_abs * all);
    compare_sum(c, key, "max_abs", max_abs, each);
    compare_sum(c, key, "dot_with_splitmix_seed999", dot, all);
}

void assert_golden_rows(golden *c, const char *want, const float *x, int64_t columns)
{
    const int32_t *rows = golden_ints(c, "rows");
    for (int64_t i = 0; i < golden_count(c, "rows"); i++)
        assert_near(want, x + rows[i] * columns, golden_doubles(c, want) + i * columns, columns, golden_tolerance(c));
}

/* ---- one cmocka test a case ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct CMUnitTest *)a)->name, ((const struct CMUnitTest *)b)->name);
}

int golden_run(const char *family, const char *prefix, CMUnitTestFunction each)
{
    static char names[MAX_CASES][96];
    struct CMUnitTest test[MAX_CASES];
    char path[512];
    size_t n = 0;
    snprintf(path, sizeof path, "%s/%s", HGA_GOLDEN, family);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && n < MAX_CASES && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.' || strncmp(entry->d_name, prefix, strlen(prefix)) != 0) continue;
        snprintf(names[n], sizeof names[n], "%.90s", entry->d_name);
        test[n] = (struct CMUnitTest){.name = names[n], .test_func = each, .initial_state = names[n]};
        n++;
    }
    if (folder) closedir(folder);
    if (n == 0) return 1;
    qsort(test, n, sizeof *test, by_name);
    return _cmocka_run_group_tests(family, test, n, NULL, NULL);
}
