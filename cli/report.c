/* report.c: the page that `hga run` writes beside its table. */
#include "report.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "run_page.h"
#include "bench_report.h"
#include "html.h"
#include "outfile.h"
#include "palette.h"
#include "plot.h"
#include "row_charts.h"
#include "version.h"
#include "view_data.h"

/* The first words are enough to see windows of 64 to both sides, and a cell of the picture is two of them. */
enum { CELLS = 128, FIRST_WORDS = 256, MOST_WORDS = 200000 };

/* ---- collecting ---- */

int report_start(const scene_text *source, const contenders *all, report *out)
{
    hga_id first = source->words < FIRST_WORDS ? source->words : FIRST_WORDS;
    *out = (report){.source = source, .all = all, .growth = json_array()};
    MUST(take(all->n, sizeof *out->cases, &out->cases));
    return scene_make(source, first, &out->first_words);
}

/* The pattern on the first words, where single words can be seen. */
static int draw_start(const scene *first_words, const contender *c, picture *out)
{
    hga_graph *g = NULL;
    hga_program p;
    int status = CLI_GOOD;
    TRY(contender_build(first_words, c, &g, &p));
    TRY(picture_pattern(&p, g, CELLS, CELLS, NULL, out));
done:
    hga_graph_destroy(g);
    return status;
}

/* The viewer's data of the whole text's graph. The words are the same for all, and in the page once. */
static int keep_view(const contender *c, const hga_graph *g, const hga_program *p, char **out)
{
    static const char *const none[1];
    char title[128];
    const hga_view view = {.title = title, .program = p, .max_edges = VIEW_MOST_EXPLICIT, .word = none};
    snprintf(title, sizeof title, "%s%s%s", c->variant->name, *c->parameters ? " " : "", c->parameters);
    return view_data(g, &view, out);
}

/* Fills in what the page shows of a contender: two pictures, its plan, and the graph to explore. */
int report_case_fill(void *context, const contender *of, const hga_graph *g, const hga_program *p, const hga_plan *plan)
{
    report *r = context;
    report_case *c = &r->cases[of - r->all->of];
    r->threads = hga_plan_threads(plan);
    MUST(picture_pattern(p, g, CELLS, CELLS, NULL, &c->whole));
    MUST(draw_start(&r->first_words, of, &c->start));
    MUST(complain_of(hga_plan_explain(plan, NULL, HGA_TEXT, &c->plan), CLI_OUTSIDE, of->variant->name));
    return keep_view(of, g, p, &c->view);
}

void report_clear(report *r)
{
    for (int i = 0; r->cases && i < r->all->n; i++) {
        picture_clear(&r->cases[i].whole);
        picture_clear(&r->cases[i].start);
        hga_text_free(r->cases[i].plan);
        hga_text_free(r->cases[i].view);
    }
    free(r->cases);
    json_decref(r->growth);
    scene_clear(&r->first_words);
    *r = (report){0};
}

/* ---- the head ---- */

/* "1024 words in 40 sentences, 9 sections; 8 heads x 64"; kinds with as many units as words are left out. */
void report_summary(FILE *file, const scene_text *source, const json_t *levels, void (*put)(FILE *, const char *))
{
    const char *kind, *before = " in ";
    const json_t *count;
    fprintf(file, "%d words", source->words);
    json_object_foreach((json_t *)(uintptr_t)levels, kind, count)
    {
        long long units = (long long)json_integer_value(count);
        if (units == source->words) continue;
        fprintf(file, "%s%lld ", before, units);
        put(file, kind);
        fputs(units == 1 ? "" : "s", file);
        before = ", ";
    }
    fprintf(file, "; %d heads x %d", source->shape.n_heads, source->shape.dim);
}

/* How many words, in how many units of each kind, and in which setting they were measured. */
static void put_summary(FILE *file, const void *context)
{
    const report *r = context;
    report_summary(file, r->source, r->levels, html_text);
    fprintf(file, ", %d thread%s", r->threads, r->threads == 1 ? "" : "s");
    call_tell(file, r->call, html_text);
}

