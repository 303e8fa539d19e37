/* batch.c: one graph a sample, side by side. */
#include <stdlib.h>
#include <string.h>

#include "variant.h"

/* the lengths in a file, each a number of tokens */
static int lengths_of_file(const npy *a, hga_id **length, hga_id *n)
{
    char shape[200];
    if (a->n_dims != 1 || a->count == 0 || a->count > INT32_MAX)
        return complain(CLI_DATA, "%s: lengths have one axis and one number at least, not the shape %s", a->path,
                        npy_shape(a->n_dims, a->dim, shape));
    for (int64_t i = 0; i < a->count; i++)
        if (a->whole[i] < 1)
            return complain(CLI_DATA, "%s: length %lld is %d; a sample has one token at least", a->path, (long long)i,
                            a->whole[i]);
    int status = take(a->count, sizeof **length, length);
    if (status) return status;
    memcpy(*length, a->whole, (size_t)a->count * sizeof **length);
    *n = (hga_id)a->count;
    return CLI_GOOD;
}

/* the number of tokens typed, or the query's rows */
static int single_length(const variant_job *job, hga_id *tokens)
{
    if (setting_given(job->settings, "tokens")) {
        *tokens = setting_id(job->settings, "tokens");
        return *tokens >= 1 ? CLI_GOOD : complain(CLI_USAGE, "tokens: %d is not 1 or more", *tokens);
    }
    if (!job->tensors) return complain(CLI_USAGE, "%s needs --tokens N", job->name);
    const npy *q = job->tensors->query;
    if (q->dim[0] > INT32_MAX) return complain(CLI_DATA, "%s: %lld rows are too many", q->path, (long long)q->dim[0]);
    *tokens = job->tokens_of ? job->tokens_of((hga_id)q->dim[0]) : (hga_id)q->dim[0];
    if (*tokens >= 1) return CLI_GOOD;
    return complain(CLI_DATA, "%s: %lld rows; no tree of %s has so many nodes", q->path, (long long)q->dim[0],
                    job->name);
}

int sample_lengths(const variant_job *job, hga_id **length, hga_id *n, int *batch)
{
    const npy *file = setting_array(job->settings, "tokens");
    *batch = file != NULL;
    if (file) return lengths_of_file(file, length, n);
    int status = take(1, sizeof **length, length);
    if (status) return status;
    *n = 1;
    return single_length(job, *length);
}

/* relations are numbered by the joined graph; names stay */
static int renumber(const hga_graph *from, const hga_graph *to, hga_program *p)
{
    for (hga_id i = 0; i < p->n_stages; i++) {
        hga_id r = p->stage[i].relation;
        if (r < 0) continue;
        const char *name = hga_graph_relation(from, r).name;
        p->stage[i].relation = hga_graph_find_relation(to, name);
        if (p->stage[i].relation < 0) return complain(CLI_OUTSIDE, "the joined graph lost the relation '%s'", name);
    }
    return CLI_GOOD;
}

int join_samples(hga_graph *const *graph, const hga_program *program, hga_id n, model *out)
{
    hga_id longest = 0;
    for (hga_id i = 1; i < n; i++)
        if (hga_graph_nodes(graph[i]).n > hga_graph_nodes(graph[longest]).n) longest = i;
    out->program = program[longest];
    if (n == 1) {
        out->graph = hga_graph_retain(graph[0]);
        return CLI_GOOD;
    }
    int status =
        complain_of(hga_graph_concat((const hga_graph *const *)graph, n, &out->graph, NULL), CLI_USAGE, "tokens");
    return status ? status : renumber(graph[longest], out->graph, &out->program);
}

/* keys of the one sample: 0 says that they are the queries */
static hga_id keys_of(const variant_job *job)
{
    if (!job->tensors || !job->crossing) return 0;
    int64_t m = job->tensors->key->dim[0];
    return m == job->tensors->query->dim[0] || m > INT32_MAX ? 0 : (hga_id)m;
}

/* each sample's graph; a length that repeats the one before shares its graph */
static int build_samples(const variant_job *job, const hga_id *length, hga_id n, hga_id keys, hga_graph **graph,
                         hga_program *program)
{
    for (hga_id i = 0; i < n; i++) {
        if (i > 0 && length[i] == length[i - 1]) {
            graph[i] = hga_graph_retain(graph[i - 1]);
            program[i] = program[i - 1];
            continue;
        }
        int status =
            complain_of(job->sample(job->settings, length[i], keys, &graph[i], &program[i]), CLI_USAGE, job->name);
        if (status) return status;
    }
    return CLI_GOOD;
}

int make_from_tokens(const variant_job *job, model *out)
{
    hga_id *length = NULL, n = 0;
    hga_graph **graph = NULL;
    hga_program *program = NULL;
    int batch = 0, status = CLI_GOOD;
    TRY(sample_lengths(job, &length, &n, &batch));
    TRY(take(n, sizeof *graph, &graph));
    TRY(take(n, sizeof *program, &program));
    TRY(build_samples(job, length, n, batch ? 0 : keys_of(job), graph, program));
    TRY(join_samples(graph, program, n, out));
done:
    for (hga_id i = 0; graph && i < n; i++) hga_graph_destroy(graph[i]);
    free(graph);
    free(program);
    free(length);
    return status;
}
