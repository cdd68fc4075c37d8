"""The commands, the code, the links and the printed output of README and docs are true."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from glassformer.data.datasets import dates
from glassformer.errors import EXIT_FINDINGS
from glassformer.evaluation.evaluate import score_texts
from glassformer.planning import advise as advise_module
from glassformer.planning.advise import Advice
from glassformer.planning.recipes.overrides import merge, nested
from glassformer.settings import all_settings
from glassformer.training import Run, forecast
from tests.cli.conftest import answer_to
from tests.test_architecture import ORDER
from tests.tiny import OVERRIDES

ROOT = Path(__file__).parents[1]
TINY = nested(
    OVERRIDES
    | {
        "training.steps": 4,
        "training.validate_every": 2,
        "training.validate_rows": 10,
        "decoding.max_new_tokens": 20,  # such a model finds no end of its answers
    }
)
LEMMAS = ("walk", "talk", "call", "gehen", "sagen")
VERBS = {"V;PST": "ed", "V;PRS;3;SG": "s", "V;PTCP": "ing"}


def blocks(page: str, language: str = "") -> list[str]:
    """The fenced blocks of a page in one language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def commands(page: str) -> list[str]:
    """The lines of a page that call glassformer, without comments and repetitions."""
    lines = [line.partition("  #")[0].strip() for block in blocks(page) for line in block.splitlines()]
    called = [line.replace(".venv/bin/", "") for line in lines if re.search(r"(^|\| )(\.venv/bin/)?glassformer ", line)]
    return list(dict.fromkeys(line for line in called if "VERB" not in line and "$ " not in line))


