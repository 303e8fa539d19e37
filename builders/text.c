/* text.c: the hierarchy a text has anyway: books, chapters, paragraphs or verses, sentences, words.

   Every word notes the highest level at which it begins something new; a level's members are then the words that begin
   at it or above, and a level with as many members as the one above it (or as there are words) adds nothing and is left
   out. Lines give the levels down to paragraphs, ICU the sentences and words.

   Headings: a line that starts with BOOK or PART (books), with CHAPTER, or has a Markdown #, or is a Roman or Arabic
   numeral alone (chapters);
 "Chapter One" and the like where a blank line or another heading comes before. A heading's words are a paragraph of
 what it opens; a heading
   right after a higher one opens nothing more.

   Verses: where more than half of the lines that are not blank begin with a label such as "1Cor13:4", labels (which are
   not words) alone give books, chapters and verses. */
#include "hga_builders.h"
#include "text.h"

#include <string.h>
#include <strings.h>
#include <unicode/ubrk.h>
#include <unicode/uchar.h>
#include <unicode/utext.h>

enum level { BOOK, CHAPTER, PARAGRAPH, SENTENCE, WORD, N_LEVELS };

static const char *const prose_kinds[] = {"word", "sentence", "paragraph", "chapter", "book", "text"};
static const char *const verse_kinds[] = {"word", "sentence", "verse", "chapter", "book", "text"};

typedef struct mark { /* here something of that level begins */
    int32_t at;
    uint8_t level;
} mark;

typedef struct word {
    int32_t begin, end;
    uint8_t opens;
} word;

typedef struct reader {
    const hga_allocator *a;
    char *text; /* a copy of the same length: labels and line ends inside paragraphs are blanks */
    int32_t bytes;
    int verses;
    mark *marks;
    int64_t n_marks, mark_room;
    word *words;
    int64_t n_words, word_room;
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

/* ---- lines ---- */

typedef struct line {
    int32_t begin, end; /* without white space at either end; equal: blank */
    int32_t start, next;
} line;

static int is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static int is_digit(char c) { return c >= '0' && c <= '9'; }

/* a letter for the purpose of labels: ASCII's, or any byte of a longer character */
static int is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80; }

/* the line at `at`; lines end with \n, \r\n or \r */
static line line_at(const reader *r, int32_t at)
{
    line l = {.begin = at, .start = at};
    int32_t e = at;
    while (e < r->bytes && r->text[e] != '\n' && r->text[e] != '\r') e++;
    l.end = l.next = e;
    if (l.next < r->bytes) l.next += l.next + 1 < r->bytes && r->text[e] == '\r' && r->text[e + 1] == '\n' ? 2 : 1;
    while (l.begin < l.end && is_space(r->text[l.begin])) l.begin++;
    while (l.end > l.begin && is_space(r->text[l.end - 1])) l.end--;
    return l;
}

static hga_status add_mark(reader *r, int32_t at, int level)
{
    hga_status st = hga_grow(r->a, &r->marks, &r->mark_room, r->n_marks, r->n_marks + 1, sizeof *r->marks);
    if (!st) r->marks[r->n_marks++] = (mark){at, (uint8_t)level};
    return st;
}

/* A line that goes on with its paragraph: its sentence may have begun before, and ICU ends sentences at line ends. */
static void join(reader *r, const line *l)
{
    for (int32_t i = l->start; i > 0 && (r->text[i - 1] == '\n' || r->text[i - 1] == '\r'); i--) r->text[i - 1] = ' ';
}

/* ---- verses ---- */

typedef struct label {
    int32_t name, name_end, chapter, chapter_end, end;
} label;

static int32_t skip_digits(const reader *r, int32_t at, int32_t end)
{
    while (at < end && is_digit(r->text[at])) at++;
    return at;
}

/* "1Cor13:4 ": perhaps a digit, letters, chapter:verse, then white space or the line's end; one blank may stand before
   and after the letters */
static int read_label(const reader *r, const line *l, label *out)
{
    const char *s = r->text;
    int32_t i = l->begin, letters;
    out->name = i;
    if (i < l->end && is_digit(s[i])) i++;
    if (i > l->begin && i < l->end && s[i] == ' ') i++;
    for (letters = i; i < l->end && is_letter(s[i]);) i++;
    out->name_end = i;
    if (i < l->end && s[i] == ' ') i++;
    out->chapter = i;
    out->chapter_end = i = skip_digits(r, i, l->end);
    if (letters == out->name_end || i == out->chapter || i >= l->end || s[i] != ':') return 0;
    out->end = skip_digits(r, i + 1, l->end);
    return out->end > i + 1 && (out->end == l->end || is_space(s[out->end]));
}

