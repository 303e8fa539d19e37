/* document_markdown.c: Markdown as a tree: headings open sections; paragraphs, lists and their items, quotes, code and
   rows of tables are levels, their text sentences and words. What is read is CommonMark's block structure as far as it
   makes levels: ATX and Setext headings, lists by indentation, fences, quotes. Of inline marks, the addresses of links
   and pictures are left out; the others are no words anyway. */
#include "document.h"
#include "text.h"

#include <string.h>

enum { MOST_LISTS = 32 };

typedef struct markdown {
    document d;
    const char *at, *end;
    int quotes;             /* open quotes */
    int lists;              /* open lists, each with an open item */
    char mark[MOST_LISTS];  /* -, *, +, . or ): another mark is another list */
    int indent[MOST_LISTS]; /* where the item's text begins */
    int in_block;           /* a paragraph, code or a table is open */
    char fence;             /* ` or ~ inside of fenced code, else 0 */
    int fence_length;
    const char *pending; /* the paragraph's only line so far, which a line of = or - makes a heading */
    int64_t pending_bytes;
} markdown;

typedef struct line {
    const char *text, *end; /* without quote marks, indentation and white space at the end */
    int indent, quotes;
} line;

static int is_markdown_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* ---- lines ---- */

static void skip_indent(line *l)
{
    for (l->indent = 0; l->text < l->end && (*l->text == ' ' || *l->text == '\t'); l->text++)
        l->indent += *l->text == '\t' ? 4 - l->indent % 4 : 1;
}

/* The next line, without the quote marks before it. */
static line next_line(markdown *m)
{
    const char *stop = memchr(m->at, '\n', (size_t)(m->end - m->at));
    line l = {.text = m->at, .end = stop ? stop : m->end};
    m->at = stop ? stop + 1 : m->end;
    while (l.end > l.text && is_markdown_blank(l.end[-1])) l.end--;
    skip_indent(&l);
    while (!m->fence && l.indent < 4 && l.text < l.end && *l.text == '>') {
        l.quotes++, l.text++;
        if (l.text < l.end && *l.text == ' ') l.text++;
        skip_indent(&l);
    }
    return l;
}

/* How often one character begins the line; *rest is what follows it. */
static int64_t run_of(const line *l, char c, const char **rest)
{
    const char *at = l->text;
    while (at < l->end && *at == c) at++;
    *rest = at;
    return at - l->text;
}

/* Nothing but one character, and blanks between where `apart`. */
static int is_rule(const line *l, char c, int least, int apart)
{
    int n = 0;
    for (const char *at = l->text; at < l->end; at++) {
        if (*at == c)
            n++;
        else if (!apart || !is_markdown_blank(*at))
            return 0;
    }
    return n >= least;
}

/* The width of a list's mark and the blanks behind it, 0 without one. */
static int list_mark(const line *l)
{
    const char *at = l->text;
    if (at < l->end && strchr("-*+", *at)) {
        at++;
    } else {
        while (at < l->end && *at >= '0' && *at <= '9' && at - l->text < 9) at++;
        if (at == l->text || at == l->end || (*at != '.' && *at != ')')) return 0;
        at++;
    }
    if (at < l->end && !is_markdown_blank(*at)) return 0;
    const char *mark_end = at;
    while (at < l->end && is_markdown_blank(*at) && at - mark_end < 4) at++;
    return (int)(at - l->text) + (at == mark_end);
}

/* ---- inline ---- */

