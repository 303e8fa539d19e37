/* by_name.c: parameters and variants by their names. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hga_variants.h"

/* Whether the first `length` bytes of `typed` are the name. A dash may be an underscore, as in Python's names. */
static int is_name(const char *name, const char *typed, size_t length)
{
    if (strlen(name) != length) return 0;
    for (size_t i = 0; i < length; i++)
        if (typed[i] != name[i] && !(name[i] == '-' && typed[i] == '_')) return 0;
    return 1;
}

const hga_variant *hga_variant_named(const char *name)
{
    if (strcmp(name, "neighborhood") == 0) name = "neighbourhood";
    for (const hga_variant *v = hga_variants(); v->name; v++)
        if (is_name(v->name, name, strlen(name))) return v;
    return NULL;
}

/* Names of other packages and papers, and what they are here. */
static const struct {
    const char *names; /* with blanks around each */
    const char *here;
} elsewhere[] = {
    {" longformer led ", "window left=256 right=256 global=1"},
    {" bigbird big_bird ", "window left=64 right=64 global=64, without BigBird's random blocks: "
                           "hga.transformers.use(model) runs those"},
    {" sliding_window sliding local local_attention swa banded mistral ", "window left=256 right=0"},
    {" natten na1d na2d na3d neighborhood_attention neighbourhood_attention ", "neighbourhood shape=32,32 kernel=7"},
    {" longnet dilated_attention ", "dilated"},
    {" moba nsa quest seerattention xattention top_k topk ", "routed block=64 k=16"},
    {" bp_transformer bptransformer bp ", "bpt k=4"},
    {" h_transformer h_transformer_1d htransformer1d htransformer_1d h1d ", "htransformer block=16"},
    {" treeformer ", "treeformer-fine, or treeformer-coarse"},
    {" full softmax sdpa vanilla standard eager quadratic causal ", "dense"},
    {" documents packed block_diagonal varlen ", "segments query-segment=0,0,1,.."},
    {" tree speculative medusa eagle ", "draft"},
    {" graph gat sparse ", "a graph of your own edges: hga_builder_add_edges, hga.Graph.from_edges"},
};

const char *hga_variant_elsewhere(const char *name)
{
    char word[40] = " ";
    const size_t length = strlen(name);
    if (length + 3 > sizeof word || strchr(name, ' ')) return NULL;
    for (size_t i = 0; i < length; i++) word[i + 1] = name[i] == '-' ? '_' : (char)tolower((unsigned char)name[i]);
    memcpy(word + length + 1, " ", 2);
    for (size_t i = 0; length && i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (strstr(elsewhere[i].names, word)) return elsewhere[i].here;
    return NULL;
}

const hga_parameter *hga_variant_parameter(const hga_variant *v, const char *name, size_t length)
{
    for (const hga_parameter *p = v->parameters; p->name; p++)
        if (is_name(p->name, name, length)) return p;
    return NULL;
}

static void *member(void *parameters, size_t offset) { return (char *)parameters + offset; }

/* ---- one value ---- */

/* A whole number from `least` to `most`. */
static hga_status read_number(const char *name, const char *text, hga_id least, hga_id most, hga_id *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || isspace((unsigned char)*text))
        return hga_fail(HGA_EINVAL, "%s: '%s' is not a whole number", name, text);
    if (errno || value < least || value > most)
        return hga_fail(HGA_EINVAL, "%s: %s is not in %d .. %d", name, text, least, most);
    *out = (hga_id)value;
    return HGA_OK;
}

/* the index of `text` among words separated by blanks; -1: none */
static int place_in_words(const char *words, const char *text)
{
    size_t length = strlen(text);
    int index = 0;
    for (const char *w = words; *w; index++) {
        size_t n = strcspn(w, " ");
        if (n == length && strncmp(w, text, n) == 0) return index;
        w += n + (w[n] == ' ');
    }
    return -1;
}

/* an array that was set before must have the same length */
static hga_status agrees_with_arrays(const hga_variant *v, void *parameters, const hga_parameter *number, hga_id value)
{
    for (const hga_parameter *p = v->parameters; p->name; p++) {
        if (p->kind < HGA_PARAMETER_IDS || p->place != HGA_IN_BUILDER || p->count != number->offset) continue;
        void *array = *(void **)member(parameters, p->offset);
        hga_id n = *(hga_id *)member(parameters, p->count);
        if (array && n != value)
            return hga_fail(HGA_EINVAL, "%s: %d, but %s has %d numbers", number->name, value, p->name, n);
    }
    return HGA_OK;
}

