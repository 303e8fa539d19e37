/* batch.c: one graph for each sample, joined. */
#include <stdlib.h>
#include <string.h>

#include "variant.h"

int samples_make(hga_id n, samples *s)
{
    MUST(take(n, sizeof *s->length, &s->length));
    MUST(take(n, sizeof *s->graph, &s->graph));
    MUST(take(n, sizeof *s->program, &s->program));
    s->n = n;
    return CLI_GOOD;
}

void samples_clear(samples *s)
{
    for (hga_id i = 0; i < s->n; i++) hga_graph_destroy(s->graph[i]);
    free(s->length);
    free(s->graph);
    free(s->program);
    *s = (samples){0};
}

/* the lengths in a file, each a number of tokens; samples of none have no rows, and so no graph */
static int samples_of_file(const npy *a, samples *s)
{
    if (a->n_dims != 1 || a->count == 0 || a->count > INT32_MAX)
        return npy_complain_of_shape(a, "lengths have one axis and one number at least");
    hga_id n = 0;
    for (int64_t i = 0; i < a->count; i++) {
        if (a->whole[i] < 0)
            return complain(CLI_DATA, "%s: length %lld is %d, which is negative", a->path, (long long)i, a->whole[i]);
        if (a->whole[i]) n++;
    }
    if (n == 0) return complain(CLI_DATA, "%s: all %lld lengths are 0", a->path, (long long)a->count);
    MUST(samples_make(n, s));
    for (int64_t i = a->count; i--;)
        if (a->whole[i]) s->length[--n] = a->whole[i];
    return CLI_GOOD;
}

/* the parameter that has a number for each token of a side (its count is at that offset); NULL: none */
static const hga_parameter *parameter_of_side(const variant_job *job, size_t side)
{
    if (job->variant->can & HGA_NEEDS_LEAVES || side == HGA_NOWHERE) return NULL; /* leaves are cut with the tokens */
    for (const hga_parameter *p = job->variant->parameters; p->name; p++)
        if (p->kind == HGA_PARAMETER_IDS && p->count == side) return p;
    return NULL;
}

/* its array; NULL: none */
static const npy *array_of_side(const variant_job *job, size_t side)
{
    const hga_parameter *p = parameter_of_side(job, side);
    return p ? setting_array(job->settings, p->name) : NULL;
}

/* rows of a tensor and tokens of an array are the same */
static int match_array(const npy *a, const npy *tensor)
{
    if (!a || !tensor || a->dim[0] == tensor->dim[0]) return CLI_GOOD;
    return complain(CLI_DATA, "%s: has %lld rows, %s %lld numbers", tensor->path, (long long)tensor->dim[0], a->path,
                    (long long)a->dim[0]);
}

/* an array with one number for each token has their number */
static int length_of_array(const variant_job *job, const npy *a, hga_id *tokens)
{
    *tokens = (hga_id)a->dim[0];
    if (setting_is_set(job->settings, "tokens") && setting_id(job->settings, "tokens") != *tokens)
        return complain(CLI_USAGE, "tokens: %d, but %s has %d numbers", setting_id(job->settings, "tokens"), a->path,
                        *tokens);
    return match_array(a, job->tensors ? job->tensors->query : NULL);
}

/* the number of tokens typed, or the query's rows */
static int single_length(const variant_job *job, hga_id *tokens)
{
    const npy *array = array_of_side(job, job->variant->tokens);
    if (array) return length_of_array(job, array, tokens);
    if (setting_is_set(job->settings, "tokens")) {
        *tokens = setting_id(job->settings, "tokens");
        return *tokens >= 1 ? CLI_GOOD : complain(CLI_USAGE, "tokens: %d is not 1 or more", *tokens);
    }
    int shaped = job->variant->can & HGA_TAKES_SHAPE && setting_is_set(job->settings, "shape");
    if (!job->tensors && shaped) return CLI_GOOD; /* 0: the shape has it */
    if (!job->tensors)
        return complain(CLI_USAGE, "%s needs --tokens N%s", job->name,
                        job->variant->can & HGA_TAKES_SHAPE ? ", or its shape" : "");
    const npy *q = job->tensors->query;
    if (q->dim[0] > INT32_MAX) return complain(CLI_DATA, "%s: %lld rows are too many", q->path, (long long)q->dim[0]);
    *tokens = job->variant->tokens_of ? job->variant->tokens_of((hga_id)q->dim[0]) : (hga_id)q->dim[0];
    if (*tokens >= 1) return CLI_GOOD;
    hga_id less = (hga_id)q->dim[0];
    while (less > 1 && job->variant->tokens_of(less) < 1) less--;
    return complain(
        CLI_DATA,
        "%s: has %lld rows; rows of %s are nodes, tokens first, and no number of tokens has so many: %d tokens "
        "have %d",
        q->path, (long long)q->dim[0], job->name, job->variant->tokens_of(less), less);
}

