/* check.c: hga check, a graph against its rules and what its builder promised. */
#include <stdio.h>
#include <string.h>

#include "arguments.h"
#include "attend.h"
#include "graph_argument.h"
#include "command.h"
#include "table.h"
#include "terminal.h"
#include "variant.h"

typedef struct arguments {
    graph_argument source;
    char all[300];    /* the title, where several graphs pass */
    const char *path; /* what messages call it */
    int json, causal, coverage, gradient;
    hga_id ahead;
    gradient_check back;
    typed_call call; /* of --gradient */
} arguments;

/* What was found; a property that does not apply (no program; order in cross-attention) is not `known`. */
typedef struct finding {
    int known, pass, claimed, demanded;
} finding;

typedef struct findings {
    json_t *rules, *warnings;
    int rules_pass;
    finding single, complete, causal;
    hga_coverage coverage;
    hga_id token, sees;
    hga_id ahead; /* queries that a choice reads ahead, so that causality fails */
} findings;

/* ---- checks ---- */

/* Each of the library's rules, with its name, its sentence and what was found. */
static int check_rules(const hga_graph *g, findings *f)
{
    f->rules = json_array();
    f->rules_pass = 1;
    for (const hga_rule *r = hga_graph_rules(); r->name; r++) {
        hga_status st = r->check(g);
        if (st == HGA_ENOMEM) return complain_of(st, CLI_DATA, r->name);
        json_t *row = json_pack("{s:s, s:b, s:s, s:s}", "name", r->name, "pass", st == HGA_OK, "says", r->says,
                                "detail", st ? hga_error_detail() : "");
        if (row_append(f->rules, row)) return CLI_OUTSIDE;
        f->rules_pass &= st == HGA_OK;
    }
    return CLI_GOOD;
}

/* Checks coverage of all pairs, except that a token may leave itself out. */
static int check_coverage(const graph_file *g, const arguments *a, uint32_t claims, findings *f)
{
    int causal = (claims & HGA_CLAIM_CAUSAL) || a->causal;
    hga_status st = hga_program_coverage(&g->program, g->graph, causal, &f->coverage);
    if (st == HGA_EUNSUPPORTED) return CLI_GOOD;
    f->single = (finding){1, f->coverage.more == 0, (claims & HGA_CLAIM_SINGLE) != 0, a->coverage};
    f->complete =
        (finding){1, f->coverage.none == f->coverage.none_diagonal, (claims & HGA_CLAIM_COMPLETE) != 0, a->coverage};
    return complain_of(st, CLI_DATA, a->path);
}

static int check_causality(const graph_file *g, const arguments *a, uint32_t claims, findings *f)
{
    hga_status st = hga_program_influence(&g->program, g->graph, &f->token, &f->sees);
    if (st == HGA_EUNSUPPORTED && a->causal) return complain_of(st, CLI_USAGE, "--causal");
    if (st == HGA_EUNSUPPORTED) return CLI_GOOD;
    if (f->ahead && f->token < 0) f->token = 0, f->sees = f->ahead;
    f->causal = (finding){1, f->token < 0, (claims & HGA_CLAIM_CAUSAL) != 0, a->causal};
    return complain_of(st, CLI_DATA, a->path);
}

/* Lists stages whose results reach no output. */
static int check_stages(const hga_program *p, findings *f)
{
    const uint32_t live = hga_program_live(p);
    f->warnings = json_array();
    for (hga_id i = 0; i < p->n_stages; i++) {
        const char *what = i == p->n_stages - 1 ? "stage %s is the last and does not reach the output"
                                                : "stage %s: nothing reads what it writes";
        if (live >> i & 1u) continue;
        MUST(row_append(f->warnings, json_sprintf(what, p->stage[i].name)));
    }
    return CLI_GOOD;
}

/* Without a program only the rules can be checked. */
static int look(const graph_file *g, const arguments *a, findings *f)
{
    const hga_nodes nodes = hga_graph_nodes(g->graph);
    const uint32_t claims = nodes.claims;
    MUST(check_rules(g->graph, f));
    f->ahead = a->ahead < nodes.n_queries ? a->ahead : nodes.n_queries - 1;
    if (!g->text && (a->causal || a->coverage))
        return complain(CLI_DATA, "%s: has no program, so nothing is known of coverage and causality (%s)", a->path,
                        g->lacks);
    if (!g->text) return CLI_GOOD;
    MUST(check_stages(&g->program, f));
    MUST(check_coverage(g, a, claims, f));
    return check_causality(g, a, claims, f);
}

