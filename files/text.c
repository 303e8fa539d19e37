/* text.c: the hierarchy of a text: books, chapters, paragraphs or verses, sentences, words. Every word stores the
   highest level of which it begins a member; a level's members are then the words that begin at it or above, and a
   level with as many members as the one above it (or as there are words) adds nothing and is left out. Lines give the
   levels down to paragraphs, ICU the sentences and words. */
#include "text.h"
#include "text_lines.h"

#include <string.h>
#include <unicode/ubrk.h>
#include <unicode/uchar.h>
#include <unicode/utext.h>

static const char *const prose_kinds[] = {"word", "sentence", "paragraph", "chapter", "book", "text"};
static const char *const verse_kinds[] = {"word", "sentence", "verse", "chapter", "book", "text"};

typedef struct word {
    int32_t begin, end;
    uint8_t opens;
} word;

typedef struct reader {
    text_lines lines;
    word *words;
    int64_t n_words, word_capacity;
} reader;

/* ---- UTF-8 ---- */

/* the code point at s and how many bytes it takes; 0 if it is not UTF-8 (RFC 3629: no surrogates, nothing longer than
   needed) */
static int decode(const unsigned char *s, const unsigned char *end, int32_t *point)
{
    static const int32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int n = *s < 0x80 ? 1 : *s < 0xc2 ? 0 : *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : *s < 0xf5 ? 4 : 0;
    if (n == 0 || end - s < n) return 0;
    int32_t c = n == 1 ? *s : *s & (0x7f >> n);
    for (int i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    *point = c;
    return c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) ? 0 : n;
}

/* Checks that the text is UTF-8; the error gives the first invalid byte. */
static hga_status check_utf8(const char *text, int32_t bytes)
{
    const unsigned char *start = (const unsigned char *)text, *s = start, *end = start + bytes;
    int32_t point;
    while (s < end) {
        int n = *s < 0x80 ? 1 : decode(s, end, &point);
        if (n == 0) return hga_fail(HGA_EFORMAT, "byte %lld (0x%02x) is not valid UTF-8", (long long)(s - start), *s);
        s += n;
    }
    return HGA_OK;
}

/* ---- sentences and words ---- */

static hga_status icu_failure(const char *what, UErrorCode code)
{
    if (code == U_MEMORY_ALLOCATION_ERROR) return hga_fail(HGA_ENOMEM, "ICU: %s: out of memory", what);
    return hga_fail(HGA_EEXTERNAL, "ICU: %s: %s", what, u_errorName(code));
}

/* Opens an ICU iterator over the text. (ICU 72 itself leaks two small blocks when malloc fails inside ubrk_open.) */
static hga_status open_breaks(UBreakIteratorType type, const char *locale, UText *text, UBreakIterator **out)
{
    UErrorCode code = U_ZERO_ERROR;
    *out = ubrk_open(type, locale ? locale : "", NULL, 0, &code);
    if (U_SUCCESS(code)) ubrk_setUText(*out, text, &code);
    return U_FAILURE(code) ? icu_failure(type == UBRK_WORD ? "word breaks" : "sentence breaks", code) : HGA_OK;
}

/* Does the text between two breaks have a letter, digit or symbol? ICU's word status covers letters and digits, but
   counts symbols as punctuation. */
static int is_word(const reader *r, UBreakIterator *words, int32_t begin, int32_t end)
{
    const unsigned char *s = (const unsigned char *)r->lines.text + begin,
                        *e = (const unsigned char *)r->lines.text + end;
    int32_t point = 0;
    if (ubrk_getRuleStatus(words) >= UBRK_WORD_NONE_LIMIT) return 1;
    for (int n; s < e && (n = decode(s, e, &point)) > 0; s += n)
        if (U_MASK(u_charType(point)) & (U_GC_L_MASK | U_GC_N_MASK | U_GC_S_MASK)) return 1;
    return 0;
}

static hga_status add_word(reader *r, int32_t begin, int32_t end, int opens)
{
    hga_status st = hga_grow(r->lines.a, &r->words, &r->word_capacity, r->n_words, r->n_words + 1, sizeof *r->words);
    if (!st) r->words[r->n_words++] = (word){begin, end, (uint8_t)opens};
    return st;
}

/* Visits the breaks; the level that a word begins is the highest mark or sentence break between it and the word before.
   */
static hga_status walk_breaks(reader *r, UBreakIterator *words, UBreakIterator *sentences, hga_id max_words)
{
    hga_status st = HGA_OK;
    int32_t sentence = ubrk_first(sentences), begin = ubrk_first(words), end;
    int opens = BOOK;
    for (int64_t m = 0; (end = ubrk_next(words)) != UBRK_DONE; begin = end) {
        if (!is_word(r, words, begin, end)) continue;
        for (; m < r->lines.n_marks && r->lines.marks[m].at <= begin; m++)
            opens = r->lines.marks[m].level < opens ? r->lines.marks[m].level : opens;
        for (; sentence != UBRK_DONE && sentence <= begin; sentence = ubrk_next(sentences))
            opens = opens < SENTENCE ? opens : SENTENCE;
        HGA_TRY(add_word(r, begin, end, opens));
        if (r->n_words == max_words) break;
        opens = WORD;
    }
done:
    return st;
}