int samples_of(const variant_job *job, samples *s, int *batch)
{
    const npy *file = setting_array(job->settings, "tokens"), *array = array_of_side(job, job->variant->tokens);
    const hga_parameter *each = parameter_of_side(job, job->variant->tokens);
    *batch = file != NULL;
    if (each && !array) return complain(CLI_USAGE, "%s needs -p %s=LIST or @FILE.npy", job->name, each->name);
    if (file && array) return complain(CLI_USAGE, "tokens: a number for each token is of one sample, not of a batch");
    if (file) return samples_of_file(file, s);
    MUST(samples_make(1, s));
    return single_length(job, s->length);
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

/* The program is that of the longest sample, which has all levels, by the numbers of relations in the joined graph. */
int samples_join(const samples *s, model *out)
{
    hga_id longest = 0;
    for (hga_id i = 1; i < s->n; i++)
        if (hga_graph_nodes(s->graph[i]).n > hga_graph_nodes(s->graph[longest]).n) longest = i;
    out->program = s->program[longest];
    if (s->n == 1) {
        out->graph = hga_graph_retain(s->graph[0]);
        return CLI_GOOD;
    }
    MUST(complain_of(hga_graph_concat((const hga_graph *const *)s->graph, s->n, &out->graph, NULL), CLI_USAGE,
                     "tokens"));
    return renumber(s->graph[longest], out->graph, &out->program);
}

/* keys of the one sample: 0 says that they are the queries, which drafts' never are */
static hga_id keys_of(const variant_job *job)
{
    if (!job->tensors || !(job->variant->can & HGA_CAN_CROSS)) return 0;
    int64_t m = job->tensors->key->dim[0];
    if (m == job->tensors->query->dim[0] && !(job->variant->can & HGA_NEEDS_DRAFTS)) return 0;
    return m > INT32_MAX ? 0 : (hga_id)m;
}

/* Builds one graph. The number of keys is that of an array that has a number for each. */
static int build_sample(const variant_job *job, hga_id n, hga_id keys, hga_graph **g, hga_program *p)
{
    _Alignas(max_align_t) char parameters[1024];
    const hga_variant *v = job->variant;
    MUST(settings_fill(job->settings, v, parameters));
    const npy *key_array = array_of_side(job, v->keys);
    const hga_parameter *each = parameter_of_side(job, v->keys);
    if (keys && each && !key_array)
        return complain(CLI_USAGE, "%s needs -p %s=@FILE.npy: the %d keys are not the %d queries", job->name,
                        each->name, keys, n);
    MUST(match_array(key_array, job->tensors ? job->tensors->key : NULL));
    memcpy(parameters + v->tokens, &n, sizeof n);
    if (keys && !key_array) memcpy(parameters + v->keys, &keys, sizeof keys);
    return complain_of(v->build(parameters, g, p), CLI_USAGE, job->name);
}

/* each sample's graph; a length that repeats the one before shares its graph */
static int build_samples(const variant_job *job, hga_id keys, samples *s)
{
    for (hga_id i = 0; i < s->n; i++) {
        if (i > 0 && s->length[i] == s->length[i - 1]) {
            s->graph[i] = hga_graph_retain(s->graph[i - 1]);
            s->program[i] = s->program[i - 1];
            continue;
        }
        MUST(build_sample(job, s->length[i], keys, &s->graph[i], &s->program[i]));
    }
    return CLI_GOOD;
}

/* Builds a graph for each sample and joins them; without lengths there is one sample. */
int make_from_tokens(const variant_job *job, model *out)
{
    samples s = {0};
    int batch = 0, status = CLI_GOOD;
    TRY(samples_of(job, &s, &batch));
    TRY(build_samples(job, batch ? 0 : keys_of(job), &s));
    TRY(samples_join(&s, out));
done:
    samples_clear(&s);
    return status;
}
