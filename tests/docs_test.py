# SPDX-License-Identifier: Apache-2.0
"""The pages of the project: links lead somewhere, each page can be come to, snippets are those of programs that are
built, the Chinese pages say as much as the English ones. Argument: the project's root."""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("bench/*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
TRANSLATED = [("README.md", "README.zh-CN.md"), ("docs/multi-card.md", "docs/multi-card.zh-CN.md")]


def text_of(page):
    return page.read_text(encoding="utf8")


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL)


def without_code(page):
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text_of(page), flags=re.MULTILINE | re.DOTALL)


def headings(page):
    return re.findall(r"^(#+) (.*)$", re.sub(r"^```.*?^```", "", text_of(page), flags=re.MULTILINE | re.DOTALL), re.MULTILINE)


def anchors(page):
    """As GitHub makes them: lower case, punctuation gone, spaces as hyphens."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for _, title in headings(page)}


def links(page):
    """(link, the file it leads to, its anchor or "")."""
    for link in LINK.findall(without_code(page)):
        if not re.match(r"[a-z]+:", link):
            path, _, anchor = link.partition("#")
            yield link, (page.parent / path).resolve() if path else page, anchor


def commands(page):
    """Indented lines without their comments: what can be pasted."""
    lines = (re.sub(r"\s+#.*", "", line) for line in text_of(page).splitlines())
    return [line.strip() for line in lines if line.startswith("    ") and line.strip()]


def words(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


class Docs(unittest.TestCase):
    def test_links_lead_somewhere(self):
        for page in PAGES:
            for link, target, anchor in links(page):
                with self.subTest(page=page.relative_to(ROOT).as_posix(), link=link):
                    self.assertTrue(target.is_relative_to(ROOT) and target.exists(), "no such file")
                    self.assertTrue(not anchor or anchor in anchors(target), "no such heading")

    def test_each_page_is_linked_from_another_up_to_the_readme(self):
        seen, waiting = set(), [ROOT / "README.md"]
        while waiting:
            page = waiting.pop()
            if page not in seen:
                seen.add(page)
                waiting += [target for _, target, _ in links(page) if target.suffix == ".md"]
        self.assertEqual([page.relative_to(ROOT).as_posix() for page in PAGES if page not in seen], [])

    def test_snippets_of_the_library_are_parts_of_programs_that_are_built(self):
        programs = [words(text_of(path)) for path in (*ROOT.glob("examples/*.cpp"), *ROOT.glob("tests/consumer/*.cpp"))]
        snippets = blocks(ROOT / "docs/library.md", "cpp")
        self.assertGreaterEqual(len(snippets), 4)
        for snippet in snippets:
            for part in re.split(r"^\s*// …$", snippet, flags=re.MULTILINE):  # something is left out there
                lines = words(part)
                found = any(lines == program[i:i + len(lines)] for program in programs for i in range(len(program)))
                self.assertTrue(found, f"in no program of examples/ or tests/consumer/:\n{part}")

    def test_types_of_the_library_are_in_the_headers_named(self):
        rows = re.findall(r"^\| (`.*?) \| `([\w/]+\.h)`.* \|$", text_of(ROOT / "docs/library.md"), re.MULTILINE)
        self.assertGreaterEqual(len(rows), 15)
        for names, header in rows:
            declared = text_of(ROOT / "include/duoka" / header)
            for name in re.findall(r"(\w+)(?:\(\))?`", names):
                self.assertRegex(declared, rf"\b{name}\b", f"{header} has no {name}")

    def test_chinese_pages_say_as_much(self):
        for english, chinese in ((ROOT / a, ROOT / b) for a, b in TRANSLATED):
            with self.subTest(page=chinese.name):
                self.assertEqual([level for level, _ in headings(chinese)], [level for level, _ in headings(english)])
                self.assertEqual(commands(chinese), commands(english))
                for what in (r"^\|.*\|$", r"^- ", r"^\d\. ", r"!\["):
                    counts = [len(re.findall(what, text_of(page), re.MULTILINE)) for page in (chinese, english)]
                    self.assertEqual(*counts, f"lines with {what}")
                same = [{re.sub(r"\.zh-CN|#.*", "", link) for link, _, _ in links(page)} for page in (chinese, english)]
                self.assertEqual(*same)

    def test_chinese_pages_have_chinese_punctuation(self):
        for _, name in TRANSLATED:
            prose = re.sub(r"^    .*$|\]\([^)]*\)", "", without_code(ROOT / name), flags=re.MULTILINE)
            self.assertEqual(re.findall(r"[\u4e00-\u9fff][,;:?!()].*", prose), [], name)


unittest.main()
