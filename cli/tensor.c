/* tensor.c: hga tensor, lists the arrays of a file; or writes a file of random numbers. */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "command.h"
#include "complain.h"
#include "npy.h"
#include "numbers.h"
#include "table.h"

/* ---- random numbers ---- */

/* "8191x8x64" */
static int read_shape(const char *text, int *n_dims, int64_t dim[static NPY_MAX_DIMS], int64_t *count)
{
    const char *at = text;
    *n_dims = 0, *count = 1;
    do {
        char *end;
        errno = 0;
        long long n = *at >= '0' && *at <= '9' ? strtoll(at, &end, 10) : 0;
        if (n < 1) return complain(CLI_USAGE, "--random: '%s' is not a shape such as 8191x8x64", text);
        if (*n_dims == NPY_MAX_DIMS)
            return complain(CLI_USAGE, "--random: %s has over %d dimensions", text, NPY_MAX_DIMS);
        if (errno || __builtin_mul_overflow(*count, (int64_t)n, count) || *count > INT64_MAX / (int64_t)sizeof(float))
            return complain(CLI_USAGE, "--random: %s has more numbers than memory has addresses", text);
        dim[(*n_dims)++] = n;
        at = end;
    } while (*at == 'x' && at++);
    return *at ? complain(CLI_USAGE, "--random: '%s' is not a shape such as 8191x8x64", text) : CLI_GOOD;
}

/* Two at a time (Box and Muller 1958), from two uniform numbers of which the first is not 0. */
static void fill_normal(uint64_t seed, int64_t n, float *x)
{
    const double unit = 0x1p-53, turn = 6.283185307179586;
    for (int64_t i = 0; i < n; i += 2) {
        double u = ((double)(number_bits(seed, (uint64_t)i) >> 11) + 1) * unit;
        double angle = turn * (double)(number_bits(seed, (uint64_t)i + 1) >> 11) * unit, length = sqrt(-2 * log(u));
        x[i] = (float)(length * cos(angle));
        if (i + 1 < n) x[i + 1] = (float)(length * sin(angle));
    }
}

/* Write a float32 .npy of standard normal numbers. `shape` is "8191x8x64", up to eight dimensions from 1 on; the same
   shape and seed give the same numbers on every machine with the same C library. */
static int random_tensor_write(const char *shape, int64_t seed, const char *path)
{
    int status = CLI_GOOD, n_dims;
    int64_t dim[NPY_MAX_DIMS], count;
    float *x = NULL;
    outfile out = {0};
    TRY(read_shape(shape, &n_dims, dim, &count));
    x = malloc((size_t)count * sizeof *x);
    if (!x) TRY(complain(CLI_OUTSIDE, "out of memory: %s takes %lld bytes", shape, (long long)count * 4));
    fill_normal((uint64_t)seed, count, x);
    TRY(outfile_open(path, &out));
    TRY(npy_write_as(&out, ELEMENT_F32, x, n_dims, dim));
    TRY(outfile_flush(&out));
    TRY(outfile_keep(&out));
done:
    outfile_drop(&out);
    free(x);
    return status;
}

typedef struct arguments {
    const char *path, *random, *output;
    int64_t seed;
    int json;
} arguments;

/* Checks that a file is read, or one of random numbers is written. */
static int check_arguments(void *input)
{
    const arguments *a = input;
    if (!a->random && (a->output || arguments_present("seed")))
        return complain(CLI_USAGE, "tensor: %s is for --random", a->output ? "--output" : "--seed");
    if (!a->random && !a->path) return complain(CLI_USAGE, "tensor: FILE is missing");
    if (a->random && (a->path || a->json))
        return complain(CLI_USAGE, "tensor: --random writes a file, and %s", a->path ? "reads none" : "prints nothing");
    if (a->random && !a->output) return complain(CLI_USAGE, "tensor: --random needs --output FILE");
    return CLI_GOOD;
}

static int take_path(char *word, void *input) { return take_once(word, &((arguments *)input)->path); }

static const option_row options[] = {
    {"json", FLAG(arguments, json), NULL, 0, "as JSON", 0},
    {"random", TEXT(arguments, random), "SHAPE", 0,
     "instead of reading: write float32 numbers, standard normal; SHAPE is 8191x8x64", 0},
    {"seed", WHOLE(arguments, seed, 0, INT64_MAX), "N", 0, "with --random: seed of the numbers (default: 0)", 0},
    {"output,o", TEXT(arguments, output), "FILE", 0, "with --random: the .npy file to write", 0},
    {0}};

static const char doc[] =
    "The arrays in a .npy, .npz or .safetensors file: name, type, shape."
    "\vWhere a file has several arrays, FILE:NAME is one of them, in every option that reads a tensor.";

static const column columns[] = {
    {"name", "name", NULL, 0}, {"type", "type", NULL, 0}, {"shape", "shape", NULL, 0}, {0}};

/* Appends a row for each array, whose types need not be readable. */
static int list_arrays(const char *path, json_t *rows)
{
    const char *called = strcmp(path, "-") == 0 ? "standard input" : path;
    char shape[HGA_NPY_SHAPE_BYTES], type[HGA_NPY_TYPE_BYTES];
    hga_arrays *file;
    hga_array t;
    int status = CLI_GOOD;
    TRY(complain_of(hga_arrays_open(NULL, path, &file), CLI_DATA, called));
    for (int64_t i = 0; i < hga_arrays_count(file); i++) {
        TRY(complain_of(hga_arrays_look(file, i, &t), CLI_DATA, called));
        json_t *row = json_pack("{s:s%, s:s, s:s}", "name", *t.name ? t.name : "-", *t.name ? strlen(t.name) : 1,
                                "type", t.has.kind ? hga_npy_type(&t.has, type) : t.type, "shape",
                                hga_npy_shape(t.has.n_dims, t.has.dim, shape));
        if (json_array_append_new(rows, row)) TRY(complain(CLI_OUTSIDE, "out of memory, or a name is not UTF-8"));
    }
done:
    hga_arrays_close(file);
    return status;
}

int run_tensor(int argc, char **argv)
{
    const option_list line = {.rows = options,
                              .take = take_path,
                              .check = check_arguments,
                              .words = "FILE\n--random=SHAPE -o FILE",
                              .says = doc};
    arguments a = {0};
    json_t *rows = json_array();
    int status = CLI_GOOD;
    TRY(arguments_parse(&line, argc, argv, &a));
    if (a.random) {
        TRY(random_tensor_write(a.random, a.seed, a.output));
        goto done;
    }
    TRY(list_arrays(a.path, rows));
    TRY(a.json ? json_print(stdout, json_pack("{s:O}", "tensors", rows)) : table_print(stdout, rows, columns));
done:
    json_decref(rows);
    return status;
}