/* Text without the addresses of [text](address). */
static hga_status put_inline(markdown *m, const char *text, const char *end)
{
    hga_status st = HGA_OK;
    for (const char *at = text; at < end; at++) {
        if (at + 1 < end && at[0] == ']' && at[1] == '(') {
            const char *close = memchr(at, ')', (size_t)(end - at));
            if (close) {
                HGA_TRY(document_text(&m->d, text, at - text));
                text = close + 1, at = close;
            }
        } else if (*at == '_' || *at == '|') {
            HGA_TRY(document_text(&m->d, text, at - text));
            int inside =
                *at == '_' && at > text && at + 1 < end && !is_markdown_blank(at[-1]) && !is_markdown_blank(at[1]);
            HGA_TRY(document_text(&m->d, inside ? "_" : " ", 1));
            text = at + 1;
        }
    }
    HGA_TRY(document_text(&m->d, text, end - text));
    st = document_text(&m->d, "\n", 1);
done:
    return st;
}

/* ---- blocks ---- */

static hga_status end_block(markdown *m)
{
    m->pending = NULL;
    if (!m->in_block) return document_flush(&m->d);
    m->in_block = 0;
    return document_close(&m->d);
}

static hga_status begin_block(markdown *m, int kind)
{
    hga_status st = end_block(m);
    m->in_block = 1;
    return st ? st : document_open(&m->d, kind);
}

static hga_status end_list(markdown *m)
{
    hga_status st = document_close(&m->d);
    m->lists--;
    return st ? st : document_close(&m->d);
}

/* Lists whose items' text begins right of the column end: the item, then the list. */
static hga_status end_lists(markdown *m, int column)
{
    hga_status st = end_block(m);
    while (!st && m->lists && m->indent[m->lists - 1] > column) st = end_list(m);
    return st;
}

static hga_status set_quotes(markdown *m, int quotes)
{
    hga_status st = HGA_OK;
    if (quotes == m->quotes) return HGA_OK;
    HGA_TRY(end_lists(m, -1));
    for (; m->quotes > quotes; m->quotes--) HGA_TRY(document_close(&m->d));
    for (; m->quotes < quotes; m->quotes++) HGA_TRY(document_open(&m->d, IS_QUOTE));
done:
    return st;
}

/* "# Heading ##": the marks behind go, too. */
static hga_status put_heading(markdown *m, int rank, const char *text, const char *end)
{
    hga_status st = HGA_OK;
    while (text < end && is_markdown_blank(*text)) text++;
    while (end > text && end[-1] == '#') end--;
    while (end > text && is_markdown_blank(end[-1])) end--;
    HGA_TRY(end_lists(m, -1));
    HGA_TRY(document_section(&m->d, rank, text, end - text));
    HGA_TRY(document_open(&m->d, IS_HEADING));
    HGA_TRY(put_inline(m, text, end));
    HGA_TRY(document_close(&m->d));
done:
    return st;
}

/* What tells one list from the next: -, *, + or the mark behind the number. */
static char mark_of(const line *l, int width)
{
    int n = width;
    while (n > 1 && is_markdown_blank(l->text[n - 1])) n--;
    return l->text[n - 1];
}

/* A new item: left of the text of an item it ends that one, right of it it begins a list inside. */
static hga_status put_item(markdown *m, line *l, int width)
{
    hga_status st = end_block(m);
    char mark = mark_of(l, width < l->end - l->text ? width : (int)(l->end - l->text));
    while (!st && m->lists > 1 && l->indent < m->indent[m->lists - 2]) st = end_list(m);
    HGA_TRY(st);
    int same = m->lists && (l->indent < m->indent[m->lists - 1] || m->lists == MOST_LISTS);
    if (same && m->mark[m->lists - 1] != mark) {
        HGA_TRY(end_list(m));
        same = 0;
    }
    HGA_TRY(same ? document_close(&m->d) : document_open(&m->d, IS_LIST)); /* the item before, or a new list */
    m->lists += !same;
    m->indent[m->lists - 1] = l->indent + width, m->mark[m->lists - 1] = mark;
    HGA_TRY(document_open(&m->d, IS_ITEM));
    l->indent += width, l->text += width < l->end - l->text ? width : l->end - l->text;
done:
    return st;
}

