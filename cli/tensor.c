/* tensor.c: hga tensor, what a file of arrays has in it; or a file of random numbers. */
#include <stdio.h>
#include <string.h>

#include "arguments.h"
#include "command.h"
#include "npy.h"
#include "random_tensor.h"
#include "table.h"

typedef struct arguments {
    const char *path, *random, *output;
    int64_t seed;
    int json, seeded;
} arguments;

/* A file is read, or one of random numbers is written. */
static int check_arguments(void *input)
{
    const arguments *a = input;
    if (!a->random && (a->output || a->seeded))
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
    {"seed", WHOLE_SAID(arguments, seed, 0, INT64_MAX, seeded), "N", 0, "of --random: which numbers (default: 0)", 0},
    {"output,o", TEXT(arguments, output), "FILE", 0, "of --random: the .npy file", 0},
    {0}};

static const char doc[] = "The arrays in a .npy, .npz or .safetensors file: name, type, shape."
                          "\vEvery option that reads a tensor takes FILE:NAME, one array of several.";

static const column columns[] = {
    {"name", "name", NULL, 0}, {"type", "type", NULL, 0}, {"shape", "shape", NULL, 0}, {0}};

static int add_row(const char *name, const char *type, int n_dims, const int64_t *dim, void *context)
{
    char shape[200];
    json_t *row = json_pack("{s:s%, s:s, s:s}", "name", *name ? name : "-", *name ? strlen(name) : 1, "type", type,
                            "shape", npy_shape(n_dims, dim, shape));
    if (json_array_append_new(context, row) == 0) return CLI_GOOD;
    return complain(CLI_OUTSIDE, "out of memory, or a name is no UTF-8");
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
    TRY(npy_each(a.path, add_row, rows));
    TRY(a.json ? json_print(stdout, json_pack("{s:O}", "tensors", rows)) : table_print(stdout, rows, columns));
done:
    json_decref(rows);
    return status;
}
