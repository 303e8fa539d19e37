/* variant_routed.c: routed. A chooser's blocks are read, or found by its queries and keys, and become its graph. */
#include "variant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- parameters ---- */

/* Reads everything but tokens and choices. */
static int read_parameters(const settings *s, const hga_variant *v, hga_routed *p, hga_selection *how)
{
    int status = settings_fill(s, v, p);
    if (!status && setting_is_set(s, "k") && setting_is_set(s, "threshold"))
        return complain(CLI_USAGE, "%s: k and threshold are both given; blocks are chosen by one of them", v->name);
    if (!status && setting_is_set(s, "threshold") && p->choose.threshold == 0) /* which to the library is none */
        return complain(CLI_USAGE, "%s: threshold is 0; it must be above 0 and at most 1", v->name);
    return status ? status : complain_of(hga_routed_selection(p, how), CLI_USAGE, v->name);
}

/* Reads the arguments of a variant that chooses, without its settings' arrays. */
static int read_typed(const typed_variant *typed, hga_routed *p, hga_selection *how)
{
    settings s = {0};
    const hga_variant *v = NULL;
    int status = CLI_GOOD;
    TRY(variant_settings(typed, &s, &v));
    TRY(read_parameters(&s, v, p, how));
done:
    settings_clear(&s);
    return status;
}

int routed_choosers(const typed_variant *typed, hga_id heads, hga_id kv_heads, hga_id *n)
{
    hga_routed p;
    hga_selection how;
    *n = 1;
    int status = routed_is(typed) ? read_typed(typed, &p, &how) : CLI_GOOD;
    if (!status && routed_is(typed))
        *n = hga_select_choosers(&how, &(hga_shape){.n_heads = heads, .n_kv_heads = kv_heads});
    return status;
}

int routed_ahead(const typed_variant *typed, hga_id *ahead)
{
    hga_routed p;
    hga_selection how = {0};
    *ahead = 0;
    int status = routed_is(typed) ? read_typed(typed, &p, &how) : CLI_GOOD;
    if (!status && how.causal) *ahead = (p.choose.prefill > 1 ? p.choose.prefill : how.query_block) - 1;
    return status;
}

int routed_is(const typed_variant *typed)
{
    const hga_variant *v = typed->name ? hga_variant_named(typed->name) : NULL;
    return v && v->can & HGA_NEEDS_CHOICE;
}

/* ---- samples ---- */

/* Their tokens: sample i has [offset[i], offset[i + 1]). */
static int cut_samples(const variant_job *job, hga_id *n, hga_id **offset)
{
    samples s = {0};
    variant_job alone = *job;
    int batch, status = CLI_GOOD;
    if (job->tensors && !job->tensors->query) alone.tensors = NULL;
    TRY(samples_of(&alone, &s, &batch));
    TRY(take(s.n + 1, sizeof **offset, offset));
    for (hga_id i = 0; i < s.n; i++) {
        if (s.length[i] > INT32_MAX - (*offset)[i]) TRY(complain(CLI_DATA, "tokens: the lengths are too many tokens"));
        (*offset)[i + 1] = (*offset)[i] + s.length[i];
    }
    *n = s.n;
done:
    samples_clear(&s);
    return status;
}

/* Finds the block and the row of the choice that each token has, sample by sample. */
static int find_places(const hga_routed *p, const hga_selection *how, chosen_blocks *out)
{
    hga_id row = 0;
    MUST(take(p->n_tokens, sizeof *out->block_of, &out->block_of));
    MUST(take(p->n_tokens, sizeof *out->row_of, &out->row_of));
    for (hga_id s = 0; s < p->n_samples; s++) {
        hga_id first = p->offsets[s], n = p->offsets[s + 1] - first;
        for (hga_id t = 0; t < n; t++)
            out->block_of[first + t] = t / how->block, out->row_of[first + t] = row + t / how->query_block;
        row = out->row_of[first + n - 1] + 1;
        if ((n - 1) / how->block >= out->most_blocks) out->most_blocks = (n - 1) / how->block + 1;
    }
    return CLI_GOOD;
}

void chosen_blocks_clear(chosen_blocks *c)
{
    free(c->block);
    free(c->block_of);
    free(c->row_of);
    *c = (chosen_blocks){0};
}

/* ---- choices and scores of files ---- */

static choosing choosing_of(const variant_job *job)
{
    return job->tensors && job->tensors->choosing ? *job->tensors->choosing : (choosing){0};
}

