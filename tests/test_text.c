/* test_text.c: texts small enough to count by eye, and what is not text. */
#include "testing.h"

#include <stdlib.h>
#include <string.h>

static hga_tree read_text(const char *text, hga_id max_words)
{
    hga_tree t;
    assert_ok(hga_tree_text(NULL, text, strlen(text), NULL, max_words, &t));
    return t;
}

static int is_word(const char *text, const hga_tree *t, hga_id i, const char *want)
{
    size_t n = (size_t)(t->leaf_end[i] - t->leaf_begin[i]);
    return n == strlen(want) && memcmp(text + t->leaf_begin[i], want, n) == 0;
}

/* `want` are the words with single blanks between them */
static void assert_words(const char *text, const hga_tree *t, const char *want)
{
    char copy[512], *rest = copy;
    hga_id i = 0;
    strncpy(copy, want, sizeof copy - 1), copy[sizeof copy - 1] = 0;
    for (char *w = strtok_r(rest, " ", &rest); w; w = strtok_r(rest, " ", &rest), i++) {
        if (i >= t->n_leaves) fail_msg("%d words, and no \"%s\"", t->n_leaves, w);
        if (!is_word(text, t, i, w))
            fail_msg("word %d is \"%.*s\", not \"%s\"", i, (int)(t->leaf_end[i] - t->leaf_begin[i]),
                     text + t->leaf_begin[i], w);
    }
    assert_int_equal(t->n_leaves, i);
}

static hga_id count(const hga_tree *t, const char *kind)
{
    hga_id n = 0;
    for (hga_id v = 0; v < t->n; v++) n += strcmp(t->kind_name[t->kind[v]], kind) == 0;
    return n;
}

/* the words below the i-th node of a kind */
static hga_id words_below(const hga_tree *t, const char *kind, hga_id i)
{
    hga_id n = 0, node = 0;
    for (hga_id v = 0; v < t->n; v++)
        if (strcmp(t->kind_name[t->kind[v]], kind) == 0 && i-- == 0) node = v;
    for (hga_id w = 0; w < t->n_leaves; w++) {
        hga_id v = t->leaf_node[w];
        while (v >= 0 && v != node) v = t->parent[v];
        n += v == node;
    }
    return n;
}

/* hsa takes the tree as it is, and numbers it as it is */
static void assert_fits_hsa(const hga_tree *t)
{
    hga_graph *g;
    hga_program p;
    hga_id *node_of = memory(t->n, sizeof *node_of);
    hga_hsa h;
    hga_defaults(&h);
    h.parent = t->parent, h.n_parent = t->n, h.n_tokens = t->n_leaves, h.node_of = node_of;
    assert_ok(hga_build_hsa(&h, &g, &p));
    for (hga_id v = 0; v < t->n; v++) assert_int_equal(node_of[v], v);
    for (hga_id i = 0; i < t->n_leaves; i++) assert_int_equal(node_of[t->leaf_node[i]], i);
    free(node_of);
    hga_graph_destroy(g);
}

/* ---- prose ---- */

static void chapters_paragraphs_sentences_and_words(void **state)
{
    (void)state;
    const char *text = "CHAPTER I\n\nIt rains. We stay in.\n\nIt stops.\n\nCHAPTER II\n\nThe sun is\nout. We go.\n";
    hga_tree t = read_text(text, 0);
    assert_words(text, &t, "CHAPTER I It rains We stay in It stops CHAPTER II The sun is out We go");
    assert_int_equal(count(&t, "text"), 1);
    assert_int_equal(count(&t, "book"), 0);
    assert_int_equal(count(&t, "chapter"), 2);
    assert_int_equal(count(&t, "paragraph"), 5);
    assert_int_equal(count(&t, "sentence"), 7);
    assert_int_equal(words_below(&t, "chapter", 0), 9);
    assert_int_equal(words_below(&t, "paragraph", 4), 6);
    assert_int_equal(words_below(&t, "sentence", 5), 4); /* it goes on over a line's end */
    assert_int_equal(t.parent[t.n - 1], -1);
    assert_fits_hsa(&t);
    hga_tree_clear(&t);
}

static void books_stand_above_chapters(void **state)
{
    (void)state;
    const char *text =
        "BOOK ONE\n\nChapter 1\n\nA b. C d.\n\nChapter 2\n\nE f. G h.\n\nBOOK TWO\n\nChapter 1\n\nI j. K l.\n";
    hga_tree t = read_text(text, 0);
    assert_int_equal(count(&t, "book"), 2);
    assert_int_equal(count(&t, "chapter"), 3);
    assert_int_equal(words_below(&t, "chapter", 0), 8); /* both headings */
    assert_fits_hsa(&t);
    hga_tree_clear(&t);
}

