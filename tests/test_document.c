/* Trees of HTML, Markdown and linkages: which element stands over which words. */
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY = 2000 };

/* "(kind name child child)": a word by itself, a node with its kind, its name in quotes and its children. */
static void tell(const hga_tree *t, hga_id v, char *text)
{
    size_t used = strlen(text);
    const char *name = hga_tree_name(t, v);
    if (t->kind[v] == 0) {
        snprintf(text + used, CAPACITY - used, "%s", name ? name : "-");
        return;
    }
    snprintf(text + used, CAPACITY - used, name ? "(%s '%s'" : "(%s%s", t->kind_name[t->kind[v]], name ? name : "");
    for (hga_id c = 0; c < t->n; c++) {
        if (t->parent[c] != v) continue;
        strncat(text, " ", 2);
        tell(t, c, text);
    }
    strncat(text, ")", 2);
}

/* And leaves are in reading order, parents before their children. */
static void assert_tree(hga_status st, hga_tree *t, const char *want)
{
    char got[CAPACITY] = "";
    assert_ok(st);
    for (hga_id v = 0; v < t->n; v++) {
        if (t->parent[v] < 0)
            tell(t, v, got);
        else
            assert_true(t->parent[v] < v);
    }
    for (hga_id i = 1; i < t->n_leaves; i++) assert_true(t->leaf_node[i] > t->leaf_node[i - 1] || t->n_leaves < 2);
    hga_tree_clear(t);
    assert_string_equal(got, want);
}

static void assert_html(const char *text, const char *want)
{
    hga_tree t;
    hga_status st = hga_tree_html(NULL, text, strlen(text), &t);
    assert_tree(st, &t, want);
}

static void assert_markdown(const char *text, const char *want)
{
    hga_tree t;
    hga_status st = hga_tree_markdown(NULL, text, strlen(text), &t);
    assert_tree(st, &t, want);
}

static void headings_open_sections_up_to_the_next_as_high(void **state)
{
    (void)state;
    assert_html("<h1>A</h1><p>one</p><h2>B</h2><p>two</p><h1>C</h1><p>three</p>",
                "(document (section 'A' (heading A) (paragraph one) (section 'B' (heading B) (paragraph two))) "
                "(section 'C' (heading C) (paragraph three)))");
    assert_markdown("# A\n\none\n\n## B\n\ntwo\n\nC\n=\n\nthree\n",
                    "(document (section 'A' (heading A) (paragraph one) (section 'B' (heading B) (paragraph two))) "
                    "(section 'C' (heading C) (paragraph three)))");
}

static void lists_hold_items_that_hold_lists(void **state)
{
    (void)state;
    assert_html("<ul><li>a<li>b<ul><li>c<li>d</ul><li>e</ul><ol><li>f<li>g</ol>",
                "(document (list (item a) (item b (list (item c) (item d))) (item e)) (list (item f) (item g)))");
    assert_markdown("- a\n- b\n  - c\n  - d\n- e\n\n1. f\n2. g\n",
                    "(document (list (item a) (item b (list (item c) (item d))) (item e)) (list (item f) (item g)))");
}

static void sentences_stand_between_a_paragraph_and_its_words(void **state)
{
    (void)state;
    assert_html("<p>It rained. We went <b>home</b>.<p>Then",
                "(document (paragraph (sentence It rained) (sentence We went home)) (paragraph Then))");
    assert_markdown("It rained. We\nwent **home** by [car](http://x.y/z_w).\n\nThen\n",
                    "(document (paragraph (sentence It rained) (sentence We went home by car)) (paragraph Then))");
}

static void scripts_are_no_text_and_the_title_is_the_roots_name(void **state)
{
    (void)state;
    assert_html("<html><head><title> A  page &amp; more</title><style>b{}</style></head><body><script>var x</script>"
                "<p>one<p>\xc3\xbcr</body></html>",
                "(document 'A page & more' (paragraph one) (paragraph \xc3\xbcr))");
    assert_html("<meta charset=iso-8859-1><p>\xfcr<p>b", "(document (paragraph \xc3\xbcr) (paragraph b))");
}

