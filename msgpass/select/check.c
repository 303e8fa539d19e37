/* check.c: checks selections and their inputs. */
#include "select.h"
#include "selection_check.h"

#include <math.h>

static hga_status at_least(const char *name, hga_id value, hga_id least)
{
    if (value >= least) return HGA_OK;
    return hga_fail(HGA_EINVAL, "%s is %d; it must be at least %d", name, value, least);
}

/* A number for each chooser. */
static hga_status check_k_each(const hga_selection *s)
{
    if (!s->k_each != !s->n_k_each || s->n_k_each < 0)
        return hga_fail(HGA_EINVAL, "n_k_each is %d, and k_each is %s", s->n_k_each, s->k_each ? "given" : "NULL");
    if (s->k_each && s->threshold != 0)
        return hga_fail(HGA_EINVAL, "k has %d numbers and threshold is %g; blocks are chosen by one of them",
                        s->n_k_each, s->threshold);
    for (hga_id i = 0; i < s->n_k_each; i++)
        if (s->k_each[i] < 1)
            return hga_fail(HGA_EINVAL, "k of chooser %d is %d; it must be at least 1", i, s->k_each[i]);
    return HGA_OK;
}

static hga_status check_how_many(const hga_selection *s)
{
    hga_status st = check_k_each(s);
    if (st || s->k_each) return st;
    if (s->k != 0 && s->threshold != 0)
        return hga_fail(HGA_EINVAL, "k is %d and threshold is %g; blocks are chosen by one of them", s->k,
                        s->threshold);
    if (s->threshold != 0 && !(s->threshold > 0 && s->threshold <= 1))
        return hga_fail(HGA_EINVAL, "threshold is %g; it must be above 0 and at most 1", s->threshold);
    return s->threshold != 0 ? HGA_OK : at_least("k", s->k, 1);
}

/* Coarse blocks are multiples of blocks, and for causal tokens that choose for themselves. */
static hga_status check_coarse(const hga_selection *s)
{
    hga_status st = at_least("coarse", s->coarse, 0);
    if (st || s->coarse == 0) return st;
    if (s->coarse % s->block != 0)
        return hga_fail(HGA_EINVAL, "coarse is %d; it must be a multiple of block, %d", s->coarse, s->block);
    if (!s->causal || s->query_block > 1)
        return hga_fail(HGA_EUNSUPPORTED, "coarse is for causal tokens that choose for themselves; %s is %d",
                        s->causal ? "query_block or prefill" : "causal", s->causal ? s->query_block : 0);
    if (s->score == HGA_SELECT_SCORES)
        return hga_fail(HGA_EUNSUPPORTED, "coarse: given scores are of blocks, not of coarse ones");
    return at_least("coarse_k", s->coarse_k, 1);
}

/* Sampled queries are some of a query block. */
static hga_status check_sample(const hga_selection *s)
{
    if (s->score != HGA_SELECT_SAMPLE) return HGA_OK;
    if (s->query_block == 1)
        return hga_fail(HGA_EUNSUPPORTED,
                        "score sample is of query blocks; query_block or prefill must be above 1, and they are 1");
    if (s->sample > s->query_block)
        return hga_fail(HGA_EINVAL, "sample is %d; it must be at most query_block or prefill, %d", s->sample,
                        s->query_block);
    return at_least("sample", s->sample, 1);
}

/* Checks a selection independently of its input. */
static hga_status check_parameters(const hga_selection *s)
{
    hga_status st = hga_check_reserved("hga_selection", s->reserved, sizeof s->reserved);
    if (!st) st = at_least("block", s->block, 1);
    if (!st) st = at_least("query_block", s->query_block, 1);
    if (!st) st = at_least("sinks", s->sinks, 0);
    if (!st) st = at_least("local", s->local, 0);
    if (!st) st = check_how_many(s);
    if (st) return st;
    st = check_coarse(s);
    if (st) return st;
    if ((unsigned)s->share > HGA_SELECT_ALL) return hga_fail(HGA_EINVAL, "share is %d", (int)s->share);
    if ((unsigned)s->score > HGA_SELECT_SAMPLE) return hga_fail(HGA_EINVAL, "score is %d", (int)s->score);
    if (s->score == HGA_SELECT_MINMAX && s->query_block > 1)
        return hga_fail(HGA_EUNSUPPORTED, "minmax bounds the products of one query, and query_block or prefill is %d",
                        s->query_block);
    return check_sample(s);
}

