/* text_lines.c: headings and labels of verses, blank lines and paragraphs. Headings: a line that starts with BOOK or
   PART (books), with CHAPTER, or has a Markdown #, or is a Roman or Arabic numeral alone (chapters); "Chapter One" and
   the like where a blank line or another heading comes before. A heading's words are a paragraph of the part that it
   opens; a heading directly after a higher one opens no further part. Verses: where more than half of the lines that
   are not blank begin with a label such as "1Cor13:4", labels (which are not words) alone give books, chapters and
   verses. */
#include "text_lines.h"

#include <string.h>
#include <strings.h>

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
static line line_at(const text_lines *r, int32_t at)
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

static hga_status add_mark(text_lines *r, int32_t at, int level)
{
    hga_status st = hga_grow(r->a, &r->marks, &r->mark_capacity, r->n_marks, r->n_marks + 1, sizeof *r->marks);
    if (!st) r->marks[r->n_marks++] = (mark){at, (uint8_t)level};
    return st;
}

/* Joins a line to its paragraph by replacing the line end, at which ICU would end a sentence. */
static void join_line(text_lines *r, const line *l)
{
    for (int32_t i = l->start; i > 0 && (r->text[i - 1] == '\n' || r->text[i - 1] == '\r'); i--) r->text[i - 1] = ' ';
}

/* ---- verses ---- */

typedef struct label {
    int32_t name, name_end, chapter, chapter_end, end;
} label;

static int32_t skip_digits(const text_lines *r, int32_t at, int32_t end)
{
    while (at < end && is_digit(r->text[at])) at++;
    return at;
}

/* "1Cor13:4 ": perhaps a digit, letters, chapter:verse, then white space or the line's end; one blank may stand before
   and after the letters */
static int read_label(const text_lines *r, const line *l, label *out)
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

/* Does more than half of the lines that are not blank begin with a label? */
static int is_verse_text(const text_lines *r)
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
static hga_status mark_verses(text_lines *r, const char *text)
{
    hga_status st = HGA_OK;
    label tag, before = {.name = 0};
    int any = 0;
    for (int32_t at = 0; at < r->bytes;) {
        line l = line_at(r, at);
        at = l.next;
        if (l.begin == l.end) continue;
        if (!read_label(r, &l, &tag)) {
            join_line(r, &l);
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

/* skips the Roman numeral of one decimal place at s: nine and four are pairs, five, up to three ones */
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

/* Is [s, end) a number in words, from one to twenty or first to tenth, or "last"? */
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

/* Checks the text after "Chapter": a number, then the line's end, a punctuation mark, or a short title without a full
   stop. */
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

/* The level that a heading opens, or WORD for other lines. `alone`: directly after a blank line or a heading. */
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

/* Marks the lines that begin a book, a chapter or a paragraph. */
static hga_status mark_prose(text_lines *r)
{
    hga_status st = HGA_OK;
    int before = WORD,
        blank = 1; /* the last heading, if only blank lines followed; whether the line before was blank */
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
            join_line(r, &l);
        before = level == WORD || level < before ? level : before;
        blank = 0;
    }
done:
    return st;
}

/* ---- a text ---- */

static hga_status copy_text(text_lines *r, const char *text)
{
    hga_status st = hga_new(r->a, r->bytes, 1, &r->text);
    if (st) return st;
    memcpy(r->text, text, (size_t)r->bytes);
    if (r->bytes >= 3 && memcmp(r->text, "\xef\xbb\xbf", 3) == 0) memset(r->text, ' ', 3); /* a byte order mark */
    return HGA_OK;
}

hga_status text_lines_read(text_lines *r, const char *text)
{
    hga_status st = copy_text(r, text);
    if (st) return st;
    r->verses = is_verse_text(r);
    return r->verses ? mark_verses(r, text) : mark_prose(r);
}

void text_lines_clear(text_lines *r)
{
    hga_delete(r->a, r->text, r->bytes, 1);
    hga_delete(r->a, r->marks, r->mark_capacity, sizeof *r->marks);
}