/* Where a chooser's rows start in [samples][choosers][query blocks][..], whose first axes may be left out where 1. */
static int64_t find_rows(const npy *a, const choosing *c, const char *what, hga_id query_blocks, int *status)
{
    char of_samples[40] = "";
    const hga_id choosers = c->choosers ? c->choosers : 1, batch = c->samples ? c->samples : 1;
    const int64_t expected[] = {batch, choosers, query_blocks};
    const int n = a->n_dims, left_out = 4 - n;
    int fits = n >= 2 && n <= 4 && a->dim[n - 1] >= 1 && a->dim[n - 1] <= INT32_MAX;
    for (int i = 0; fits && i < 3; i++) fits = expected[i] == (i < left_out ? 1 : a->dim[i - left_out]);
    if (batch > 1 || n == 4) snprintf(of_samples, sizeof of_samples, "[samples = %d]", batch);
    if (!fits)
        *status = complain(CLI_DATA, "%s: has the shape %s; %s is %s[choosers = %d][query blocks = %d][%s]", a->path,
                           npy_shape(a), what, of_samples, choosers, query_blocks,
                           strcmp(what, "choice") == 0 ? "slots" : "blocks");
    return fits ? ((int64_t)c->sample * choosers + c->chooser) * query_blocks * a->dim[n - 1] : 0;
}

/* Copies this chooser's choice from the file. */
static int take_choice(const variant_job *job, const npy *a, chosen_blocks *out)
{
    int status = CLI_GOOD;
    choosing c = choosing_of(job);
    int64_t first = find_rows(a, &c, "choice", out->rows, &status);
    if (status) return status;
    out->slots = (hga_id)a->dim[a->n_dims - 1];
    MUST(take((int64_t)out->rows * out->slots, sizeof *out->block, &out->block));
    memcpy(out->block, a->whole + first, (size_t)out->rows * (size_t)out->slots * sizeof *out->block);
    return status;
}

/* ---- choosing ---- */

/* Finds this chooser's scores in the file, one for each block. */
static int take_scores(const choosing *c, const hga_selection *how, const chosen_blocks *x, hga_select_input *in)
{
    int status = CLI_GOOD;
    if (how->score != HGA_SELECT_SCORES) return CLI_GOOD;
    if (!c->scores) return complain(CLI_USAGE, "routed: score=given needs --block-scores FILE");
    int64_t first = find_rows(c->scores, c, "--block-scores", x->rows, &status);
    int64_t has = status ? x->most_blocks : c->scores->dim[c->scores->n_dims - 1];
    if (has != x->most_blocks)
        return complain(CLI_DATA, "%s: has scores of %lld blocks, there are %d", c->scores->path, (long long)has,
                        x->most_blocks);
    in->scores = c->scores->real + first;
    return status;
}

/* Tensors may be without a query: then they say only which heads choose. */
static const model_tensors *tensors_of(const variant_job *job)
{
    return job->tensors && job->tensors->query ? job->tensors : NULL;
}

/* Tries settings on a token of zeros: any later refusal is the tensors' fault. */
static int check_settings(const hga_selection *how, const choosing *c, const char *name)
{
    float zero = 0;
    hga_chosen chosen = {0};
    hga_select_input one = {.n_tokens = 1, .shape = {.n_heads = 1, .n_kv_heads = 1, .dim = 1}, .isa = c->isa};
    one.query = one.key = (hga_tensor){.data = &zero, .rows = 1};
    one.scores = how->score == HGA_SELECT_SCORES ? &zero : NULL, one.threads = c->threads, one.precision = c->precision;
    int status = complain_of(hga_select_blocks(how, &one, &chosen), CLI_USAGE, name);
    hga_chosen_clear(&chosen);
    return status;
}

/* Heads from the first on of [rows][heads][dim]. */
static hga_tensor heads_of(const npy *x, hga_id first, hga_id heads, hga_id dim)
{
    return (hga_tensor){.data = x->real + (int64_t)first * dim,
                        .rows = x->dim[0],
                        .row_stride = (ptrdiff_t)heads * dim,
                        .head_stride = dim};
}

/* Scores blocks by queries and keys, or by scores that were read, and picks the best for each row: the heads choose
   together. */
static int choose(const variant_job *job, const hga_routed *p, const hga_selection *how, chosen_blocks *out)
{
    const model_tensors *t = job->tensors;
    const choosing c = choosing_of(job);
    hga_chosen chosen = {0};
    hga_select_input in = {.n_tokens = p->n_tokens,
                           .n_samples = p->n_samples,
                           .offsets = p->offsets,
                           .shape = {.n_heads = t->part.n ? t->part.n : t->heads,
                                     .n_kv_heads = t->part.n ? t->part.kv_n : t->kv_heads,
                                     .dim = t->dim},
                           .query = heads_of(t->query, t->part.first, t->heads, t->dim),
                           .key = heads_of(t->key, t->part.kv_first, t->kv_heads, t->dim),
                           .scale = c.scale,
                           .precision = c.precision,
                           .threads = c.threads,
                           .isa = c.isa};
    int status = CLI_GOOD;
    TRY(take_scores(&c, how, out, &in));
    TRY(check_settings(how, &c, job->name));
    TRY(complain_of(hga_select_blocks(how, &in, &chosen), CLI_DATA, job->name));
    out->slots = chosen.slots;
    TRY(take((int64_t)out->rows * out->slots, sizeof *out->block, &out->block));
    hga_chosen_table(&chosen, out->block);
done:
    hga_chosen_clear(&chosen);
    return status;
}