static int is_verse_text(const reader *r)
{
    int64_t labelled = 0, lines = 0;
    label tag;
    for (int32_t at = 0; at < r->bytes;) {
        line l = line_at(r, at);
        at = l.next;
        if (l.begin == l.end) continue;
        lines++;
        labelled += read_label(r, &l, &tag);
    }
    return labelled * 2 > lines;
}

static int same_text(const char *text, int32_t x, int32_t x_end, int32_t y, int32_t y_end)
{
    return x_end - x == y_end - y && memcmp(text + x, text + y, (size_t)(x_end - x)) == 0;
}

/* `text` is the original: the copy's labels are blanked as they are read */
static hga_status mark_verses(reader *r, const char *text)
{
    hga_status st = HGA_OK;
    label tag, before = {.name = 0};
    int any = 0;
    for (int32_t at = 0; at < r->bytes;) {
        line l = line_at(r, at);
        at = l.next;
        if (l.begin == l.end) continue;
        if (!read_label(r, &l, &tag)) {
            join(r, &l);
            continue;
        }
        int same_book = any && same_text(text, tag.name, tag.name_end, before.name, before.name_end);
        int same_chapter =
            same_book && same_text(text, tag.chapter, tag.chapter_end, before.chapter, before.chapter_end);
        HGA_TRY(add_mark(r, l.begin, same_chapter ? PARAGRAPH : same_book ? CHAPTER : BOOK));
        memset(r->text + l.begin, ' ', (size_t)(tag.end - l.begin));
        before = tag, any = 1;
    }
done:
    return st;
}

/* ---- prose ---- */

/* bytes of [s, end) that are one of the letters' runs allowed at a decimal place: nine and four pairs, five, up to
   three ones */
static const char *roman_place(const char *s, const char *end, char one, char five, char ten)
{
    if (end - s >= 2 && s[0] == one && (s[1] == ten || s[1] == five)) return s + 2;
    if (s < end && s[0] == five) s++;
    for (int i = 0; i < 3 && s < end && *s == one; i++) s++;
    return s;
}

static int is_roman(const char *s, const char *end)
{
    if (s == end) return 0;
    while (s < end && *s == 'M') s++;
    s = roman_place(s, end, 'C', 'D', 'M');
    s = roman_place(s, end, 'X', 'L', 'C');
    return roman_place(s, end, 'I', 'V', 'X') == end;
}

static int is_arabic(const char *s, const char *end)
{
    if (s == end || end - s > 4) return 0;
    while (s < end && is_digit(*s)) s++;
    return s == end;
}

static int is_spelled(const char *s, const char *end)
{
    static const char *const number[] = {
        "one",       "two",      "three",    "four",   "five",     "six",      "seven",   "eight",
        "nine",      "ten",      "eleven",   "twelve", "thirteen", "fourteen", "fifteen", "sixteen",
        "seventeen", "eighteen", "nineteen", "twenty", "first",    "second",   "third",   "fourth",
        "fifth",     "sixth",    "seventh",  "eighth", "ninth",    "tenth",    "last",
    };
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        if (strlen(number[i]) == (size_t)(end - s) && strncasecmp(s, number[i], (size_t)(end - s)) == 0) return 1;
    return 0;
}

/* "IV" or "12", perhaps with a full stop */
static int is_numeral_alone(const char *s, const char *end)
{
    if (end > s && end[-1] == '.') end--;
    return is_roman(s, end) || is_arabic(s, end);
}

/* What follows "Chapter": a number, then the line's end, a mark, or a short title without a full stop. */
static int is_numbered(const char *s, const char *end)
{
    const char *number, *line_start = s;
    while (s < end && is_space(*s)) s++;
    for (number = s; s < end && (is_digit(*s) || is_letter(*s));) s++;
    if (!is_roman(number, s) && !is_arabic(number, s) && !is_spelled(number, s)) return 0;
    if (s == end || strchr(".:,)-", *s)) return 1;
    return end - line_start <= 60 && !strchr(".,;!?", end[-1]);
}