static void a_level_that_adds_nothing_is_left_out(void **state)
{
    (void)state;
    hga_tree t = read_text("One two. Three four. Five six.", 0); /* one chapter, one paragraph */
    assert_int_equal(count(&t, "chapter"), 0);
    assert_int_equal(count(&t, "paragraph"), 0);
    assert_int_equal(count(&t, "sentence"), 3);
    assert_int_equal(t.n, 6 + 3 + 1);
    hga_tree_clear(&t);
    t = read_text("One two\n\nThree four\n\nFive six", 0); /* a sentence in every paragraph */
    assert_int_equal(count(&t, "paragraph"), 3);
    assert_int_equal(count(&t, "sentence"), 0);
    hga_tree_clear(&t);
    t = read_text("one two three", 0);
    assert_int_equal(t.n, 4);
    hga_tree_clear(&t);
    t = read_text("One. Two. Three.", 0); /* a word in every sentence */
    assert_int_equal(count(&t, "sentence"), 0);
    assert_int_equal(t.n, 4);
    hga_tree_clear(&t);
}

static void one_word_is_its_own_root(void **state)
{
    (void)state;
    hga_tree t = read_text("  word.\n", 0);
    assert_int_equal(t.n, 1);
    assert_int_equal(t.parent[0], -1);
    assert_int_equal(t.leaf_begin[0], 2);
    assert_int_equal(t.leaf_end[0], 6);
    assert_string_equal(t.kind_name[t.kind[0]], "word");
    assert_fits_hsa(&t);
    hga_tree_clear(&t);
}

/* How many chapters "A b. C d." has after each of these lines and between them. */
static hga_id chapters_after(const char *heading)
{
    char text[256];
    strcpy(text, "A b. C d.\n\n");
    strcat(text, heading);
    strcat(text, "\n\nA b. C d.\n");
    hga_tree t = read_text(text, 0);
    hga_id n = count(&t, "chapter") + count(&t, "book");
    hga_tree_clear(&t);
    return n ? n : 1;
}

