/* bench_cases.c: variants and tensors of the benchmark. */
#include "bench_cases.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "arguments.h"
#include "ordered.h"
#include "variant_routed.h"

/* ---- names ---- */

/* the end of the item that starts here: a comma before something that is no number */
static size_t item_length(const char *list)
{
    size_t n = strcspn(list, ",");
    while (list[n] == ',' && isdigit((unsigned char)list[n + 1])) n += 1 + strcspn(list + n + 1, ",");
    return n;
}

/* what was typed as rows and results have it: the variant's own name, colons between the settings */
static void write_text(bench_variant *v)
{
    size_t used = (size_t)snprintf(v->text, sizeof v->text, "%s", v->typed.name);
    for (int i = 0; i < v->typed.n && used < sizeof v->text; i++)
        used += (size_t)snprintf(v->text + used, sizeof v->text - used, ":%s", v->typed.setting[i]);
}

/* The same with blanks, as the measuring library has it. */
static void words_of(const bench_variant *v, char words[static sizeof v->text])
{
    strcpy(words, v->text);
    for (char *c = words; *c; c++)
        if (*c == ':') *c = ' ';
}

/* name:parameter=value:.. */
static int read_variant(const char *item, size_t length, bench_variant *v)
{
    char words[sizeof v->text];
    *v = (bench_variant){0};
    if (length == 0 || length >= sizeof v->parts)
        return complain(CLI_USAGE, "--variants: '%.*s' is not a variant", (int)length, item);
    memcpy(v->parts, item, length);
    int status = variant_cut(v->parts, MAX_PARAMETERS - 1, &v->typed);
    if (status) return status;
    const hga_variant *row = hga_variant_named(v->typed.name);
    if (row) v->typed.name = row->name;
    write_text(v);
    v->typed.takes_order = 1;
    v->file = strncmp(v->typed.name, "graph=", 6) == 0;
    words_of(v, words);
    status = complain_of(bench_case_by_chance(words, &v->by_chance), CLI_USAGE, "--variants");
    if (status || v->by_chance) return status;
    settings s;
    status = variant_settings(&v->typed, &s, &row); /* a wrong name or value is known before anything runs */
    if (status == CLI_GOOD) settings_clear(&s);
    return status;
}

int bench_variant_add(const char *item, size_t length, bench_variant *out, int *n)
{
    if (*n == MAX_LIST) return complain(CLI_USAGE, "--variants: more than %d", MAX_LIST);
    return read_variant(item, length, &out[(*n)++]);
}

int bench_variants_read(const char *list, bench_variant *out, int *n)
{
    *n = 0;
    while (1) {
        size_t length = item_length(list);
        int status = bench_variant_add(list, length, out, n);
        if (status) return status;
        if (!list[length]) return CLI_GOOD;
        list += length + 1;
    }
}

/* ---- graphs ---- */

/* what is built becomes a case of the measuring library */
static int build_typed(const bench_variant *v, hga_id tokens, bench_case *out)
{
    char text[16];
    model m = {0};
    typed_variant typed = v->typed;
    snprintf(text, sizeof text, "%d", tokens);
    if (!v->file) typed.tokens = text;
    int status = model_build(&typed, NULL, &m);
    if (status == CLI_GOOD) status = ordered_say(&m);
    if (status) {
        model_clear(&m);
        return status;
    }
    out->graph = hga_graph_retain(ordered_graph(&m));
    out->program = m.program;
    out->type_scale = m.alpha, m.alpha = NULL;
    out->n_type_scale = m.n_alpha;
    model_clear(&m);
    return CLI_GOOD;
}

/* Each head for itself, by the numbers that it attends with. */
static int build_routed(const bench_variant *v, hga_id tokens, bench_case *out)
{
    const hga_shape standard = {.n_heads = DEFAULT_HEADS, .dim = DEFAULT_DIM};
    settings s = {0};
    const hga_variant *row;
    hga_routed p;
    int status = CLI_GOOD;
    TRY(variant_settings(&v->typed, &s, &row));
    if (setting_given(&s, "choice")) TRY(complain(CLI_USAGE, "%s: made-up tensors make their own choice", v->text));
    TRY(settings_fill(&s, row, &p));
    p.n_tokens = tokens;
    TRY(complain_of(bench_make_routed(&p, v->shape ? v->shape : &standard, out), CLI_USAGE, v->text));
done:
    settings_clear(&s);
    return status;
}

int bench_variant_build(const bench_variant *v, hga_id tokens, bench_case *out)
{
    *out = (bench_case){0};
    char words[sizeof v->text];
    words_of(v, words);
    if (v->by_chance) return complain_of(bench_case_make(words, tokens, out), CLI_USAGE, v->text);
    if (routed_is(&v->typed)) return build_routed(v, tokens, out);
    return build_typed(v, tokens, out);
}