static int breaks(const finding *f) { return f->known && !f->pass && (f->claimed || f->demanded); }

static int passes(const findings *f)
{
    return f->rules_pass && !breaks(&f->single) && !breaks(&f->complete) && !breaks(&f->causal);
}

static void clear(findings *f)
{
    json_decref(f->rules);
    json_decref(f->warnings);
    *f = (findings){0};
}

/* Checks the graph; where several heads have chosen one each, all, up to the first that does not pass. */
static int look_at_all(arguments *a, findings *f)
{
    hga_id choosers = 1, heads = 1;
    int all = !a->source.chosen.typed_head;
    a->source.chosen.query = a->back.paths.query, a->source.chosen.key = a->back.paths.key;
    a->source.has_tensors = 1, a->source.which = CHOSEN_FIRST;
    if (!a->source.path) MUST(chosen_choosers(&a->source.typed, &a->source.chosen, &choosers, &heads));
    if (!a->source.path) MUST(routed_ahead(&a->source.typed, &a->ahead));
    for (hga_id i = 0; i < choosers && (i == 0 || passes(f)); i++) {
        graph_argument_clear(&a->source);
        clear(f);
        if (all && choosers > 1) a->source.chosen.typed_head = 1, a->source.chosen.head = i * heads;
        MUST(graph_argument_read(&a->source));
        a->path = a->source.title;
        MUST(look(&a->source.file, a, f));
    }
    if (choosers > 1 && all && passes(f)) {
        snprintf(a->all, sizeof a->all, "%.*s, all %d choosers", (int)(strrchr(a->path, ',') - a->path), a->path,
                 choosers);
        a->path = a->all;
    }
    return CLI_GOOD;
}

/* ---- output ---- */

/* A property that was neither promised nor demanded is no failure. */
static const char *word(const finding *f) { return f->pass ? "pass" : breaks(f) ? "fail" : "no"; }

static const char *standing(const finding *f)
{
    return f->claimed ? "promised by its builder" : f->demanded ? "demanded" : "not promised";
}

/* One line for single and complete, with the first pair that breaks one. */
static void print_coverage(const findings *f)
{
    const hga_coverage *c = &f->coverage;
    finding both = {1, f->single.pass && f->complete.pass, breaks(&f->single) || breaks(&f->complete), 0};
    printf(
        "coverage   %-4s  of %lld pairs %lld once, %lld never (%lld of them a token and itself), %lld more than once",
        word(&both), (long long)c->pairs, (long long)c->once, (long long)c->none, (long long)c->none_diagonal,
        (long long)c->more);
    if (!both.pass && c->token >= 0) printf("; first: query %d and key %d", c->token, c->other);
    printf(" (single: %s, %s; complete: %s, %s)\n", word(&f->single), standing(&f->single), word(&f->complete),
           standing(&f->complete));
}

/* One line, with the first output that depends on a later token. */
static void print_causality(const findings *f)
{
    printf("causality  %-4s  ", word(&f->causal));
    if (f->causal.pass)
        printf("no output depends on a later token");
    else if (f->ahead)
        printf("a choice reads queries up to %d tokens ahead: token 0's reads that of token %d", f->ahead, f->ahead);
    else
        printf("the output of token %d depends on token %d", f->token, f->sees);
    printf(" (%s)\n", standing(&f->causal));
}

/* The rules, the warnings, and a line for each of coverage and causality. */
static void print_text(const graph_file *g, const findings *f)
{
    size_t i;
    json_t *row;
    json_array_foreach(f->rules, i, row)
    {
        const char *detail = json_string_value(json_object_get(row, "detail"));
        printf("rule       %s  %s: %s%s", json_is_true(json_object_get(row, "pass")) ? "pass" : "fail",
               json_string_value(json_object_get(row, "name")), json_string_value(json_object_get(row, "says")),
               *detail ? "; " : "");
        terminal_text(stdout, detail);
        putchar('\n');
    }
    if (!g->text) {
        printf("the graph has no program: coverage and causality are not known (%s)\n", g->lacks);
        return;
    }
    json_array_foreach(f->warnings, i, row) printf("warning    %s\n", json_string_value(row));
    if (f->single.known)
        print_coverage(f);
    else
        printf("coverage   -     it has no meaning for this program\n");
    if (f->causal.known)
        print_causality(f);
    else
        printf("causality  -     queries and keys are different tokens, without an order between them\n");
}

static json_t *finding_json(const finding *f)
{
    return f->known ? json_pack("{s:b, s:b}", "pass", f->pass, "claimed", f->claimed) : json_null();
}