/* Inside of fenced code every line is text up to the fence that ends it. */
static hga_status put_code(markdown *m, const line *l)
{
    const char *rest;
    if (l->indent < 4 && run_of(l, m->fence, &rest) >= m->fence_length && rest == l->end) {
        m->fence = 0;
        return end_block(m);
    }
    hga_status st = document_text(&m->d, l->text, l->end - l->text);
    return st ? st : document_text(&m->d, "\n", 1);
}

static int opens_fence(markdown *m, const line *l)
{
    const char *rest;
    int64_t ticks = run_of(l, '`', &rest), waves = ticks ? 0 : run_of(l, '~', &rest);
    if (ticks < 3 && waves < 3) return 0;
    if (ticks && memchr(rest, '`', (size_t)(l->end - rest))) return 0;
    m->fence = ticks ? '`' : '~', m->fence_length = (int)(ticks + waves);
    return 1;
}

/* A line of = or - below a paragraph's only line. */
static int is_underline(const markdown *m, const line *l)
{
    return m->pending && l->indent < 4 && (is_rule(l, '=', 1, 0) || is_rule(l, '-', 1, 0));
}

static hga_status put_underlined(markdown *m, const line *l)
{
    const char *text = m->pending, *end = m->pending + m->pending_bytes;
    m->d.block_bytes = 0;
    return put_heading(m, *l->text == '=' ? 1 : 2, text, end);
}

/* A line of text, of the paragraph or table that it begins or that is there. */
static hga_status put_paragraph(markdown *m, const line *l)
{
    hga_status st = HGA_OK;
    if (!m->in_block) {
        HGA_TRY(end_lists(m, l->indent));
        HGA_TRY(begin_block(m, *l->text == '|' ? IS_TABLE : IS_PARAGRAPH));
        m->pending = l->text, m->pending_bytes = l->end - l->text;
    } else {
        m->pending = NULL;
    }
    int is_row = *l->text == '|';
    if (is_row) HGA_TRY(document_open(&m->d, IS_ROW));
    HGA_TRY(put_inline(m, l->text, l->end));
    if (is_row) st = document_close(&m->d);
done:
    return st;
}

/* Tells what a line is, and puts it there. */
static hga_status put_line(markdown *m, line l)
{
    hga_status st = HGA_OK;
    const char *rest;
    int64_t marks;
    int width;
    if (m->fence) return put_code(m, &l);
    if (l.text == l.end && l.quotes == 0 && m->quotes) HGA_TRY(set_quotes(m, 0));
    if (l.text == l.end) return end_block(m);
    if (l.quotes || !m->in_block) HGA_TRY(set_quotes(m, l.quotes));
    if (is_underline(m, &l)) return put_underlined(m, &l);
    if (l.indent < 4 && (is_rule(&l, '-', 3, 1) || is_rule(&l, '*', 3, 1) || is_rule(&l, '_', 3, 1)))
        return end_lists(m, -1);
    marks = run_of(&l, '#', &rest);
    if (l.indent < 4 && marks >= 1 && marks <= 6 && (rest == l.end || is_markdown_blank(*rest)))
        return put_heading(m, (int)marks, rest, l.end);
    while ((width = list_mark(&l)) > 0) {
        HGA_TRY(put_item(m, &l, width));
        if (l.text == l.end) return HGA_OK;
    }
    if (opens_fence(m, &l)) return begin_block(m, IS_CODE);
    st = put_paragraph(m, &l);
done:
    return st;
}

hga_status hga_tree_markdown(const hga_allocator *a, const char *text, size_t bytes, hga_tree *out)
{
    markdown m = {.at = text, .end = text + bytes};
    document_begin(&m.d, a, out);
    hga_status st = text && bytes ? text_check(text, bytes) : hga_fail(HGA_EFORMAT, "the document has no word");
    while (!st && m.at < m.end) st = put_line(&m, next_line(&m));
    if (!st) st = end_lists(&m, -1);
    return document_end(&m.d, st);
}