static hga_status read_real(const char *name, const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    if (end == text || *end || isspace((unsigned char)*text))
        return hga_fail(HGA_EINVAL, "%s: '%s' is not a number", name, text);
    return *out >= 0 && *out < INFINITY ? HGA_OK : hga_fail(HGA_EINVAL, "%s: %s is not 0 or more", name, text);
}

static hga_status read_flag(const char *name, const char *text, hga_id *out)
{
    static const char words[] = "0 1 false true no yes off on"; /* in pairs, no before yes */
    char word[8] = "";
    for (size_t i = 0; i < sizeof word - 1 && text[i]; i++) word[i] = (char)tolower((unsigned char)text[i]);
    const int place = strlen(text) < sizeof word ? place_in_words(words, word) : -1;
    *out = place & 1;
    return place >= 0 ? HGA_OK : hga_fail(HGA_EINVAL, "%s: '%s' is neither 0 nor 1", name, text);
}

static hga_status read_value(const hga_parameter *p, const char *value, hga_id *out)
{
    if (p->kind == HGA_PARAMETER_FLAG) return read_flag(p->name, value, out);
    if (p->kind == HGA_PARAMETER_WHOLE) return read_number(p->name, value, p->least, INT32_MAX, out);
    *out = place_in_words(p->words, value);
    return *out >= 0 ? HGA_OK : hga_fail(HGA_EINVAL, "%s: '%s' is not one of: %s", p->name, value, p->words);
}

/* May a whole number be an array instead? */
static int may_be_each(const hga_parameter *p) { return p->kind == HGA_PARAMETER_WHOLE && p->count != HGA_NOWHERE; }

/* Forgets the array that such a number was. */
static void forget_each(void *parameters, const hga_parameter *p)
{
    memset(member(parameters, p->count), 0, sizeof(hga_id));
    memset(member(parameters, p->columns), 0, sizeof(const hga_id *));
}

/* tokens and keys are no rows of the tables, since every variant has them */
static int counted(const hga_variant *v, const char *name, hga_parameter *out)
{
    *out = (hga_parameter){.kind = HGA_PARAMETER_WHOLE, .count = HGA_NOWHERE, .least = 1};
    if (strcmp(name, "tokens") == 0) out->name = "tokens", out->offset = v->tokens;
    if (strcmp(name, "keys") == 0 && v->keys != HGA_NOWHERE) out->name = "keys", out->offset = v->keys;
    return out->name != NULL;
}

static hga_status set_real(void *parameters, const hga_parameter *p, const char *value)
{
    double number;
    hga_status st = read_real(p->name, value, &number);
    if (!st) memcpy(member(parameters, p->offset), &number, sizeof number);
    return st;
}

