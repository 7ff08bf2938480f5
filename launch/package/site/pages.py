"""What the site is made of: every page of the repository under its own path, so that links between pages are the same here
and there. MkDocs calls on_files (mkdocs.yml)."""
import pathlib

from mkdocs.structure.files import File, Files

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs/**/*", "examples/**/*", "configs/*", "tests/bench/*.md",
         "launch/package/Dockerfile")


def on_files(files, config):
    ours = [path for pattern in PAGES for path in sorted(ROOT.glob(pattern)) if path.is_file()]
    themes = [file for file in files if not file.src_uri.endswith(".md")]
    return Files(themes + [File(str(path.relative_to(ROOT)), str(ROOT), config.site_dir, config.use_directory_urls)
                           for path in ours])