@pytest.fixture
def as_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the pages name. Settings are small, training ends after 4 steps, `check` soon."""
    rows = dates(60, seed=1)
    comma = "".join(f'{source},"{target}"\n' for source, target in rows)
    tab = "".join(f"{source}\t{target}\n" for source, target in rows)
    for name in ("pairs.csv", "test.csv", "demo/dates.csv", "demo/dates-test.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("source,target\n" + comma, encoding="utf-8")
    (tmp_path / "words.tsv").write_text("word\tipa\n" + tab, encoding="utf-8")
    (tmp_path / "test.tsv").write_text("word\tipa\n" + tab, encoding="utf-8")
    (tmp_path / "nld.tsv").write_text(tab.replace("\n", "\tby\n"), encoding="utf-8")
    (tmp_path / "input.txt").write_text("1969-07-20\n\n", encoding="utf-8")
    verbs = [(verb, verb + ending, tags) for verb in LEMMAS for tags, ending in VERBS.items()] * 4
    (tmp_path / "verbs.tsv").write_text("".join("\t".join(row) + "\n" for row in verbs), encoding="utf-8")
    languages = "".join(
        f"{lemma},{form},{tags},{('eng', 'deu')[i % 2]}\n" for i, (lemma, form, tags) in enumerate(verbs)
    )
    (tmp_path / "languages.csv").write_text(f"lemma,form,tags,language\n{languages}", encoding="utf-8")
    for part in ("train", "valid", "test"):
        for column, language in enumerate(("en", "nl")):
            lines = "".join(f"{row[column]}\n" for row in dates(60, seed=len(part)))
            (tmp_path / f"{part}.{language}").write_text(lines, encoding="utf-8")
    monkeypatch.setitem(sys.modules, "mlflow", MagicMock())
    monkeypatch.chdir(tmp_path)
    advise = advise_module.advise

    def advise_little(*args, **options) -> Advice:
        advice = advise(*args, **options)
        return Advice(merge(advice.settings, TINY), advice.choices)

    monkeypatch.setattr("glassformer.planning.plan.advise", advise_little)
    monkeypatch.setattr(Run, "_reason_to_end", lambda run: "a test" if run.position.step >= 4 else None)
    monkeypatch.setattr(forecast, "MAX_SECONDS", 0.0)
    monkeypatch.setitem(score_texts.__kwdefaults__, "resamples", 20)
    return tmp_path


def run_line(line: str) -> None:
    """Run a command in this process; `echo … |` becomes its standard input."""
    echoed, _, command = line.rpartition(" | ")
    answer = answer_to(*shlex.split(command)[1:], stdin=f"{echoed.removeprefix('echo ')}\n".encode())
    assert answer.code in (0, EXIT_FINDINGS), (line, answer.err)  # such a model learns nothing


GUIDES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs/guides").glob("*.md"))
AFTER_DEMO = ["README.md", "docs/quick-start.md"]
PAGES = [*AFTER_DEMO, "docs/before-training.md", "docs/resume.md", "docs/inputs.md", *GUIDES]


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=pytest.mark.medium) if page in AFTER_DEMO else page for page in PAGES]
)
def test_the_commands_and_the_python_of_a_page_run(
    page: str, as_a_reader: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if page in AFTER_DEMO:  # a fresh clone has no other files than those of the demo
        for path in [*as_a_reader.iterdir()]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        run_line("glassformer demo")
    lines = commands(page)
    assert any(line.startswith("glassformer train") for line in lines)
    for line in lines:
        run_line(line)
    code = "\n".join(blocks(page, "python"))
    assert "from glassformer import" in code
    exec(compile(code, page, "exec"), {})
    assert capfd.readouterr().out


def test_the_output_shown_in_the_quick_start_is_that_of_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from glassformer.cli.console import Reporter
    from glassformer.cli.narrate import print_plan
    from glassformer.planning.demo import Demo

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "130")
    demo = Demo(Path("demo"))
    demo.write_tables()
    print_plan(Reporter(quiet=False), demo.plan())
    printed = {" ".join(line.split()) for line in capfd.readouterr().err.splitlines()}
    (example,) = [block for block in blocks("docs/quick-start.md") if block.startswith("wrote demo/dates.csv")]
    before_training = example[: example.index("Training on ")].splitlines()[1:]
    shown = {" ".join(line.split()) for line in before_training} - {"…"}
    assert len(shown) == 5
    assert shown <= printed


def test_the_paths_to_read_have_their_modules() -> None:
    design = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    paths = re.findall(r"^- .+: `(.+? → .+?)`", design, flags=re.MULTILINE)
    assert len(paths) == 3
    (way,) = re.findall(r"^    training/train → .+?\n\n", design, flags=re.MULTILINE | re.DOTALL)
    paths += re.findall(r"\w+/\w+", way)
    for path in paths:
        modules = [ROOT / "src/glassformer" / name for name in path.split(" → ")]
        assert all(module.is_dir() or module.with_suffix(".py").exists() for module in modules)


@pytest.mark.usefixtures("as_a_reader")
def test_the_model_file_page_reads_a_model_without_glassformer() -> None:
    run_line("glassformer train pairs.csv --out demo/run")
    (code,) = blocks("docs/model-file.md", "python")
    names: dict[str, object] = {}
    exec(compile(code, "model-file.md", "exec"), names)
    assert names["settings"]["model"]["d_model"] == names["embedding"].shape[1] == 16


def test_every_link_of_a_page_has_its_target() -> None:
    pages = {*(ROOT / "docs").rglob("*.md")} - {*(ROOT / "docs/site").glob("*.md")}  # whose links its build checks
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *pages]:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_design_page_has_the_rooms_in_the_order_that_the_architecture_test_enforces() -> None:
    shown = re.findall(r"^\| `([\w.]+)` \|", (ROOT / "docs/design.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [*shown, "__main__"] == list(ORDER)


def test_the_paper_page_names_only_things_that_exist() -> None:
    page = (ROOT / "docs/paper.md").read_text(encoding="utf-8")
    found = re.findall(r"`((?:\w+/)*\w+\.py): (\w+)`", page)
    assert len(found) > 3
    for path, name in found:
        (module,) = (ROOT / "src").rglob(path)
        assert f"def {name}(" in module.read_text(encoding="utf-8"), (path, name)
    for path in re.findall(r"`(tests/[\w/]+\.py)`", page):
        assert (ROOT / path).exists(), path


def test_the_notes_lead_to_sections_and_panels_that_exist() -> None:
    lines = (ROOT / "docs/notes.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "](../lessons/source/" in line]
    panels = (ROOT / "src/glassformer/glassbox/page/panels/all.js").read_text(encoding="utf-8")
    assert len(rows) > 20
    for _, lesson, panel in rows:
        path, section = re.findall(r"\(\.\./(.+)\), section (\d)$", lesson)[0]
        assert f"\n## {section}. " in (ROOT / path).read_text(encoding="utf-8"), lesson
        assert all(f"title: '{title}'" in panels for title in filter(None, panel.split(" · "))), panel


def test_the_paper_page_lists_every_setting_that_is_tagged_as_a_departure() -> None:
    departures = (ROOT / "docs/paper.md").read_text(encoding="utf-8").partition("## Departures")[2]
    listed = set(re.findall(r"`((?:\w+\.)+\w+)(?: = [^`]+)?`", departures))
    tagged = {name for name, text in all_settings().items() if "Departure" in text}
    assert {"model.norm", "model.scale_embeddings", "model.tied_embeddings", "decoding.max_new_tokens"} <= tagged
    assert tagged <= listed
