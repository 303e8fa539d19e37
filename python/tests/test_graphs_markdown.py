"""A Markdown text has the words of its HTML, as another implementation of CommonMark makes it (Debian's python3-markdown-it)."""

import html.parser
import unittest

import hga
from shared import ROOT, needs, package

markdown_it = package("markdown_it")
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("*/*.md"), *ROOT.glob("*/*/*.md")})
PAGES = [page for page in PAGES if not page.relative_to(ROOT).parts[0].startswith("build")]

# What readers of Markdown get wrong, section by section of the specification.
ODD = (
    # tabs, rules, headings
    "\tcode\n\n- a\n\n\tb\n\n-\t\tcode\n", "***\n---\n___\na\n***\nb\n- - -\nc\n", "# a\n####### b\n#5 c\n\\## d\n# e #\n### f ###   b\n",
    "a\n# b\nc\n", "A *b\nc*\n====\nd\n\ne\n---\n\n    f\n    ---\n", "a\n= =\nb\n-\n", "> a\n---\nb\n", "- a\n---\nb\n", "\\> a\n------\n",
    # code
    "    a\n\n\n      b\n\nc\n", "a\n    b\n", "    a\nb\n", "```\na\n~~~\nb\n```\nc\n", "~~~~\na\n~~~\nb\n~~~~~\nc\n", "````\na\n```\nb\n", "> ```\n> a\n\nb\n",
    "- ```\n  a\n  ```\n- b\n", "``` b``` c\n", "~~~ a `b`\nc\n~~~\nd\n", "   ```\n   a\n     b\n  ```\nc\n", "a\n```\nb\n```\nc\n",
    # HTML
    "<table><tr><td>\n\n*a* b\n\n</td></tr></table>\n\nc\n", "<div>\n*a*\n</div>\n\n*b*\n", "<script>\na\n\nb\n</script>\nc\n", "<style>\na {}\n</style> b\n\nc\n",
    "<!-- a\n\nb -->\nc\n\nd\n", "a <!-- b\nc --> d <?php e ?> f <![CDATA[g]]> h\n", "<del>\n\n*a*\n\n</del>\n", "a\n<div>\nb\n", "<a href='b'>c</a> <b2 / > <33> <__>\n", "<pre>a\n\nb</pre>\nc\n",
    "a<br>b<br/>c<hr>d\n", "<details><summary>a</summary>\n\nb\n\n</details>\n",
    # definitions of links
    "[a]: /u 't'\n\n[a] [b][a] [c](/d 'e') [f][g]\n", "[a]:\n/u\n\n[a]\n", "[a]: /u \"t\" no\n\n[a]\n", "[a]: <>\n[a]\n", "# [a]\n[a]: /u\n> b\n", "[a]: /u\n===\n[a]\n", "> [a]: /u\n\n[a]\n",
    # quotes and lists
    "> # a\n> b\nc\n", ">a\n>\n>> b\n> c\n", "> a\n>\n\n> b\n", "> - a\nb\n", "1986\\. a\n\n1986. b\n", "a\n14. b\nc\n1. d\n", "-one\n\n2.two\n", "- a\n-\n- c\n", "-\n\n  a\n",
    "- a\n + b\n  + c\n* d\n", "10) a\n    > b\n11) c\n", "- a\n\n  b\n\n\n      code\n- c\n", "1. a\n\n   - b\n\n     - c\n", "- a\n - b\n  - c\n   - d\n    - e\n", "* a\n  *\n\n  b\n",
    "- a\n<!-- -->\n- b\n", "0. a\n1234567890. b\n",
    # spans
    "`a` ``b ` c`` ``` `` ``` `d\ne` f`` g`\n", "`a\\`b` `<c>`\n", "&nbsp;a&amp;b &copy; &AElig; &#35;x &#1234; &#X22; &#0; &x; &#87654321; &#abc; &copy\n", "[a](&ouml;) *a &lt;b&gt;*\n",
    "*a* _b_ **c** __d__ a_b_c 5*6*78 *a **b** c* ***d*** _(b)_. **a*\n", "\\!\\#\\*a\\* \\a \\\\ b\\\nc\n", "![a *b* ![c](d)](/e) f ![g][h] [![i](j)](k)\n", "<https://a.b> <c@d.e> <f>\n",
    "a  \nb\\\nc\nd   e\n", "[a [b] c](d) [e](f(g)h) [i] (j) [](k)l\n", "a [link](\n  /b) c\n", "~~a~~ ~~b c~~\n",
    # tables
    "| a | b |\n|---|:-:|\n| c \\| d | `e` |\n| f |\n| g | h | i |\n\nj\n", "a | b\n---|---\nc | d\ne\n\nf\n", "| a |\n| b |\n", "a | b\n---\nc\n",
)  # fmt: skip


class Seen(html.parser.HTMLParser):
    """The letters and digits of a page, as a plain reader sees them."""

    def __init__(self):
        super().__init__()
        self.letters, self.hidden = "", 0

    def handle_starttag(self, tag, attrs):
        self.hidden += tag in ("script", "style")

    def handle_endtag(self, tag):
        self.hidden -= tag in ("script", "style")

    def handle_data(self, data):
        if not self.hidden:
            self.letters += "".join(c for c in data if c.isalnum())


def words(graph):
    return [graph.name(token) for token in range(graph.n_tokens)]


def whole(graph):
    return list(zip(graph.parents().tolist(), [graph.name(v) for v in range(graph.n_nodes)], [graph.kind_names[k] for k in graph.kinds()]))


@needs("markdown_it")
class Markdown(unittest.TestCase):
    def pages_of(self, text):
        """Both graphs, None where there is no word, and the HTML."""
        page = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text)
        found = []
        for read, of in ((hga.Graph.from_markdown, text), (hga.Graph.from_html, page)):
            try:
                found.append(read(of))
            except hga.Error as e:
                self.assertIn("has no word", str(e))
                found.append(None)
        return found, page

    def test_pages_of_this_house_have_the_words_of_their_html(self):
        self.assertGreater(len(PAGES), 50)
        for page in PAGES:
            with self.subTest(page.name):
                (ours, theirs), html = self.pages_of(page.read_text(encoding="utf-8"))
                self.assertEqual(words(ours), words(theirs))
                plain = Seen()
                plain.feed(html)
                self.assertEqual("".join(c for c in "".join(words(ours)) if c.isalnum()), plain.letters)

    def test_odd_texts_are_the_trees_of_their_html(self):
        for text in ODD:
            with self.subTest(text):
                (ours, theirs), _ = self.pages_of(text)
                self.assertEqual(ours and whole(ours), theirs and whole(theirs))
