"""Property files: what we read is what the JDK's own class reads, and a file that we change keeps every other property."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import pytest

from airflow_cdc.connectors.debezium_engine.config import edited
from airflow_cdc.connectors.java_properties import lines, parse
from airflow_cdc.java import java_command

PARTS = (
    "a", "b", "key", "=", ":", " ", "\t", "\f", "\n", "\r", "\r\n", "\\", "\\\\", "\\\n", "\\\r\n", "#", "!", "\\u0041",
    "\\u00e9", "\\ud83d\\ude00", "\\u12", "\\uzzzz", "é", "\\=", "\\:", "\\ ", "\\t", "\\x", "", "x.y=1\n",
)  # fmt: skip
# the texts come as JSON with only \u escapes, and so do the properties: name, value, name, value; null for a refused file
JAVA = """
import java.io.*; import java.nio.charset.StandardCharsets; import java.util.*;
public class Read {
  static String json(String s) {
    StringBuilder out = new StringBuilder("\\"");
    for (char c : s.toCharArray()) out.append(String.format("\\\\u%04x", (int) c));
    return out.append('"').toString();
  }
  public static void main(String[] args) throws Exception {
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
    for (String line; (line = in.readLine()) != null; ) {
      StringBuilder text = new StringBuilder();
      for (int at = 0; at + 4 <= line.length(); at += 4) text.append((char) Integer.parseInt(line.substring(at, at + 4), 16));
      Properties read = new Properties();
      try { read.load(new StringReader(text.toString())); } catch (IllegalArgumentException e) { System.out.println("null"); continue; }
      StringJoiner out = new StringJoiner(",", "{", "}");
      for (String name : read.stringPropertyNames()) out.add(json(name) + ":" + json(read.getProperty(name)));
      System.out.println(out);
    }
  }
}
"""


def units(text: str) -> str:
    return text.encode("utf-16-be", "surrogatepass").hex()


def read_by_java(texts: list[str], folder: Path) -> list[dict[str, str] | None]:
    source = folder / "Read.java"
    source.write_text(JAVA)
    java = java_command()
    assert java, "Java is needed, as for Spark"
    done = subprocess.run(
        [java, str(source)],
        input="".join(f"{units(text)}\n" for text in texts),
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def ours(text: str) -> dict[str, str] | None:
    try:
        return parse(text)
    except ValueError:
        return None


@pytest.fixture(scope="module")
def texts() -> list[str]:
    rng = random.Random(20261127)
    return ["".join(rng.choice(PARTS) for _ in range(rng.randrange(14))) for _ in range(6_000)]


def test_they_are_read_as_java_reads_them(texts: list[str], tmp_path: Path) -> None:
    differing = [
        (text, mine, java)
        for text, mine, java in zip(texts, map(ours, texts), read_by_java(texts, tmp_path), strict=True)
        if mine != java
    ]
    assert differing[:5] == []
    assert sum(bool(ours(text)) for text in texts) > len(texts) // 2
    assert sum(ours(text) is None for text in texts) > len(texts) // 20


def test_the_lines_are_the_file(texts: list[str]) -> None:
    assert all("".join(line.raw for line in lines(text)) == text for text in texts if ours(text) is not None)


def named(properties: dict[str, str] | None) -> dict[str, str] | None:
    """Without the property of no name: a lone backslash at a file's end is one, and in front of a new line is none."""
    return None if properties is None else {name: value for name, value in properties.items() if name}


def test_a_changed_property_is_read_by_java_and_every_other_stays(texts: list[str], tmp_path: Path) -> None:
    """Also behind a last line that a backslash would continue, and for values that begin with a space."""
    rng = random.Random(7)
    values = ("", " v", "\\", "a=b", "é😀", "x\ny", "#", "\f", "1")
    sound = [text for text in texts if ours(text) is not None]
    changes = [
        {rng.choice(["key", "a", "new key", "#n", "x:y="]): rng.choice([*values, None]), "last": rng.choice(values)}
        for _ in sound
    ]
    wanted = [
        {name: value for name, value in {**parse(text), **change}.items() if value is not None}
        for text, change in zip(sound, changes, strict=True)
    ]
    made = [edited(text, change) for text, change in zip(sound, changes, strict=True)]
    differing = [
        (text, change, result, want)
        for text, change, result, want in zip(sound, changes, read_by_java(made, tmp_path), wanted, strict=True)
        if named(result) != named(want)
    ]
    assert differing[:5] == []