static hga_status check_shape(const hga_select_input *in)
{
    const hga_shape *s = &in->shape;
    hga_id kv = s->n_kv_heads ? s->n_kv_heads : s->n_heads;
    if (s->n_heads < 1 || kv < 1 || s->n_heads % kv != 0)
        return hga_fail(HGA_EINVAL,
                        "%d heads and %d key/value heads: both are at least 1, and the second divides the first",
                        s->n_heads, kv);
    return at_least("dim", s->dim, 1);
}

/* Offsets begin with 0, do not decrease, and end with the tokens. */
static hga_status check_samples(const hga_select_input *in)
{
    if (in->n_samples < 0) return hga_fail(HGA_EINVAL, "%d samples", in->n_samples);
    if (!in->offsets)
        return in->n_samples > 1 ? hga_fail(HGA_EINVAL, "%d samples, but offsets is NULL", in->n_samples) : HGA_OK;
    if (in->offsets[0] != 0) return hga_fail(HGA_EINVAL, "offsets begin with %d; they must with 0", in->offsets[0]);
    for (hga_id s = 0; s < in->n_samples; s++)
        if (in->offsets[s + 1] < in->offsets[s])
            return hga_fail(HGA_EINVAL, "offsets[%d] is %d, below the one before, %d", s + 1, in->offsets[s + 1],
                            in->offsets[s]);
    if (in->offsets[in->n_samples] != in->n_tokens)
        return hga_fail(HGA_EINVAL, "offsets end with %d, and there are %d tokens", in->offsets[in->n_samples],
                        in->n_tokens);
    return HGA_OK;
}

hga_status selection_check_tensor(const char *name, const hga_tensor *t, hga_id n)
{
    if ((unsigned)t->dtype > HGA_BF16) return hga_fail(HGA_EINVAL, "%s.dtype is %d", name, (int)t->dtype);
    if (t->fold) return hga_fail(HGA_EUNSUPPORTED, "%s is folded; blocks are chosen for tokens", name);
    if (n > 0 && !t->data) return hga_fail(HGA_EINVAL, "%s is missing", name);
    if (t->rows < n)
        return hga_fail(HGA_EINVAL, "%s has %lld rows, and there are %d tokens", name, (long long)t->rows, n);
    return HGA_OK;
}

/* Checks whether the selection can choose from this input. */
hga_status selection_check(const hga_selection *s, const hga_select_input *in)
{
    hga_status st = check_parameters(s);
    if (!st) st = hga_check_reserved("hga_select_input", in->reserved, sizeof in->reserved);
    if (!st) st = at_least("n_tokens", in->n_tokens, 0);
    if (!st) st = check_shape(in);
    if (!st) st = selection_check_choosers(s, hga_select_choosers(s, &in->shape));
    if (!st) st = check_samples(in);
    if (st) return st;
    if ((unsigned)in->precision > HGA_PRECISION_BF16)
        return hga_fail(HGA_EINVAL, "precision is %d", (int)in->precision);
    if (in->threads < 0 || in->threads > 4096)
        return hga_fail(HGA_EINVAL, "threads is %d, not in 0 .. 4096", in->threads);
    if (in->scale && !isfinite(*in->scale)) return hga_fail(HGA_EINVAL, "scale is %g; it must be finite", *in->scale);
    if (s->score == HGA_SELECT_SCORES)
        return in->scores || in->n_tokens == 0 ? HGA_OK : hga_fail(HGA_EINVAL, "scores are given, but given is NULL");
    if (in->scores) return hga_fail(HGA_EINVAL, "scores are given, but the choice is not by given scores");
    st = selection_check_tensor("query", &in->query, in->n_tokens);
    return st ? st : selection_check_tensor("key", &in->key, in->n_tokens);
}