/* Null where coverage has no meaning for the program. */
static json_t *coverage_json(const findings *f)
{
    const hga_coverage *c = &f->coverage;
    if (!f->single.known) return json_null();
    return json_pack("{s:b, s:b, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:i}", "pass",
                     f->single.pass && f->complete.pass, "claimed", f->single.claimed && f->complete.claimed, "single",
                     finding_json(&f->single), "complete", finding_json(&f->complete), "pairs", (json_int_t)c->pairs,
                     "none", (json_int_t)c->none, "once", (json_int_t)c->once, "more", (json_int_t)c->more,
                     "none_diagonal", (json_int_t)c->none_diagonal, "later", (json_int_t)c->later, "token", c->token,
                     "other", c->other);
}

static json_t *causality_json(const findings *f)
{
    if (!f->causal.known) return json_null();
    return json_pack("{s:b, s:b, s:i, s:i}", "pass", f->causal.pass, "claimed", f->causal.claimed, "token", f->token,
                     "sees", f->causal.pass ? -1 : f->sees);
}

static int print_json(const arguments *a, const findings *f, int pass)
{
    return json_print(stdout,
                      json_pack("{s:s, s:b, s:b, s:O, s:o*, s:o, s:o}", "graph", a->path, "pass", pass, "program",
                                a->source.file.text != NULL, "rules", f->rules, "warnings", json_incref(f->warnings),
                                "coverage", coverage_json(f), "causality", causality_json(f)));
}

/* ---- the command ---- */

static int check_arguments(void *input)
{
    const arguments *a = input;
    const attend_paths *p = &a->back.paths;
    const int chooses = routed_is(&a->source.typed);
    if ((p->value || a->back.seed || (!chooses && (p->query || p->key))) && !a->gradient)
        return complain(CLI_USAGE, "--query, --key, --value and --seed are for --gradient");
    if (call_typed(&a->call) && !a->gradient) return complain(CLI_USAGE, "%s is for --gradient", call_typed(&a->call));
    return CLI_GOOD;
}

static const option_row options[] = {
    {"causal", FLAG(arguments, causal), NULL, 0,
     "fail unless no output depends on a later token (default: only if its builder promised it)", 0},
    {"coverage", FLAG(arguments, coverage), NULL, 0,
     "fail unless every pair of tokens is covered once (default: only if its builder promised it)", 0},
    {"json", FLAG(arguments, json), NULL, 0, "as JSON", 0},
    {"gradient", FLAG(arguments, gradient), NULL, 0,
     "instead: compare a VARIANT's gradients with finite differences in double; exit with 1 if one is off by more than "
     "1e-5",
     2},
    {"query", TEXT(arguments, back.paths.query), "FILE", 0,
     "with --gradient, or where content chooses: the query tensor (default with --gradient: small random tensors)", 2},
    {"key", TEXT(arguments, back.paths.key), "FILE", 0, "with --gradient, or where content chooses: the key tensor", 2},
    {"value", TEXT(arguments, back.paths.value), "FILE", 0, "with --gradient: the value tensor", 2},
    {"seed", WHOLE(arguments, back.seed, 0, INT64_MAX), "N", 0,
     "with --gradient: seed of the random tensors, and of the sample of entries that is checked (default: 0)", 2},
    {0},
};

int run_check(int argc, char **argv)
{
    const option_part parts[] = {{&graph_list, offsetof(arguments, source), NULL, 0},
                                 {&chosen_head_list, offsetof(arguments, source.chosen), NULL, 0},
                                 {call_list(CALL_WHOLE), offsetof(arguments, call), "With --gradient:", 10},
                                 {0}};
    const option_list line = {.rows = options,
                              .parts = parts,
                              .check = check_arguments,
                              .words = "GRAPH|VARIANT",
                              .says = "Check a graph's rules, and what its program covers and sees. Exits with 1 when "
                                      "a rule, or a property that the graph's builder promised, does not hold."};
    arguments a = {0};
    findings f = {0};
    int status = CLI_GOOD;
    TRY(arguments_parse(&line, argc, argv, &a));
    a.back.typed = &a.source.typed, a.back.call = &a.call, a.back.json = a.json;
    if (a.gradient) return check_gradient(&a.back);
    TRY(look_at_all(&a, &f));
    int pass = passes(&f);
    if (a.json)
        TRY(print_json(&a, &f, pass));
    else
        print_text(&a.source.file, &f);
    status = pass ? CLI_GOOD : CLI_FAILED;
done:
    clear(&f);
    graph_argument_clear(&a.source);
    return status;
}