static void put_date(FILE *file, const void *context)
{
    (void)context;
    char text[64] = "";
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc)) strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc);
    fprintf(file, "%s, hga %s (%s)", text, hga_version(), BUILD_COMMIT);
}

/* ---- the table ---- */

static void put_table(FILE *file, const void *context)
{
    const report *r = context;
    html_table_put(file, r->rows, r->columns, 1);
}

/* ---- time against length ---- */

/* The rows that no other work disturbed: what may be said in a sentence. */
static json_t *undisturbed(const json_t *rows)
{
    json_t *mine = json_array(), *row;
    size_t i;
    json_array_foreach(rows, i, row) if (!row_is(row, "disturbed")) json_array_append(mine, row);
    return mine;
}

/* The rows of one mask, without it in their names. */
static json_t *rows_of(const json_t *rows, int causal)
{
    json_t *mine = json_array(), *row;
    size_t i;
    json_array_foreach(rows, i, row)
    {
        if (row_is(row, "causal") != causal) continue;
        const char *said = row_text(row, "parameters"), *mask = strstr(said, "causal=1");
        size_t length = mask ? (size_t)(mask - said) : strlen(said);
        json_t *named = json_copy(row);
        if (mask && length) length--; /* the blank before it */
        json_object_set_new(named, "parameters", json_stringn(said, length));
        json_array_append_new(mine, named);
    }
    return mine;
}

static void put_chart(FILE *file, const report *r, int causal, const char *title, const char *says)
{
    json_t *mine = rows_of(r->growth, causal), *still = undisturbed(mine), *overtakes = bench_overtakes(still);
    fputs("<figure>", file);
    chart_put_times(file, &(time_rows){mine, overtakes, "words", title});
    fprintf(file, "<figcaption>%s</figcaption></figure>", says);
    json_decref(overtakes);
    json_decref(still);
    json_decref(mine);
}

/* The times on prefixes, without and with the causal mask, and where each variant overtakes dense attention. */
static void put_growth(FILE *file, const void *context)
{
    const report *r = context;
    hga_id length[MAX_LENGTHS];
    int n = growth_lengths(r->source->words, length);
    if (n < 2) {
        fputs("<p>The text is too short for prefixes.</p>\n", file);
        return;
    }
    json_t *still = undisturbed(r->growth), *overtakes = bench_overtakes(still);
    fputs("<div class=\"charts\">", file);
    put_chart(file, r, 0, "Milliseconds against words, both logarithmic", "Every word may see every other.");
    put_chart(file, r, 1, "Milliseconds against words, both logarithmic, causal",
              "Causal: a word sees itself and earlier ones.");
    fputs("</div>\n", file);
    if (json_array_size(still) < json_array_size(r->growth))
        fprintf(file, "<p>Hollow dots are times that other work on this machine disturbed (%zu of %zu).</p>\n",
                json_array_size(r->growth) - json_array_size(still), json_array_size(r->growth));
    findings_put_crossovers(file, overtakes, length[0], length[n - 1]);
    json_decref(overtakes);
    json_decref(still);
}

/* ---- error against time ---- */

/* The variants beside dense attention: their error against their time. */
static void put_errors(FILE *file, const void *context)
{
    json_t *others = json_array(), *row;
    size_t i;
    json_array_foreach(((const report *)context)->rows, i, row) if (strcmp(row_text(row, "variant"), "dense") != 0)
        json_array_append_new(others, json_copy(row));
    chart_mark_fronts(others);
    if (json_array_size(others)) chart_put_errors(file, others, "Error against milliseconds, both logarithmic");
    json_decref(others);
}

/* The words of the text, for the pattern's tooltips, and for the viewer. */
static void put_words(FILE *file, const void *context)
{
    const report *r = context;
    const hga_tree *t = &r->all_words->tree;
    char word[256];
    fputc('[', file);
    for (hga_id i = 0; i < t->n_leaves && i < MOST_WORDS; i++) {
        snprintf(word, sizeof word, "%.*s", (int)(t->leaf_end[i] - t->leaf_begin[i]),
                 r->source->text + t->leaf_begin[i]);
        if (i) fputc(',', file);
        html_json_string(file, word);
    }
    fputc(']', file);
}