static void headings_are_known_by_their_look(void **state)
{
    (void)state;
    static const char *const yes[] = {"CHAPTER IV",     "CHAPTER", "BOOK THE FIRST", "PART TWO",  "XIV",
                                      "XIV.",           "12",      "## Markdown",    "# A title", "Chapter 3. Storms",
                                      "Part One: Dawn", "MCMXC"};
    static const char *const no[] = {"IIII",
                                     "12345",
                                     "Chapters",
                                     "PARTLY",
                                     "#hashtag",
                                     "####### seven",
                                     "Part of it is done.",
                                     "Chapter 3 says that we must not go on.",
                                     "iv",
                                     "IXI",
                                     ".",
                                     "Part (of it is done"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (chapters_after(yes[i]) != 2) fail_msg("\"%s\" is a heading", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (chapters_after(no[i]) != 1) fail_msg("\"%s\" is no heading", no[i]);
}

static void line_ends_are_of_three_kinds(void **state)
{
    (void)state;
    static const char *const text[] = {"One two\nthree.\n\nFour. Five.", "One two\r\nthree.\r\n\r\nFour. Five.",
                                       "One two\rthree.\r\rFour. Five."};
    for (int i = 0; i < 3; i++) {
        hga_tree t = read_text(text[i], 0);
        assert_int_equal(t.n_leaves, 5);
        assert_int_equal(count(&t, "paragraph"), 2);
        assert_int_equal(count(&t, "sentence"), 3);
        hga_tree_clear(&t);
    }
}

/* ---- words ---- */

static void words_have_letters_digits_or_symbols(void **state)
{
    (void)state;
    const char *text = "\xef\xbb\xbf"
                       "Don't -- pay 3.14 \xe2\x82\xac, (na\xc3\xafve!) x = y ...";
    hga_tree t = read_text(text, 0);
    assert_words(text, &t, "Don't pay 3.14 \xe2\x82\xac na\xc3\xafve x = y");
    hga_tree_clear(&t);
}

static void a_prefix_has_the_levels_of_its_words(void **state)
{
    (void)state;
    const char *text = "CHAPTER I\n\nA b. C d.\n\nCHAPTER II\n\nE f. G h.\n";
    hga_tree t = read_text(text, 6);
    assert_words(text, &t, "CHAPTER I A b C d");
    assert_int_equal(count(&t, "chapter"), 0);
    assert_int_equal(count(&t, "paragraph"), 2);
    hga_tree_clear(&t);
}

/* ---- verses ---- */

static void verses_are_labelled(void **state)
{
    (void)state;
    const char *text = "Ge1:1 In the beginning. And then.\nGe1:2 And the earth,\n  without form.\nGe2:1 "
                       "Thus.\n1Cor13:4 Charity suffereth long.\n";
    hga_tree t = read_text(text, 0);
    assert_words(text, &t, "In the beginning And then And the earth without form Thus Charity suffereth long");
    assert_int_equal(count(&t, "book"), 2);
    assert_int_equal(count(&t, "chapter"), 3);
    assert_int_equal(count(&t, "verse"), 4);
    assert_int_equal(count(&t, "sentence"), 5);
    assert_int_equal(words_below(&t, "verse", 1), 5);
    assert_fits_hsa(&t);
    hga_tree_clear(&t);
}

static void chapters_of_one_book_have_no_book_above_them(void **state)
{
    (void)state;
    hga_tree t = read_text(
        "Song of songs\n1 John 1:1 That which was. From then.\n1 John 1:2 For life.\n1 John 2:1 My children.\n", 0);
    assert_int_equal(count(&t, "book"), 2); /* the title stands before the first label */
    hga_tree_clear(&t);
    t = read_text("1 John 1:1 That which was. From then.\n1 John 1:2 For life.\n1 John 2:1 My children.\n", 0);
    assert_int_equal(count(&t, "book"), 0);
    assert_int_equal(count(&t, "chapter"), 2);
    assert_int_equal(count(&t, "verse"), 3);
    hga_tree_clear(&t);
}

static void a_time_of_day_is_not_a_verse(void **state)
{
    (void)state;
    const char *text = "At 10:30 we leave.\nIt is late.\nWe run.\n";
    hga_tree t = read_text(text, 0);
    assert_true(is_word(text, &t, 0, "At"));
    assert_int_equal(count(&t, "verse"), 0);
    hga_tree_clear(&t);
}

/* ---- refusals ---- */

static void refuse(const char *text, size_t bytes, const char *says)
{
    hga_tree t;
    assert_status(HGA_EFORMAT, hga_tree_text(NULL, text, bytes, NULL, 0, &t));
    if (!strstr(hga_error_detail(), says)) fail_msg("\"%s\" does not say \"%s\"", hga_error_detail(), says);
    assert_null(t.parent);
    assert_int_equal(t.n, 0);
}

static void what_is_not_utf8_is_named_by_its_byte(void **state)
{
    (void)state;
    refuse("abc\xff", 4, "byte 3 (0xff)");
    refuse("a\xc0\x80", 3, "byte 1");        /* longer than needed */
    refuse("ab\xed\xa0\x80", 5, "byte 2");   /* a surrogate */
    refuse("\xf4\x90\x80\x80", 4, "byte 0"); /* above U+10FFFF */
    refuse("abcd\xe2\x82", 6, "byte 4");     /* cut off */
    refuse("\xc3\xa9\x80", 3, "byte 2");     /* a continuation alone */
}

static void a_text_without_words_is_refused(void **state)
{
    (void)state;
    refuse("", 0, "no word in 0 bytes");
    refuse(" .,\n--", 6, "no word in 6 bytes");
}

static void max_words_is_not_negative(void **state)
{
    (void)state;
    hga_tree t;
    assert_status(HGA_EINVAL, hga_tree_text(NULL, "a b", 3, NULL, -1, &t));
}

/* Any bytes are read or refused, and a tree is a tree. */
static void random_bytes_do_no_harm(void **state)
{
    (void)state;
    static const char *const piece[] = {"CHAPTER", " ",        "\n", "\n\n", "Ge1:1 ",       "1",     ":",  "IV", ".",
                                        "word ",   "\xc3\xa9", "# ", "\r",   "\xe2\x82\xac", "Book ", "\t", "2"};
    uint64_t rng = 5;
    for (int round = 0; round < 400; round++) {
        char text[600] = "x ";
        for (int i = random_below(&rng, 40); i > 0; i--)
            strcat(text, piece[random_below(&rng, sizeof piece / sizeof *piece)]);
        if (round % 4 == 0) text[random_below(&rng, (int64_t)strlen(text))] = (char)random_below(&rng, 256);
        hga_tree t;
        if (hga_tree_text(NULL, text, strlen(text), NULL, 0, &t)) continue;
        for (hga_id i = 0; i < t.n_leaves; i++) {
            assert_true(t.leaf_begin[i] < t.leaf_end[i] && t.leaf_end[i] <= (int64_t)strlen(text));
            assert_true(i == 0 || t.leaf_end[i - 1] <= t.leaf_begin[i]);
        }
        assert_fits_hsa(&t);
        hga_tree_clear(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chapters_paragraphs_sentences_and_words),
        cmocka_unit_test(books_stand_above_chapters),
        cmocka_unit_test(a_level_that_adds_nothing_is_left_out),
        cmocka_unit_test(one_word_is_its_own_root),
        cmocka_unit_test(headings_are_known_by_their_look),
        cmocka_unit_test(line_ends_are_of_three_kinds),
        cmocka_unit_test(words_have_letters_digits_or_symbols),
        cmocka_unit_test(a_prefix_has_the_levels_of_its_words),
        cmocka_unit_test(verses_are_labelled),
        cmocka_unit_test(chapters_of_one_book_have_no_book_above_them),
        cmocka_unit_test(a_time_of_day_is_not_a_verse),
        cmocka_unit_test(what_is_not_utf8_is_named_by_its_byte),
        cmocka_unit_test(a_text_without_words_is_refused),
        cmocka_unit_test(max_words_is_not_negative),
        cmocka_unit_test(random_bytes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
