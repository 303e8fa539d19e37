/* document_markdown.c: Markdown as a tree (the only file that includes md4c). The callbacks of md4c write the rendered
   HTML page, which hga_tree_html reads. So a text has the words of its HTML, and tags and comments in it are treated as
   in HTML. */
#include "document.h"
#include "load.h"
#include "text.h"

#include <md4c.h>
#include <stdlib.h>
#include <string.h>

/* The page being written. */
typedef struct page {
    const hga_allocator *a;
    hga_status st; /* the first failure, after which nothing is written */
    char *text;
    int64_t n, capacity;
    int pictures; /* nesting depth of open images, whose content is alternative text */
} page;

/* By md4c's convention these functions return 0, or a negative value to stop the parser. */
static int put(page *p, const char *text, int64_t n)
{
    if (!p->st) p->st = hga_grow(p->a, &p->text, &p->capacity, p->n, p->n + n, 1);
    if (p->st) return -1;
    memcpy(p->text + p->n, text, (size_t)n);
    p->n += n;
    return 0;
}

static int put_word(page *p, const char *word) { return put(p, word, (int64_t)strlen(word)); }

/* Writes text with markup characters escaped. */
static int put_escaped(page *p, const char *text, int64_t n)
{
    int failed = 0;
    for (int64_t i = 0, end; i < n && !failed; i = end) {
        for (end = i; end < n && text[end] != '<' && text[end] != '&';) end++;
        failed = put(p, text + i, end - i);
        if (end < n && !failed) failed = put_word(p, text[end++] == '<' ? "&lt;" : "&amp;");
    }
    return failed;
}

static const char no_character[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Writes &name; &#number; or &#xnumber;; a number that is not a character becomes U+FFFD. */
static int put_entity(page *p, const char *text, int64_t n)
{
    if (text[1] != '#') return put(p, text, n);
    const int is_hex = text[2] == 'x' || text[2] == 'X';
    const long code = strtol(text + 2 + is_hex, NULL, is_hex ? 16 : 10);
    const int is_character = code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    return is_character ? put(p, text, n) : put_word(p, no_character);
}

/* ---- what md4c calls ---- */

/* The HTML tag of a block; NULL for one without a tag. */
static const char *tag_of(MD_BLOCKTYPE block, const void *detail)
{
    static const char *const headings[] = {"h1", "h2", "h3", "h4", "h5", "h6"};
    static const char *const tags[] = {
        [MD_BLOCK_QUOTE] = "blockquote", [MD_BLOCK_UL] = "ul",       [MD_BLOCK_OL] = "ol", [MD_BLOCK_LI] = "li",
        [MD_BLOCK_CODE] = "pre",         [MD_BLOCK_P] = "p",         [MD_BLOCK_TR] = "tr", [MD_BLOCK_TH] = "th",
        [MD_BLOCK_TABLE] = "table",      [MD_BLOCK_TBODY] = "tbody", [MD_BLOCK_TD] = "td",
    };
    if (block == MD_BLOCK_H) return headings[((const MD_BLOCK_H_DETAIL *)detail)->level - 1];
    return (size_t)block < sizeof tags / sizeof *tags ? tags[block] : NULL;
}

static int put_tag(page *p, const char *before, const char *tag)
{
    return tag && (put_word(p, before) || put_word(p, tag) || put_word(p, ">")) ? -1 : 0;
}

static int enter_block(MD_BLOCKTYPE block, void *detail, void *context)
{
    return block == MD_BLOCK_HR ? put_word(context, "<hr>") : put_tag(context, "<", tag_of(block, detail));
}

static int leave_block(MD_BLOCKTYPE block, void *detail, void *context)
{
    return put_tag(context, "</", tag_of(block, detail));
}

static int enter_span(MD_SPANTYPE span, void *detail, void *context)
{
    (void)detail;
    ((page *)context)->pictures += span == MD_SPAN_IMG;
    return 0;
}

static int leave_span(MD_SPANTYPE span, void *detail, void *context)
{
    (void)detail;
    ((page *)context)->pictures -= span == MD_SPAN_IMG;
    return 0;
}

static int read_text(MD_TEXTTYPE type, const char *text, MD_SIZE n, void *context)
{
    page *p = context;
    if (p->pictures) return 0;
    switch (type) {
    case MD_TEXT_HTML: return put(p, text, n);
    case MD_TEXT_ENTITY: return put_entity(p, text, n);
    case MD_TEXT_NULLCHAR: return put_word(p, no_character);
    case MD_TEXT_BR: return put_word(p, "<br>");
    case MD_TEXT_SOFTBR: return put_word(p, "\n");
    default: return put_escaped(p, text, n);
    }
}

/* Parses CommonMark with GitHub's tables, strikethrough and task lists. */
static hga_status write_page(page *p, const char *text, size_t bytes)
{
    static const MD_PARSER parser = {.flags = MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH | MD_FLAG_TASKLISTS,
                                     .enter_block = enter_block,
                                     .leave_block = leave_block,
                                     .enter_span = enter_span,
                                     .leave_span = leave_span,
                                     .text = read_text};
    const int failed = md_parse(text, (MD_SIZE)bytes, &parser, p);
    return p->st || !failed ? p->st : hga_fail(HGA_ENOMEM, "no memory to read Markdown");
}

hga_status hga_tree_markdown(const hga_allocator *a, const char *text, size_t bytes, hga_tree *out)
{
    page p = {.a = a};
    hga_status st = HGA_OK;
    memset(out, 0, sizeof *out);
    if (bytes > INT32_MAX)
        return hga_fail(HGA_EOVERFLOW, "%zu bytes of Markdown; there are at most %d", bytes, INT32_MAX);
    if (!text || !bytes) return hga_fail(HGA_EFORMAT, "the document has no word");
    HGA_TRY(text_check(text, bytes));
    const size_t mark = (size_t)mark_bytes(text, (int64_t)bytes);
    HGA_TRY(write_page(&p, text + mark, bytes - mark));
    st = hga_tree_html(a, p.text, (size_t)p.n, out);
done:
    hga_delete(a, p.text, p.capacity, 1);
    return st;
}