/* The viewer's page as a string, and its data of each variant. */
static void put_viewer(FILE *file, const void *context)
{
    (void)context;
    html_json_string(file, view_template());
}

static void put_views(FILE *file, const void *context)
{
    const report *r = context;
    for (int i = 0; i < r->all->n; i++)
        fprintf(file, "<script type=\"application/json\" id=\"view%d\">%s</script>\n", i, r->cases[i].view);
}

/* ---- patterns ---- */

/* A hatch over the cells in which pairs are covered more than once. */
static void put_twice(FILE *file, const picture *p)
{
    unsigned char *mark = NULL;
    if (p->coverage.more <= 0 || picture_overlaps(p, &mark)) return;
    fputs("<path class=\"twice\" d=\"", file);
    for (hga_id y = 0; y < p->rows; y++)
        for (hga_id x = 0, end; x < p->columns; x = end + 1) {
            const unsigned char *row = mark + (int64_t)y * p->columns;
            for (end = x; end < p->columns && row[end]; end++) continue;
            if (end > x) fprintf(file, "M%d %d.5h%d", x, y, end - x);
        }
    fputs("\"/>", file);
    free(mark);
}

/* A pattern as SVG, with the cells that are covered more than once on top. */
static void put_picture(FILE *file, const picture *p, const char *says)
{
    const layout cells = {.cell_width = 1, .cell_height = 1, .plot_width = p->columns, .plot_height = p->rows};
    fprintf(file,
            "<figure><svg class=\"pattern\" viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"Attention pattern: %d "
            "words by %d words\" data-words=\"%d\" shape-rendering=\"crispEdges\">",
            p->columns, p->rows, p->n_queries, p->n_keys, p->n_keys);
    plot_data(file, &cells, p);
    put_twice(file, p);
    fprintf(file, "</svg><figcaption>%s</figcaption></figure>\n", says);
}

/* A level's colour, and its share of what is covered. */
static void put_legend(FILE *file, const picture *p, hga_id n_levels)
{
    double seen = 0;
    for (hga_id l = 0; l < n_levels; l++) seen += p->level_pairs[l];
    fputs("<p class=\"legend\">Of what is seen: ", file);
    for (hga_id l = 0; l < n_levels; l++)
        if (p->level_pairs[l] > 0)
            fprintf(file, "<span><i style=\"background: #%06x\"></i>level %d: %.3g %%</span> ",
                    (unsigned)level_colour(l, n_levels), l, seen > 0 ? 100 * p->level_pairs[l] / seen : 0);
    if (p->coverage.more > 0) fputs("<span><i class=\"twice\"></i>more than once</span>", file);
    fputs("</p>\n", file);
}

static void put_share(FILE *file, const char *before, int64_t part, int64_t all)
{
    fprintf(file, "%s%.3g %% (%lld)", before, all ? 100 * (double)part / (double)all : 0, (long long)part);
}

/* The coverage in words; the counts themselves where they say more. */
static void put_coverage(FILE *file, const picture *p)
{
    const hga_coverage *c = &p->coverage;
    const char *pairs =
        c->pairs < (int64_t)p->n_queries * p->n_keys ? "pair of a word and an earlier one or itself" : "pair of words";
    int64_t n = p->n_queries, not_later = n == p->n_keys && !c->later ? n * (n + 1) / 2 : -1;
    if (c->once == not_later && c->more == 0) {
        fputs("<p>Every pair of a word and an earlier one or itself exactly once; no word sees a later one.</p>\n",
              file);
        return;
    }
    if (c->once == c->pairs)
        fprintf(file, "<p>Every %s exactly once", pairs);
    else if (c->none == 0)
        put_share(file, "<p>Every pair, more than once ", c->more, c->pairs);
    else if (c->more == 0 && c->none == c->none_diagonal)
        fprintf(file, "<p>Every %s exactly once, but for a word and itself", pairs);
    else
        put_share(file, c->more ? "<p>Once " : "<p>No pair more than once; once ", c->once, c->pairs);
    if (c->none > 0 && !(c->more == 0 && c->none == c->none_diagonal)) {
        if (c->more > 0) put_share(file, ", more often ", c->more, c->pairs);
        put_share(file, ", never ", c->none, c->pairs);
    }
    fputs(c->later ? "; words see later ones.</p>\n" : "; no word sees a later one.</p>\n", file);
}

