"""docs/abi.md says of every structure what the compiler says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "abi.md"
HEADING = re.compile(r"### (\w+), (\d+) bytes")
ROW = re.compile(r"\| (\d+) \| (\d+) \| (\w+) \|")

# Structure and field (none: the structure itself), with offset and size.
Layout = dict[tuple[str, str], tuple[int, int]]


def written() -> Layout:
    layout: Layout = {}
    struct = ""
    for line in PAGE.read_text().splitlines():
        if heading := HEADING.fullmatch(line):
            struct = heading[1]
            layout[struct, "-"] = (0, int(heading[2]))
        elif row := ROW.match(line):
            layout[struct, row[3]] = (int(row[1]), int(row[2]))
    return layout


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_the_page_has_every_field_where_the_compiler_puts_it(
    program: Callable[[str, str], Path], run: Callable[..., Any], compiler: str
) -> None:
    done = run(program("segment_layout", compiler))
    fields = (line.split() for line in done.stdout.splitlines())
    compiled = {(struct, name): (int(at), int(size)) for struct, name, at, size in fields}
    # Records begin with a RecordHeader, definitions with a DefinitionHeader: described once.
    assert written() == compiled


STRUCT = re.compile(r"^struct (\w+) \{\n(.*?)^\};", re.MULTILINE | re.DOTALL)
MEMBER = re.compile(r"(\w+)(?:\[\w+\])?;")
COMMENT = re.compile(r"//.*")


@pytest.mark.parametrize("file", ["layout.h", "record.h"])
def test_no_field_of_the_code_is_missing_on_the_page(file: str) -> None:
    text = (PAGE.parents[1] / "native" / "ring" / file).read_text()
    declared = {
        (struct, member)
        for struct, body in STRUCT.findall(text)
        for member in MEMBER.findall(COMMENT.sub("", body))
        if member != "header"
    }
    assert len(declared) > 20
    assert declared <= written().keys()


def test_the_page_is_of_the_version_in_the_code() -> None:
    text = (PAGE.parents[1] / "native" / "ring" / "record.h").read_text()
    major, minor = (
        re.search(rf"kAbi{part} = (\d+)", text)[1]  # type: ignore[index]
        for part in ("Major", "Minor")
    )
    page = PAGE.read_text()
    assert f"its written ABI, version {major}.{minor}." in page
    assert f"| abi_major | {major} |" in page and f"| abi_minor | {minor} |" in page
