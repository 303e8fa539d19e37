/* typed_tensors.c: words for the tensors of an execution. */
#include "typed_tensors.h"

#include <string.h>

#include "arguments.h"

static int read_type(const char *text, void *input)
{
    element type;
    ((typed_tensors *)input)->out_type = text;
    if (strcmp(text, "same") == 0 || element_of_option(text, &type)) return CLI_GOOD;
    return complain(CLI_USAGE, "--out-type: '%s' is not one of: f16 bf16 f32 f64 same", text);
}

static const option_row options[] = {
    {"query", TEXT(typed_tensors, paths.query), "FILE", 0,
     "query tensor, [rows][dim] or [rows][heads][dim]; - is standard input", 2},
    {"key", TEXT(typed_tensors, paths.key), "FILE", 0, "key tensor; its heads divide the query's", 2},
    {"value", TEXT(typed_tensors, paths.value), "FILE", 0, "value tensor, with the key's rows and heads", 2},
    {"out", TEXT(typed_tensors, paths.out), "FILE", 0, "the file of the output; - is standard output", 2},
    {"lse", TEXT(typed_tensors, paths.lse), "FILE", 0,
     "the file of the log of the softmax denominators (default: not written)", 3},
    {"layout", CHOICE(typed_tensors, layout, LAYOUT_WORDS), "L", 0,
     "nhd, hnd, bnhd or bhnd: the axes of query, key, value and output; torch's are hnd; a fourth axis in front is a "
     "batch, which bnhd and bhnd require (default: nhd)",
     3},
    {"out-type", READ(read_type), "T", ARGUMENTS_MORE,
     "f16, bf16, f32, f64 or same: the type of what comes out; same is the query's (default: f32)", 3},
    {"quiet", FLAG(typed_tensors, quiet), NULL, ARGUMENTS_MORE,
     "leave out the line on stderr that says how the tensors were read", 3},
    {0},
};
const option_list tensors_list = {.rows = options};

int tensors_check(const typed_tensors *typed)
{
    const attend_paths *p = &typed->paths;
    if (!p->query) return complain(CLI_USAGE, "--query FILE is missing");
    if (!p->key) return complain(CLI_USAGE, "--key FILE is missing");
    if (!p->value) return complain(CLI_USAGE, "--value FILE is missing");
    if (!p->out) return complain(CLI_USAGE, "--out FILE is missing");
    return CLI_GOOD;
}

element tensors_out_type(const typed_tensors *typed, const tensor_file *query)
{
    element type = ELEMENT_F32;
    if (typed->out_type && !element_of_option(typed->out_type, &type)) type = query->array.type;
    return type;
}