/* "bpt has no parameter 'kk'; it has: k clip rule causal tokens" */
static hga_status fail_no_parameter(const hga_variant *v, const char *name)
{
    char known[256] = "";
    size_t at = 0;
    for (const hga_parameter *p = v->parameters; p->name && at < sizeof known; p++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s ", p->name);
    return hga_fail(HGA_EINVAL, "%s has no parameter '%s'; it has: %stokens%s", v->name, name, known,
                    v->keys != HGA_NOWHERE ? " keys" : "");
}

hga_status hga_variant_set(const hga_variant *v, void *parameters, const char *name, const char *value)
{
    hga_parameter count;
    const hga_parameter *p = counted(v, name, &count) ? &count : hga_variant_parameter(v, name, strlen(name));
    hga_id number = 0;
    if (!p) return fail_no_parameter(v, name);
    if (p->kind == HGA_PARAMETER_REAL) return set_real(parameters, p, value);
    if (p->kind >= HGA_PARAMETER_IDS)
        return hga_fail(HGA_EINVAL, "%s is an array, which '%s' does not give", name, value);
    hga_status st = read_value(p, value, &number);
    if (!st) st = agrees_with_arrays(v, parameters, p, number);
    if (!st) memcpy(member(parameters, p->offset), &number, sizeof number);
    if (!st && may_be_each(p)) forget_each(parameters, p);
    return st;
}

/* Sets an array's length, or checks it against an earlier one; up to `untold` it is unset. */
static hga_status say_count(const char *name, void *count, hga_id n, hga_id untold)
{
    hga_id said;
    memcpy(&said, count, sizeof said);
    if (said > untold && said != n)
        return hga_fail(HGA_EINVAL, "%s: %d numbers where %d were told before", name, n, said);
    memcpy(count, &n, sizeof n);
    return HGA_OK;
}

hga_status hga_variant_set_array(const hga_variant *v, void *parameters, const char *name, const void *array, hga_id n,
                                 hga_id columns)
{
    const hga_parameter *p = hga_variant_parameter(v, name, strlen(name));
    hga_status st = HGA_OK;
    if (!p) return fail_no_parameter(v, name);
    const int each = may_be_each(p);
    if ((p->kind < HGA_PARAMETER_IDS && !each) || p->place != HGA_IN_BUILDER)
        return hga_fail(HGA_EINVAL, "%s: %s", name,
                        p->kind < HGA_PARAMETER_IDS ? "is a number" : "is not the builder's");
    if (n < 1 || !array) return hga_fail(HGA_EINVAL, "%s: %d numbers, at least 1 is needed", name, n);
    if (columns > 1 && (each || p->columns == HGA_NOWHERE))
        return hga_fail(HGA_EINVAL, "%s: %d columns; it has one axis", name, columns);
    for (int64_t i = 0; p->kind != HGA_PARAMETER_FLOATS && i < (int64_t)n * (columns ? columns : 1); i++)
        if (((const hga_id *)array)[i] < p->least)
            return hga_fail(HGA_EINVAL, "%s: number %lld is %d, at least %d is needed", name, (long long)i,
                            ((const hga_id *)array)[i], p->least);
    if (p->count != HGA_NOWHERE) st = say_count(name, member(parameters, p->count), n, 0);
    if (!st && !each && p->columns != HGA_NOWHERE)
        st = say_count(name, member(parameters, p->columns), columns ? columns : 1, 1);
    if (!st) memcpy(member(parameters, each ? p->columns : p->offset), &array, sizeof array);
    return st;
}

void hga_variant_defaults(const hga_variant *v, void *parameters) { v->defaults(parameters); }

/* ---- a variant in words ---- */

enum { WORD_BYTES = 2048, MAX_NUMBERS = 256, PARAMETER_BYTES = 1024, MAX_LISTS = 16 };

/* The result of reading a variant's words. */
typedef struct variant_reading {
    _Alignas(max_align_t) char parameters[PARAMETER_BYTES];
    const hga_variant *variant;
    uint64_t declared;                      /* as hga_words has it */
    hga_id numbers[MAX_NUMBERS], n_numbers; /* of all lists */
    struct {
        const hga_parameter *of;
        hga_id *first, n;
    } list[MAX_LISTS];
    int n_lists;
} variant_reading;

/* Refuses a parameter given twice. */
static hga_status mark_set(variant_reading *r, const char *name, const hga_parameter *p)
{
    const int of_all = strcmp(name, "keys") == 0 ? HGA_DECLARED_KEYS : HGA_DECLARED_TOKENS;
    const int bit = p ? (int)(p - r->variant->parameters) : of_all;
    if (r->declared >> bit & 1)
        return hga_fail(HGA_EINVAL, "%s: %s is given twice", r->variant->name, p ? p->name : name);
    r->declared |= UINT64_C(1) << bit;
    return HGA_OK;
}

/* "2,4,8" */
static hga_status read_list(variant_reading *r, const hga_parameter *p, char *value)
{
    hga_id *list = r->numbers + r->n_numbers, n = 0;
    hga_status st = HGA_OK;
    if (r->n_lists == MAX_LISTS) return hga_fail(HGA_EINVAL, "%s: more than %d lists", p->name, MAX_LISTS);
    for (char *next; !st && value; value = next) {
        next = strchr(value, ',');
        if (next) *next++ = 0;
        if (r->n_numbers == MAX_NUMBERS) return hga_fail(HGA_EINVAL, "%s: more than %d numbers", p->name, MAX_NUMBERS);
        st = read_number(p->name, value, p->least, INT32_MAX, &list[n++]);
        r->n_numbers++;
    }
    const int i = r->n_lists++;
    r->list[i].of = p, r->list[i].first = list, r->list[i].n = n;
    return st;
}

/* Sets the lists once all words are read, since some must have one length. */
static hga_status set_lists(variant_reading *r)
{
    hga_status st = HGA_OK;
    for (int i = 0; !st && i < r->n_lists; i++)
        st = hga_variant_set_array(r->variant, r->parameters, r->list[i].of->name, r->list[i].first, r->list[i].n, 0);
    return st;
}

/* "name=value"; a flag's name alone sets it */
static hga_status read_parameter(variant_reading *r, char *word)
{
    char *value = strchr(word, '=');
    const hga_parameter *flag = value ? NULL : hga_variant_parameter(r->variant, word, strlen(word));
    if (flag && flag->kind == HGA_PARAMETER_FLAG) {
        hga_status st = hga_variant_set(r->variant, r->parameters, word, "1");
        return st ? st : mark_set(r, word, flag);
    }
    if (!value || value == word) return hga_fail(HGA_EINVAL, "%s: '%s' is not name=value", r->variant->name, word);
    *value++ = 0;
    const hga_parameter *p = hga_variant_parameter(r->variant, word, strlen(word));
    const int list = p && (p->kind == HGA_PARAMETER_IDS || (may_be_each(p) && strchr(value, ',')));
    hga_status st = list ? read_list(r, p, value) : hga_variant_set(r->variant, r->parameters, word, value);
    return st ? st : mark_set(r, word, p);
}

static hga_status fail_unknown(const char *name)
{
    char known[256] = "";
    const char *here = hga_variant_elsewhere(name);
    if (here) return hga_fail(HGA_EINVAL, "no variant '%s': here it is %s", name, here);
    for (const hga_variant *v = hga_variants(); v->name; v++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, " %s", v->name);
    }
    return hga_fail(HGA_EINVAL, "no variant '%s'; there are:%s", name, known);
}