/* Routed tokens are queries and keys at once: both files have as many rows as there are tokens. */
static int check_sides(const variant_job *job, hga_id n)
{
    const model_tensors *t = tensors_of(job);
    for (int keys = 0; t && keys <= 1; keys++) {
        const npy *x = keys ? t->key : t->query;
        if (x->dim[0] != n)
            return complain(CLI_DATA, "%s: has %lld rows, routed %d tokens; its queries and keys are the same tokens",
                            x->path, (long long)x->dim[0], n);
    }
    return CLI_GOOD;
}

/* Copies each chooser's k, which the settings own. */
static int keep_k(model *out)
{
    hga_selection *how = &out->how;
    if (!how->k_each) return CLI_GOOD;
    MUST(take(how->n_k_each, sizeof *out->k_each, &out->k_each));
    memcpy(out->k_each, how->k_each, (size_t)how->n_k_each * sizeof *out->k_each);
    how->k_each = out->k_each;
    return CLI_GOOD;
}

/* Tokens that come one by one attend to those before them only, whatever the arguments. */
static int make_decoder(const variant_job *job, model *out)
{
    hga_routed p;
    MUST(read_parameters(job->settings, job->variant, &p, &out->how));
    if (setting_is_set(job->settings, "causal") && !p.causal)
        return complain(CLI_USAGE, "%s: token by token it is causal, and causal=0 is typed", job->name);
    if (setting_array(job->settings, "choice"))
        return complain(CLI_USAGE, "%s: tokens choose as they come, which choice= has no place for", job->name);
    p.n_tokens = job->tensors ? (hga_id)job->tensors->query->dim[0] : setting_id(job->settings, "tokens");
    MUST(check_sides(job, p.n_tokens));
    out->how.causal = 1, out->how.query_block = p.query_block, out->prefill = p.choose.prefill;
    MUST(keep_k(out));
    return complain_of(hga_build_routed_decoder(p.n_tokens, NULL, &out->graph, &out->program), CLI_USAGE, job->name);
}

/* Checks that the choice was typed or can be made, and builds the graph of what is chosen. */
int make_routed(const variant_job *job, model *out)
{
    if (job->typed->decodes) return make_decoder(job, out);
    const npy *input = setting_array(job->settings, "choice");
    hga_routed p;
    hga_selection how;
    const choosing who = choosing_of(job);
    hga_id *offsets = NULL, n_samples = 0;
    int status = CLI_GOOD;
    TRY(read_parameters(job->settings, job->variant, &p, &how));
    if (tensors_of(job) && !job->tensors->choosing)
        TRY(complain(CLI_USAGE, "%s: blocks are chosen in whole calls, as hga attend makes them", job->name));
    if (!tensors_of(job) && !input)
        TRY(complain(
            CLI_USAGE,
            "%s: blocks are chosen by queries and keys: give --query FILE and --key FILE, or -p choice=@FILE.npy",
            job->name));
    TRY(cut_samples(job, &n_samples, &offsets));
    p.n_tokens = offsets[n_samples], p.n_samples = n_samples, p.offsets = offsets;
    TRY(complain_of(hga_routed_selection(&p, &how), CLI_USAGE, job->name));
    hga_id choosers = who.choosers ? who.choosers : 1;
    TRY(complain_of(hga_select_chooser(&how, who.chooser, choosers, &how), CLI_USAGE, job->name));
    TRY(check_sides(job, p.n_tokens));
    if (who.scores && how.score != HGA_SELECT_SCORES) TRY(complain(CLI_USAGE, "--block-scores: is for -p score=given"));
    TRY(find_places(&p, &how, &out->chosen));
    out->chosen.k = how.k;
    out->chosen.rows = out->chosen.row_of[p.n_tokens - 1] + 1;
    TRY(input ? take_choice(job, input, &out->chosen) : choose(job, &p, &how, &out->chosen));
    p.choice = out->chosen.block, p.slots = out->chosen.slots, p.n_choosers = 1;
    TRY(complain_of(job->variant->build(&p, &out->graph, &out->program), input ? CLI_DATA : CLI_USAGE, job->name));
done:
    free(offsets);
    return status;
}