/* A contender's section: pictures, legend, coverage, and its plan folded away. */
static void put_case(FILE *file, const report *r, int i)
{
    const report_case *c = &r->cases[i];
    hga_id n_levels = picture_levels(&c->whole);
    char says[128];
    fprintf(file, "<section class=\"case\" id=\"v%d\">\n<h3>", i);
    html_text(file, r->all->of[i].variant->name);
    fputs(" <small>", file);
    html_text(file, r->all->of[i].parameters);
    fprintf(file,
            "</small> <a class=\"look\" href=\"#view=%d\" hidden>look around</a></h3>\n<div class=\"pictures\">\n", i);
    snprintf(says, sizeof says, "all %d words%s", r->source->words, c->whole.exact ? "" : ", counted into cells");
    put_picture(file, &c->whole, says);
    snprintf(says, sizeof says, "a text of the first %d words", c->start.n_queries);
    put_picture(file, &c->start, says);
    fputs("</div>\n", file);
    put_legend(file, &c->whole, n_levels);
    put_coverage(file, &c->whole);
    fputs("<details><summary>The plan</summary><pre>", file);
    html_text(file, c->plan ? c->plan : "");
    fputs("</pre></details>\n</section>\n", file);
}

static void put_cases(FILE *file, const void *context)
{
    const report *r = context;
    for (int i = 0; i < r->all->n; i++) put_case(file, r, i);
}

/* ---- the machine ---- */

/* The machine's limits, and the machine as the engine sees it. */
static void put_machine(FILE *file, const void *context)
{
    const report *r = context;
    char *text = NULL;
    fprintf(file,
            "<p>One thread: %.1f GFLOP/s (fp32 multiply-add), %.2f G exp/s, %.1f GB/s from L2, %.1f GB/s from memory. "
            "Instruction sets: %s. Compiler: ",
            r->peaks->fma_gflops, r->peaks->exp_gelements, r->peaks->l2_gbytes, r->peaks->dram_gbytes, hga_isa_list());
    html_text(file, BUILD_COMPILER);
    fputs(".</p>\n<pre>", file);
    if (hga_topology_describe(NULL, r->threads, HGA_TEXT, &text) == HGA_OK) html_text(file, text);
    hga_text_free(text);
    fputs("</pre>\n", file);
}

/* ---- the page ---- */

static int put_page(FILE *file, const void *context)
{
    const report *r = context;
    const char *text = file_name(r->source->name);
    char title[FILENAME_MAX], kl_words[16];
    snprintf(title, sizeof title, "hga run: %s", text);
    snprintf(kl_words, sizeof kl_words, "%d", r->kl_words);
    const html_mark marks[] = {
        {"title", title, NULL},
        {"text", text, NULL},
        {"summary", NULL, put_summary},
        {"date", NULL, put_date},
        {"findings", NULL, findings_put},
        {"table", NULL, put_table},
        {"kl_words", kl_words, NULL},
        {"errors", NULL, put_errors},
        {"growth", NULL, put_growth},
        {"cases", NULL, put_cases},
        {"machine", NULL, put_machine},
        {"words", NULL, put_words},
        {"viewer", NULL, put_viewer},
        {"views", NULL, put_views},
        {0},
    };
    html_fill(file, run_page, marks, r);
    return CLI_GOOD;
}

int report_write(const report *r, const char *path) { return outfile_write(path, put_page, r); }
