# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
"""Makes the navigation of the site from the tree, and links to files outside of docs/ lead to the repository."""

import logging
import posixpath
import re
from pathlib import Path

from mkdocs.exceptions import PluginError

log = logging.getLogger("mkdocs.hooks.lighterage")  # mkdocs build --strict counts its warnings
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
CODE = re.compile(r"(^ *```.*?^ *```[^\n]*$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)


def on_config(config):
    docs = Path(config["docs_dir"])
    navigation = [{"Home": "README.md"}]
    for section in config["extra"]["sections"]:
        directory = docs / section["directory"]
        pages = {page.stem: page for page in directory.glob("*.md")}
        missing = [name for name in section["first"] if name not in pages]
        if missing:
            raise PluginError(f"mkdocs.yml names pages of {directory} that do not exist: {', '.join(missing)}")
        order = [name for name in ["README", *section["first"]] if name in pages]
        order += sorted(set(pages) - set(order))
        entries = [{title(pages[name]): f"{section['directory']}/{name}.md"} for name in order]
        if "README" in pages:  # the page of the section itself
            entries[0] = f"{section['directory']}/README.md"
        navigation.append({section["title"]: entries})
    config["nav"] = navigation
    return config


def title(page):
    """The heading of a page, also where a comment stands before it."""
    heading = re.search(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    if not heading:
        raise PluginError(f"{page} has no heading of the first level")
    return heading[1].replace("`", "")


def on_page_markdown(markdown, page, config, files):
    parts = CODE.split(markdown)
    for i in range(0, len(parts), 2):  # what is between code
        parts[i] = LINK.sub(lambda match: match[1] + target(match[2], page, config) + match[3], parts[i])
    return "".join(parts)


def target(link, page, config):
    """The address of a link, which is that of the repository for a file outside of docs/."""
    if re.match(r"[a-z]+:|#|/", link):
        return link
    path, _, anchor = link.partition("#")
    docs = Path(config["docs_dir"]).resolve()
    root = docs.parent
    relative = posixpath.normpath(posixpath.join(docs.name, posixpath.dirname(page.file.src_uri), path))
    if relative == docs.name or relative.startswith(docs.name + "/"):
        return link
    if relative.startswith("..") or not (root / relative).exists():
        log.warning("%s links to %s, which does not exist", page.file.src_uri, link)
        return link
    kind = "tree" if (root / relative).is_dir() else "blob"
    return f"{config['repo_url'].rstrip('/')}/{kind}/main/{relative}" + (f"#{anchor}" if anchor else "")
