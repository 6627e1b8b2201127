"""Text of strangers, on terminals and pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import covgame as cg
from covgame.errors import BadInput
from covgame.names import Labels, Names
from covgame.plain import LONGEST_SENTENCE, LONGEST_WORD, plain, plain_page, sentence, shortened
from covgame.report.progress import progress_view
from tests.rundb import set_document
from tests.test_cli import covgame

CLIPBOARD, CLEAR, TURNED = "\x1b]52;c;ZXZpbA==\x07", "\x1b[2J", "\u202etxt.exe"
HOSTILE = [CLIPBOARD, CLEAR, TURNED, "two\nlines", "\x9b31m", "\x7f", "\u2028", "\ud800", "\x00"]
ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_acts_and_nothing_is_lost(text: str) -> None:
    shown = plain(f"a{text}b")
    assert shown.isprintable()
    assert shown.encode().decode("unicode_escape") == f"a{text}b"


def test_words_of_any_language_stay() -> None:
    for words in ("Straße", "日本語", "العربية", "naïve · ½ → ∞", "a\u00a0b", "😀", "back\\slash"):
        assert plain(words) == words


def test_pages_keep_their_lines() -> None:
    assert plain_page(f"one\n{CLEAR}two\r\n") == "one\n\\x1b[2Jtwo\\x0d\n"


def test_sentences_are_one_line_and_not_long() -> None:
    assert sentence("one\n  two\tthree") == "one two three"
    assert sentence(CLEAR) == "\\x1b[2J"
    long = sentence(f"say {'x' * 100_000} or else")
    assert long.startswith("say xxx")
    assert long.endswith("xxx or else")
    assert len(long) == len("say  or else") + LONGEST_WORD
    assert len(sentence("word " * 10_000)) == LONGEST_SENTENCE
    assert shortened("abcdefgh", 7) == "ab...gh"
    assert shortened("abcdefgh", 8) == "abcdefgh"


def test_errors_are_such_sentences_in_python_too() -> None:
    assert str(BadInput(f"{CLEAR}\nx")) == "\\x1b[2J x"
    assert len(str(BadInput("y" * 10**6))) == LONGEST_WORD


def test_names_are_plain_and_found_by_what_they_are() -> None:
    names = Names([CLEAR, "b\nc"], [TURNED])
    assert names.describe((0, 0, 0)) == "stage 0: \\x1b[2J / \\u202etxt.exe"
    assert names.state("x\x07") == "x\\x07"
    labels = Labels.of(names, 2, 1)
    assert labels.state("b\nc", "here") == 1
    assert labels.action(TURNED, "here") == 0


WORLD = """
NAMES = [{names}]

class World:
    actions, horizon = [{actions}], 4

    def reset(self):
        self.at = 0
        return NAMES[0]

    def step(self, action):
        self.at = (self.at + 1 + self.actions.index(action)) % len(NAMES)
        if self.at == {fails}:
            raise RuntimeError(NAMES[1])
        return NAMES[self.at], 0.0, False
"""


def world(folder: Path, *, fails: int = -1) -> None:
    names = ", ".join(map(ascii, ["start", CLIPBOARD, CLEAR, TURNED, "two\nlines<b>"]))
    actions = ", ".join(map(ascii, ["go", f"{CLEAR}stop"]))
    content = WORLD.format(names=names, actions=actions, fails=fails)
    (folder / "hostile.py").write_text(content)


def test_names_of_an_environment_reach_no_terminal(tmp_path: Path) -> None:
    world(tmp_path)
    asked = ("cover", "py:hostile:World", "--target", "uniform:99", "--max-episodes", "20")
    played = covgame(*asked, "--out", "run", cwd=tmp_path)
    assert played.returncode == 3, played.stderr
    pages = [
        played,
        covgame("policy", "run", cwd=tmp_path),
        covgame("audit", "run", "--target", "uniform:9/pair", cwd=tmp_path),
        covgame("audit", "run", "--target", "uniform:9/pair", "--report", "a.html", cwd=tmp_path),
        covgame("resume", "run", "--trust", cwd=tmp_path),
    ]
    for page in pages:
        assert not ACTS.search(page.stdout + page.stderr)
        assert "Traceback" not in page.stderr
    assert "\\x1b[2J" in pages[1].stdout
    html = (tmp_path / "a.html").read_text()
    assert "\\x1b[2J" in html
    assert not ACTS.search(html)
    assert "<b>" not in html


def test_what_an_environment_says_when_it_fails_reaches_no_terminal(tmp_path: Path) -> None:
    world(tmp_path, fails=3)
    asked = ("cover", "py:hostile:World", "--target", "uniform:9", "--out", "run")
    done = covgame(*asked, cwd=tmp_path)
    assert done.returncode == 4
    assert "\\x1b]52;c;" in done.stderr
    assert not ACTS.search(done.stdout + done.stderr)


def test_names_in_a_folder_reach_no_terminal(tmp_path: Path) -> None:
    cg.cover("chain:states=3,horizon=4", "uniform:9/pair", max_episodes=2, out=tmp_path / "run")
    names = {"format": "covgame-names/1", "states": HOSTILE[:3], "actions": [CLEAR, "two\nlines"]}
    set_document(tmp_path / "run", "names", names)
    for command in (["policy"], ["audit", "--target", "uniform:9/pair"]):
        done = covgame(command[0], "run", *command[1:], cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "\\x1b]52;c;" in done.stdout
        assert not ACTS.search(done.stdout)


@pytest.mark.parametrize("name", HOSTILE[:5])
def test_names_on_the_command_line_come_back_plain(name: str) -> None:
    for asked in (["plan", name, "--target", "uniform:1"], ["resume", name], [name]):
        done = covgame(*asked)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
        assert not ACTS.search(done.stderr)


def test_no_error_echoes_all_of_its_input() -> None:
    for asked in (["plan", "x" * 100_000, "--target", "uniform:1"], ["resume", "y" * 100_000]):
        done = covgame(*asked)
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr) < 700


def test_progress_is_plain() -> None:
    class Hostile:
        actions, horizon = (CLEAR, "other"), 4

        def reset(self) -> str:
            return "start"

        def step(self, action: str) -> tuple[str, float, bool]:
            return "start", 0.0, False

    said: list[str] = []
    cg.cover(Hostile, "uniform:90/pair", progress=lambda run: said.append(progress_view(run).words))
    assert any("\\x1b[2J" in words for words in said)
    assert not any(ACTS.search(words) for words in said)


def test_notebooks_and_pictures_are_plain() -> None:
    from covgame.notebook import facts_table
    from covgame.report.figures import new_figure, set_title

    assert facts_table([("a", f"{CLEAR}<b>")]).count("\\x1b[2J&lt;b&gt;") == 1
    figure = new_figure(2, 2)
    set_title(figure, TURNED)
    assert figure.get_suptitle() == "\\u202etxt.exe"
