"""Sanitize untrusted text for terminals and pages: all of it visible, on one line, not too long."""

from __future__ import annotations

import html
import re

LONGEST_WORD = 200
LONGEST_SENTENCE = 600
CUT = "..."

UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters: colours, clipboards, bells, new lines
    "\xad\u061c\u180e\u200b-\u200f"  # invisible characters
    "\u2028-\u202e\u2060-\u206f"  # lines and paragraphs, and what turns the order of text round
    "\ufeff\ufff9-\uffff\ud800-\udfff\U000e0000-\U000e0fff]"  # halves of pairs, tags
)


def plain(text: str) -> str:
    r"""One line in which whatever is no visible character is written as ``\x1b`` or ``\u202e``."""
    return text if text.isprintable() else UNSEEN.sub(_escaped, text)


def plain_page(text: str) -> str:
    """The same for a page, which has lines."""
    return "\n".join(map(plain, text.split("\n")))


def as_html(text: str) -> str:
    """The same for a page of a browser."""
    return html.escape(plain(text))


def sentence(text: str) -> str:
    """An error or a message: one line, without more of what it echoes than helps."""
    words = [shortened(word, LONGEST_WORD) for word in plain(" ".join(text.split())).split(" ")]
    return shortened(" ".join(words), LONGEST_SENTENCE)


def shortened(text: str, longest: int) -> str:
    """A text with its middle left out, if it is too long."""
    if len(text) <= longest:
        return text
    kept = longest - len(CUT)
    return f"{text[: kept - kept // 2]}{CUT}{text[len(text) - kept // 2 :]}"


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