static int starts_with(const char *s, const char *end, const char *keyword)
{
    size_t n = strlen(keyword);
    return (size_t)(end - s) >= n && memcmp(s, keyword, n) == 0 && ((size_t)(end - s) == n || !is_letter(s[n]));
}

static int is_markdown_heading(const char *s, const char *end)
{
    const char *c = s;
    while (c < end && *c == '#') c++;
    return c > s && c - s <= 6 && c < end && is_space(*c);
}

/* The level a heading opens, or WORD for other lines. `alone`: nothing but a blank line or a heading comes right
   before. */
static int heading_level(const char *s, const char *end, int alone)
{
    static const struct {
        const char *upper, *mixed;
        int level;
    } keyword[] = {{"BOOK", "Book", BOOK}, {"PART", "Part", BOOK}, {"CHAPTER", "Chapter", CHAPTER}};
    for (size_t i = 0; i < sizeof keyword / sizeof *keyword; i++) {
        if (starts_with(s, end, keyword[i].upper)) return keyword[i].level;
        if (alone && starts_with(s, end, keyword[i].mixed) && is_numbered(s + strlen(keyword[i].mixed), end))
            return keyword[i].level;
    }
    return is_markdown_heading(s, end) || is_numeral_alone(s, end) ? CHAPTER : WORD;
}

static hga_status mark_prose(reader *r)
{
    hga_status st = HGA_OK;
    int before = WORD, blank = 1; /* the last heading, if nothing came since; a blank line came just before */
    for (int32_t at = 0; at < r->bytes;) {
        line l = line_at(r, at);
        at = l.next;
        if (l.begin == l.end) {
            blank = 1;
            continue;
        }
        int level = heading_level(r->text + l.begin, r->text + l.end, blank || before != WORD);
        if (level != WORD)
            HGA_TRY(add_mark(r, l.begin, level < before ? level : PARAGRAPH));
        else if (blank || before != WORD)
            HGA_TRY(add_mark(r, l.begin, PARAGRAPH));
        else
            join(r, &l);
        before = level == WORD || level < before ? level : before;
        blank = 0;
    }
done:
    return st;
}

/* ---- sentences and words ---- */

static hga_status icu_failure(const char *what, UErrorCode code)
{
    if (code == U_MEMORY_ALLOCATION_ERROR) return hga_fail(HGA_ENOMEM, "ICU: %s: out of memory", what);
    return hga_fail(HGA_EEXTERNAL, "ICU: %s: %s", what, u_errorName(code));
}

/* An ICU iterator over the text. (ICU 72 itself loses two small blocks when malloc fails inside ubrk_open.) */
static hga_status open_breaks(UBreakIteratorType type, const char *locale, UText *text, UBreakIterator **out)
{
    UErrorCode code = U_ZERO_ERROR;
    *out = ubrk_open(type, locale ? locale : "", NULL, 0, &code);
    if (U_SUCCESS(code)) ubrk_setUText(*out, text, &code);
    return U_FAILURE(code) ? icu_failure(type == UBRK_WORD ? "word breaks" : "sentence breaks", code) : HGA_OK;
}

/* Between two breaks: has it a letter, digit or symbol? ICU's word status knows letters and digits, but calls symbols
   punctuation. */
static int is_word(const reader *r, UBreakIterator *words, int32_t begin, int32_t end)
{
    const unsigned char *s = (const unsigned char *)r->text + begin, *e = (const unsigned char *)r->text + end;
    int32_t point = 0;
    if (ubrk_getRuleStatus(words) >= UBRK_WORD_NONE_LIMIT) return 1;
    for (int n; s < e && (n = decode(s, e, &point)) > 0; s += n)
        if (U_MASK(u_charType(point)) & (U_GC_L_MASK | U_GC_N_MASK | U_GC_S_MASK)) return 1;
    return 0;
}

static hga_status add_word(reader *r, int32_t begin, int32_t end, int opens)
{
    hga_status st = hga_grow(r->a, &r->words, &r->word_room, r->n_words, r->n_words + 1, sizeof *r->words);
    if (!st) r->words[r->n_words++] = (word){begin, end, (uint8_t)opens};
    return st;
}