/* Blanks may surround the words; a colon may only be between two. */
static hga_status check_ends(const char *text)
{
    const size_t before = strspn(text, " \t\n");
    size_t end = strlen(text);
    while (end > before && strchr(" \t\n", text[end - 1])) end--;
    if (text[before] == ':') return hga_fail(HGA_EINVAL, "a variant in words begins with its name, not with a colon");
    if (end > before && text[end - 1] == ':')
        return hga_fail(HGA_EINVAL, "a variant in words ends with a colon, and no setting comes after it");
    return HGA_OK;
}

/* The variant's name, then its parameters. */
static hga_status read_words(variant_reading *r, const char *words)
{
    static const char between[] = " \t\n:";
    char text[WORD_BYTES], *rest = NULL;
    *r = (variant_reading){.n_numbers = 0};
    if (!words) return hga_fail(HGA_EINVAL, "no words: they begin with the name of a variant");
    const size_t length = strlen(words);
    if (length >= sizeof text)
        return hga_fail(HGA_EINVAL, "%.20s..: %zu bytes, at most %d", words, length, WORD_BYTES - 1);
    memcpy(text, words, length + 1);
    hga_status st = check_ends(text);
    if (st) return st;
    char *word = strtok_r(text, between, &rest);
    if (!word) return fail_unknown("");
    r->variant = hga_variant_named(word);
    if (!r->variant) return fail_unknown(word);
    hga_variant_defaults(r->variant, r->parameters);
    while (!st && (word = strtok_r(NULL, between, &rest))) st = read_parameter(r, word);
    return st ? st : set_lists(r);
}

hga_status hga_words_read(const char *words, hga_words *out)
{
    variant_reading *r;
    *out = (hga_words){.variant = NULL};
    hga_status st = hga_new(NULL, 1, sizeof *r, &r);
    if (!st) st = read_words(r, words);
    if (!st)
        *out = (hga_words){r->variant, r->parameters, r->declared};
    else
        hga_delete(NULL, r, 1, sizeof *r);
    return st;
}

void hga_words_clear(hga_words *w)
{
    hga_delete(NULL, w->parameters, 1, sizeof(variant_reading)); /* which begins with them */
    *w = (hga_words){.variant = NULL};
}

hga_status hga_build(const char *words, hga_id n_tokens, hga_graph **g, hga_program *program)
{
    variant_reading r;
    char tokens[16];
    *g = NULL;
    snprintf(tokens, sizeof tokens, "%d", n_tokens);
    hga_status st = read_words(&r, words);
    if (!st && n_tokens) st = mark_set(&r, "tokens", NULL);
    if (!st && n_tokens) st = hga_variant_set(r.variant, r.parameters, "tokens", tokens);
    return st ? st : r.variant->build(r.parameters, g, program);
}