/* A table of one column is a table of rows; a division that holds one paragraph is the paragraph. */
/* libxml2 stops at 256 elements inside of each other unless it is told otherwise, and what comes after is lost. */
static void words_below_any_depth_are_there(void **state)
{
    (void)state;
    for (int depth = 200; depth <= 20000; depth *= 10) {
        size_t capacity = (size_t)depth * 5 + 100;
        char *page = malloc(capacity);
        hga_tree t;
        assert_non_null(page);
        strcpy(page, "<p>hello there</p>");
        for (char *to = page + strlen(page), *end = to + depth * 5; to < end; to += 5) strcpy(to, "<div>");
        strcat(page, "lost words");
        assert_ok(hga_tree_html(NULL, page, strlen(page), &t));
        assert_int_equal(t.n_leaves, 4);
        hga_tree_clear(&t);
        free(page);
    }
}

static void what_holds_one_element_only_is_that_element(void **state)
{
    (void)state;
    assert_html("<div><div><p>one two</div></div><table><tr><td>a<td>b<tr><td>c d</table>",
                "(document (paragraph one two) (table (row (cell a) (cell b)) (row c d)))");
}

static void fences_quotes_and_tables_are_blocks(void **state)
{
    (void)state;
    assert_markdown("> said\n> he\n\n~~~c\nint a;\n# no heading\n~~~\n| x | y |\n|---|---|\n| z | w |\n",
                    "(document (quote said he) (code int a no heading) "
                    "(table (row (cell x) (cell y)) (row (cell z) (cell w))))");
    assert_markdown("> ~~~\n> make\n> ~~~\n\nplain\n", "(document (code make) (paragraph plain))");
    assert_markdown("*   run\n\n    ~~~\n    make\n    ~~~\n\nplain\n",
                    "(document (list (paragraph run) (code make)) (paragraph plain))");
    assert_markdown("    make\n\nplain\n", "(document (code make) (paragraph plain))");
}

/* Of a line that is a paragraph's, its marks are no more than that. */
static void blocks_begin_where_commonmark_says(void **state)
{
    (void)state;
    assert_markdown("One\nTwo\n===\n\nwords\n", "(document 'One Two' (heading One Two) (paragraph words))");
    assert_markdown("It was\n1986. A good year.\n\nThen\n",
                    "(document (paragraph (sentence It was 1986) (sentence A good year)) (paragraph Then))");
    assert_markdown("a\n    b\n\nc\n", "(document (paragraph a b) (paragraph c))");
    assert_markdown("a | b\n\nc\n", "(document (paragraph a | b) (paragraph c))");
    assert_markdown("\xef\xbb\xbf# A\n\nb\n", "(document 'A' (heading A) (paragraph b))");
}

static void words_are_those_that_a_reader_sees(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"Type `ls` or ``a`b`` first", "Type ls or a ` b first"},
        {"<!-- a note\n\nof two -->\n\nx &lt; y &amp; &#233;t&eacute; &#x4e2d;",
         "x < y \xc3\xa9t\xc3\xa9 \xe4\xb8\xad"},
        {"[a link][1] and ![a picture](p.png) <b>bo</b>ld <https://x.y>\n\n[1]: http://z.w 'title'",
         "a link and bold https x.y"},
        {"<div align=center>\nin a division\n</div>\n\n<script>\nvar x\n\nvar y\n</script>\n\nafter",
         "in a division after"},
        {"- [x] done\n- [ ] to do", "done to do"},
        {"~~struck~~ *st**ro**ng* a\\_b a\\*b line  \nbreak<br>again", "struck strong a_b a b line break again"},
        {"&nosuch; &#0;x &copy", "nosuch \xef\xbf\xbd x copy"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hga_tree t;
        char words[CAPACITY] = "";
        assert_ok(hga_tree_markdown(NULL, cases[i].text, strlen(cases[i].text), &t));
        for (hga_id w = 0; w < t.n_leaves; w++) {
            if (w) strcat(words, " ");
            strcat(words, hga_tree_name(&t, t.leaf_node[w]));
        }
        hga_tree_clear(&t);
        assert_string_equal(words, cases[i].words);
    }
}

