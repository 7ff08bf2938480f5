#!/usr/bin/env python3
"""The documents hold together: every link between pages leads somewhere, the site's table of contents has all of them, and
MkDocs makes the site of them without a warning, where it is installed (build/python, or this Python)."""
import html.parser
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.md"), *ROOT.glob("tests/bench/*.md")])


def links_of(text):
    """Of Markdown, but for what is code or leads to the network."""
    text = re.sub(r"(?ms)^```.*?^```|`[^`\n]*`", "", text)
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)]


def broken_links(page, text):
    def leads_nowhere(link):
        path = urllib.parse.unquote(link.partition("#")[0])
        return path and not (page.parent / path).exists()
    return [link for link in links_of(text) if leads_nowhere(link)]


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        self.found += [value for name, value in attributes if (tag, name) in (("a", "href"), ("img", "src")) and value]


def mkdocs():
    for python in (ROOT / "build/python/bin/python", sys.executable):
        if os.path.exists(python) and subprocess.run([python, "-c", "import material"], capture_output=True).returncode == 0:
            return [python, "-m", "mkdocs"]
    return None


class Documents(unittest.TestCase):
    def test_links_between_pages_lead_somewhere(self):
        self.assertEqual(broken_links(ROOT / "README.md", "[a](docs/nothing.md) `[b](no)` [c](https://x) [d](docs/data.md#x)"),
                         ["docs/nothing.md"])
        for page in PAGES:
            self.assertEqual(broken_links(page, page.read_text()), [], page)

    def test_the_contents_have_every_page_once(self):
        listed = re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M)
        self.assertEqual(sorted(listed), [str(page.relative_to(ROOT)) for page in PAGES])

    @unittest.skipIf(mkdocs() is None, "mkdocs-material is not installed")
    def test_the_site_is_made_without_a_warning(self):
        with tempfile.TemporaryDirectory() as folder:
            site = pathlib.Path(folder)
            made = subprocess.run([*mkdocs(), "build", "--strict", "--quiet", "--site-dir", site], cwd=ROOT, text=True,
                                  capture_output=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
            self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
            self.assertNotIn("WARNING", made.stdout + made.stderr)
            pages = list(site.rglob("*.html"))
            self.assertGreaterEqual(len(pages), len(PAGES))
            self.assertIn("examples/report/report.png", self.check_links(site / "index.html", site))
            for page in pages:
                self.check_links(page, site)

    def check_links(self, page, site):
        reader = Links()
        reader.feed(page.read_text())
        for link in reader.found:
            path = urllib.parse.unquote(urllib.parse.urlsplit(link).path)
            if page.name == "404.html" or re.match(r"[a-z]+:", link) or not path:
                continue
            target = page.parent / path
            self.assertTrue(target.is_file() or (target / "index.html").is_file(), f"{page.relative_to(site)}: {link}")
        return reader.found


if __name__ == "__main__":
    unittest.main()