/* Walk the breaks; between two words, the highest mark and any sentence break passed say what the second one opens. */
static hga_status read_words(reader *r, UBreakIterator *words, UBreakIterator *sentences, hga_id max_words)
{
    hga_status st = HGA_OK;
    int32_t sentence = ubrk_first(sentences), begin = ubrk_first(words), end;
    int opens = BOOK;
    for (int64_t m = 0; (end = ubrk_next(words)) != UBRK_DONE; begin = end) {
        if (!is_word(r, words, begin, end)) continue;
        for (; m < r->n_marks && r->marks[m].at <= begin; m++)
            opens = r->marks[m].level < opens ? r->marks[m].level : opens;
        for (; sentence != UBRK_DONE && sentence <= begin; sentence = ubrk_next(sentences))
            opens = opens < SENTENCE ? opens : SENTENCE;
        HGA_TRY(add_word(r, begin, end, opens));
        if (r->n_words == max_words) break;
        opens = WORD;
    }
done:
    return st;
}

static hga_status break_words(reader *r, const char *locale, hga_id max_words)
{
    hga_status st = HGA_OK;
    UErrorCode code = U_ZERO_ERROR;
    UBreakIterator *words = NULL, *sentences = NULL;
    UText *text = utext_openUTF8(NULL, r->text, r->bytes, &code);
    if (U_FAILURE(code)) return icu_failure("text", code);
    HGA_TRY(open_breaks(UBRK_WORD, locale, text, &words));
    HGA_TRY(open_breaks(UBRK_SENTENCE, locale, text, &sentences));
    HGA_TRY(read_words(r, words, sentences, max_words));
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

/* A level's members are the words that open it or a higher one. */
static levels count_levels(const reader *r)
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

/* Words in order; each first becomes a new member of the levels it opens, the highest first, so that a member's parent
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
    t->kind_name = r->verses ? verse_kinds : prose_kinds;
    t->n_kinds = N_LEVELS + 1;
}

static hga_status copy_text(reader *r, const char *text)
{
    hga_status st = hga_new(r->a, r->bytes, 1, &r->text);
    if (st) return st;
    memcpy(r->text, text, (size_t)r->bytes);
    if (r->bytes >= 3 && memcmp(r->text, "\xef\xbb\xbf", 3) == 0) memset(r->text, ' ', 3); /* a byte order mark */
    return HGA_OK;
}

hga_status text_check(const char *text, size_t bytes)
{
    if (bytes > INT32_MAX)
        return hga_fail(HGA_EOVERFLOW, "a text of %zu bytes; there are at most %d", bytes, INT32_MAX);
    return check_utf8(text, (int32_t)bytes);
}

/* The tree of a text; without a word *out stays empty. */
static hga_status read_tree(const hga_allocator *a, const char *text, size_t bytes, const char *locale,
                            hga_id max_words, hga_tree *out)
{
    hga_status st = HGA_OK;
    reader r = {.a = a};
    memset(out, 0, sizeof *out);
    if (a) out->allocator = *a;
    HGA_TRY(text_check(text, bytes));
    r.bytes = (int32_t)bytes;
    HGA_TRY(copy_text(&r, text));
    r.verses = is_verse_text(&r);
    HGA_TRY(r.verses ? mark_verses(&r, text) : mark_prose(&r));
    HGA_TRY(break_words(&r, locale, max_words));
    if (r.n_words == 0) goto done;
    levels v = count_levels(&r);
    HGA_TRY(allocate(a, v.n_nodes, r.n_words, out));
    plant(&r, &v, out);
done:
    hga_delete(a, r.text, r.bytes, 1);
    hga_delete(a, r.marks, r.mark_room, sizeof *r.marks);
    hga_delete(a, r.words, r.word_room, sizeof *r.words);
    if (st) hga_tree_clear(out);
    return st;
}

hga_status text_words(const hga_allocator *a, const char *text, size_t bytes, hga_tree *out)
{
    return read_tree(a, text, bytes, NULL, 0, out);
}

hga_status hga_tree_text(const hga_allocator *a, const char *text, size_t bytes, const char *locale, hga_id max_words,
                         hga_tree *out)
{
    memset(out, 0, sizeof *out);
    if (max_words < 0) return hga_fail(HGA_EINVAL, "max_words is %d; it must be at least 0", max_words);
    if (!text || bytes == 0) return hga_fail(HGA_EFORMAT, "no word in 0 bytes of text");
    hga_status st = read_tree(a, text, bytes, locale, max_words, out);
    if (!st && out->n == 0) st = hga_fail(HGA_EFORMAT, "no word in %zu bytes of text", bytes);
    return st;
}
