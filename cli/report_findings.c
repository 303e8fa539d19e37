/* report_findings.c: the results of a run of all variants in a few sentences. */
#include "report.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "html.h"

static int is_dense(const json_t *row) { return strcmp(row_text(row, "variant"), "dense") == 0; }

/* Was dense attention of the same mask left alone? */
static int dense_is_undisturbed(const json_t *rows, int causal)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i,
                       row) if (is_dense(row) && row_is(row, "causal") == causal && row_is(row, "disturbed")) return 0;
    return 1;
}

/* Is a row's time over dense attention's one of two undisturbed times? */
static int has_a_speed(const json_t *rows, const json_t *row)
{
    return !row_is(row, "disturbed") && dense_is_undisturbed(rows, row_is(row, "causal"));
}

/* The row, not dense, with the least `key` that is a number, NULL without; `timed`: of those that have a speed. */
static const json_t *least_row(const json_t *rows, const char *key, int timed)
{
    const json_t *best = NULL;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) if (!is_dense(row) && json_is_number(json_object_get(row, key)) &&
                                         (!timed || has_a_speed(rows, row)) &&
                                         (!best || row_number(row, key) < row_number(best, key))) best = row;
    return best;
}

static void put_row_name(FILE *file, const json_t *row)
{
    const char *parameters = row_text(row, "parameters");
    fputs("<b>", file);
    html_text(file, row_text(row, "variant"));
    fputs("</b>", file);
    if (*parameters) fputs(" ", file);
    html_text(file, parameters);
}

void findings_put(FILE *file, const void *context)
{
    const report *r = context;
    const json_t *fastest = least_row(r->rows, "seconds", 1), *nearest = least_row(r->rows, "relative_l2", 0);
    size_t disturbed = rows_that_are(r->rows, "disturbed");
    fputs("<p class=\"findings\">", file);
    if (fastest) {
        put_row_name(file, fastest);
        fprintf(file, " is the fastest: %.3g times as fast as dense attention on these %d words. ",
                row_number(fastest, "speedup"), r->source->words);
    }
    if (nearest) {
        put_row_name(file, nearest);
        fprintf(file, " comes nearest to dense attention's output (%.2g away)", row_number(nearest, "relative_l2"));
        if (has_a_speed(r->rows, nearest)) fprintf(file, ", %.3g times as fast", row_number(nearest, "speedup"));
        fputs(".", file);
    }
    fputs("</p>\n", file);
    if (disturbed)
        fprintf(file,
                "<p class=\"findings\">Other work on this machine disturbed %zu of %zu rows, which are grey: %smeasure "
                "them again.</p>\n",
                disturbed, json_array_size(r->rows), fastest ? "" : "no speed is worth a headline; ");
}

/* ---- crossovers ---- */

/* When a row of bench_overtakes is faster than dense attention. */
typedef enum crossing { AT_ONCE, LATER, NEVER } crossing;

static crossing crossing_of(const json_t *row)
{
    if (!json_is_number(json_object_get(row, "tokens"))) return NEVER;
    return row_is(row, "or_shorter") ? AT_ONCE : LATER;
}

/* "A, B (from about 300 words on), C" */
static void put_names(FILE *file, const json_t *overtakes, crossing which)
{
    const char *between = "";
    size_t i;
    json_t *row;
    json_array_foreach(overtakes, i, row)
    {
        if (crossing_of(row) != which) continue;
        fputs(between, file);
        put_row_name(file, row);
        if (which == LATER) fprintf(file, " (from about %.0f words on)", row_number(row, "tokens"));
        between = ", ";
    }
}

/* Few are named; many are folded under the range of their lengths. */
enum { FEW = 3 };
/* Variants that overtake dense attention between two lengths: by name if they are few, else folded. */
static void put_later(FILE *file, const json_t *overtakes, size_t later, const char *before)
{
    double least = DBL_MAX, most = 0;
    size_t i;
    json_t *row;
    if (later <= FEW) {
        fprintf(file, " %s: ", before);
        put_names(file, overtakes, LATER);
        fputs(".</p>\n", file);
        return;
    }
    json_array_foreach(overtakes, i, row) if (crossing_of(row) == LATER) least = fmin(least, row_number(row, "tokens")),
                                                                         most = fmax(most, row_number(row, "tokens"));
    fprintf(file, "</p>\n<details><summary>%s: %zu, from about %.0f to %.0f words on</summary><p>", before, later,
            least, most);
    put_names(file, overtakes, LATER);
    fputs(".</p></details>\n", file);
}

void findings_put_crossovers(FILE *file, const json_t *overtakes, hga_id shortest, hga_id longest)
{
    size_t n[3] = {0}, i, all = json_array_size(overtakes);
    json_t *row;
    json_array_foreach(overtakes, i, row) n[crossing_of(row)]++;
    if (all == 0) return;
    fputs("<p class=\"crossovers\">", file);
    if (n[AT_ONCE] == all)
        fprintf(file, "Every hierarchy is faster than dense attention already at %d words.", shortest);
    else if (n[AT_ONCE])
        fprintf(file, "%zu of %zu hierarchies %s faster than dense attention already at %d words.", n[AT_ONCE], all,
                n[AT_ONCE] == 1 ? "is" : "are", shortest);
    if (n[NEVER]) {
        fprintf(file, " Not faster at %d words: ", longest);
        put_names(file, overtakes, NEVER);
        fputs(".", file);
    }
    if (n[LATER])
        put_later(file, overtakes, n[LATER], n[AT_ONCE] ? "Later faster" : "Faster than dense attention");
    else
        fputs("</p>\n", file);
}