/* Finds words and starts of sentences with ICU. */
static hga_status break_words(reader *r, const char *locale, hga_id max_words)
{
    hga_status st = HGA_OK;
    UErrorCode code = U_ZERO_ERROR;
    UBreakIterator *words = NULL, *sentences = NULL;
    UText *text = utext_openUTF8(NULL, r->lines.text, r->lines.bytes, &code);
    if (U_FAILURE(code)) return icu_failure("text", code);
    HGA_TRY(open_breaks(UBRK_WORD, locale, text, &words));
    HGA_TRY(open_breaks(UBRK_SENTENCE, locale, text, &sentences));
    HGA_TRY(walk_breaks(r, words, sentences, max_words));
done:
    if (words) ubrk_close(words);
    if (sentences) ubrk_close(sentences);
    utext_close(text);
    return st;
}

/* ---- the tree ---- */

typedef struct levels {
    int64_t count[N_LEVELS]; /* members; 0: left out */
    int64_t first[N_LEVELS]; /* node of the first */
    int64_t n_nodes;
} levels;

/* Counts a level's members: the words that begin it or a higher level. */
static levels count_members(const reader *r)
{
    levels v = {.n_nodes = 0};
    int64_t above = 1;
    for (int64_t i = 0; i < r->n_words; i++) v.count[r->words[i].opens]++;
    for (int k = 1; k < N_LEVELS; k++) v.count[k] += v.count[k - 1];
    for (int k = 0; k < WORD; k++) {
        if (v.count[k] == above || v.count[k] == r->n_words)
            v.count[k] = 0;
        else
            above = v.count[k];
    }
    for (int k = WORD; k >= 0; k--) v.first[k] = v.n_nodes, v.n_nodes += v.count[k];
    if (r->n_words > 1) v.n_nodes++;
    return v;
}

/* Allocates a tree of that many nodes and words. */
static hga_status allocate(const hga_allocator *a, int64_t nodes, int64_t words, hga_tree *t)
{
    hga_status st = HGA_OK;
    if (nodes > INT32_MAX - 2) return hga_fail(HGA_EOVERFLOW, "%lld nodes do not fit a 32-bit id", (long long)nodes);
    t->n = (hga_id)nodes, t->n_leaves = (hga_id)words;
    HGA_TRY(hga_new(a, nodes, sizeof *t->parent, &t->parent));
    HGA_TRY(hga_new(a, nodes, sizeof *t->kind, &t->kind));
    HGA_TRY(hga_new(a, words, sizeof *t->leaf_node, &t->leaf_node));
    HGA_TRY(hga_new(a, words, sizeof *t->leaf_begin, &t->leaf_begin));
    HGA_TRY(hga_new(a, words, sizeof *t->leaf_end, &t->leaf_end));
done:
    return st;
}

/* Adds words in order; each first adds a member to the levels it begins, the highest first, so that a member's parent
   is the current one above it. */
static void plant(const reader *r, const levels *v, hga_tree *t)
{
    int64_t next[N_LEVELS];
    hga_id root = t->n - 1;
    memcpy(next, v->first, sizeof next);
    for (hga_id i = 0; i < t->n_leaves; i++) {
        hga_id up = t->n > 1 ? root : -1;
        for (int k = 0; k < N_LEVELS; k++) {
            if (v->count[k] == 0) continue;
            if (k >= r->words[i].opens) {
                t->parent[next[k]] = up;
                t->kind[next[k]++] = (uint8_t)(WORD - k);
            }
            up = (hga_id)next[k] - 1;
        }
        t->leaf_node[i] = i;
        t->leaf_begin[i] = r->words[i].begin, t->leaf_end[i] = r->words[i].end;
    }
    if (t->n > 1) t->parent[root] = -1, t->kind[root] = WORD + 1;
    t->kind_name = r->lines.verses ? verse_kinds : prose_kinds;
    t->n_kinds = N_LEVELS + 1;
}

hga_status text_check(const char *text, size_t bytes)
{
    if (bytes > INT32_MAX)
        return hga_fail(HGA_EOVERFLOW, "a text of %zu bytes; there are at most %d", bytes, INT32_MAX);
    return check_utf8(text, (int32_t)bytes);
}

/* Makes the tree of a text; *out stays empty for a text without words. */
static hga_status read_text_tree(const hga_allocator *a, const char *text, size_t bytes, const char *locale,
                                 hga_id max_words, hga_tree *out)
{
    hga_status st = HGA_OK;
    reader r = {.lines = {.a = a}};
    memset(out, 0, sizeof *out);
    if (a) out->allocator = *a;
    HGA_TRY(text_check(text, bytes));
    r.lines.bytes = (int32_t)bytes;
    HGA_TRY(text_lines_read(&r.lines, text));
    HGA_TRY(break_words(&r, locale, max_words));
    if (r.n_words == 0) goto done;
    levels v = count_members(&r);
    HGA_TRY(allocate(a, v.n_nodes, r.n_words, out));
    plant(&r, &v, out);
done:
    text_lines_clear(&r.lines);
    hga_delete(a, r.words, r.word_capacity, sizeof *r.words);
    if (st) hga_tree_clear(out);
    return st;
}

hga_status text_words(const hga_allocator *a, const char *text, size_t bytes, hga_tree *out)
{
    return read_text_tree(a, text, bytes, NULL, 0, out);
}

hga_status hga_tree_text(const hga_allocator *a, const char *text, size_t bytes, const char *locale, hga_id max_words,
                         hga_tree *out)
{
    memset(out, 0, sizeof *out);
    if (max_words < 0) return hga_fail(HGA_EINVAL, "max_words is %d; it must be at least 0", max_words);
    if (!text || bytes == 0) return hga_fail(HGA_EFORMAT, "no word in 0 bytes of text");
    hga_status st = read_text_tree(a, text, bytes, locale, max_words, out);
    if (!st && out->n == 0) st = hga_fail(HGA_EFORMAT, "no word in %zu bytes of text", bytes);
    return st;
}