static void a_document_without_words_is_refused(void **state)
{
    (void)state;
    hga_tree t;
    assert_status(HGA_EFORMAT, hga_tree_html(NULL, "<p>", 3, &t));
    assert_null(t.parent);
    assert_status(HGA_EFORMAT, hga_tree_html(NULL, "", 0, &t));
    assert_status(HGA_EFORMAT, hga_tree_markdown(NULL, "- \n***\n", 7, &t));
    assert_status(HGA_EFORMAT, hga_tree_markdown(NULL, "a \xff", 3, &t));
    assert_non_null(strstr(hga_error_detail(), "byte 2"));
}

/* Deeper than anything stands its text is still there. */
static void nesting_has_no_end(void **state)
{
    (void)state;
    enum { DEPTH = 250 };
    char page[10 * DEPTH + 100] = "";
    for (int i = 0; i < DEPTH; i++) strcat(page, "<div>a<p>");
    hga_tree t;
    assert_ok(hga_tree_html(NULL, page, strlen(page), &t));
    assert_int_equal(t.n_leaves, DEPTH);
    hga_tree_clear(&t);
}

static void a_linkage_is_a_tree_of_clusters(void **state)
{
    (void)state;
    hga_tree t;
    assert_ok(hga_tree_linkage(NULL, (const double[]){0, 2, .5, 2, 1, 3, .7, 3}, 2, &t));
    static const hga_id want[] = {3, 4, 3, 4, -1};
    assert_int_equal(t.n, 5);
    assert_memory_equal(t.parent, want, sizeof want);
    hga_tree_clear(&t);
    assert_status(HGA_EFORMAT, hga_tree_linkage(NULL, (const double[]){0, 3, .5, 2, 1, 3, .7, 3}, 2, &t));
    assert_string_equal(hga_error_detail(), "linkage: merge 0 joins 3; there are the clusters 0 .. 2");
    assert_status(HGA_EFORMAT, hga_tree_linkage(NULL, (const double[]){0, 2, .5, 2, 0, 3, .7, 3}, 2, &t));
    assert_string_equal(hga_error_detail(), "linkage: merge 1 joins 0, which merge 0 has joined");
    assert_status(HGA_EFORMAT, hga_tree_linkage(NULL, (const double[]){0.5, 2, .5, 2}, 1, &t));
    assert_status(HGA_EINVAL, hga_tree_linkage(NULL, NULL, 1, &t));
}

/* What a file has, without the mark before UTF-8 and with a zero byte behind, whatever is in it. */
static void documents_are_loaded_whole(void **state)
{
    static const char mark[] = "\xef\xbb\xbf", path[] = "test_document.txt";
    char *text;
    size_t n;
    (void)state;
    for (int marked = 0; marked < 2; marked++)
        for (size_t length = 0; length < 70000; length = 2 * length + 1) {
            FILE *file = fopen(path, "wb");
            assert_non_null(file);
            if (marked) fputs(mark, file);
            for (size_t i = 0; i < length; i++) fputc((int)(i % 251), file);
            assert_int_equal(0, fclose(file));
            assert_ok(hga_document_load(path, &text, &n));
            assert_int_equal(length, n);
            for (size_t i = 0; i < length; i++) assert_int_equal(i % 251, (unsigned char)text[i]);
            assert_int_equal(0, text[n]);
            hga_text_free(text);
        }
    assert_int_equal(0, remove(path));
    assert_status(HGA_EIO, hga_document_load(path, &text, &n));
    assert_null(text);
    assert_int_equal(0, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_are_loaded_whole),
        cmocka_unit_test(headings_open_sections_up_to_the_next_as_high),
        cmocka_unit_test(words_below_any_depth_are_there),
        cmocka_unit_test(lists_hold_items_that_hold_lists),
        cmocka_unit_test(sentences_stand_between_a_paragraph_and_its_words),
        cmocka_unit_test(scripts_are_no_text_and_the_title_is_the_roots_name),
        cmocka_unit_test(what_holds_one_element_only_is_that_element),
        cmocka_unit_test(fences_quotes_and_tables_are_blocks),
        cmocka_unit_test(blocks_begin_where_commonmark_says),
        cmocka_unit_test(words_are_those_that_a_reader_sees),
        cmocka_unit_test(a_document_without_words_is_refused),
        cmocka_unit_test(nesting_has_no_end),
        cmocka_unit_test(a_linkage_is_a_tree_of_clusters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
