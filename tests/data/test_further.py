"""The further columns of a table, by kept pair."""

from __future__ import annotations

from pathlib import Path

import pytest

from glassformer.data.given import as_table
from glassformer.data.rows import further_columns
from glassformer.data.tables import read_table
from glassformer.settings import DataSettings

PARTS = {"source": "lemma", "features": ["tags"], "target": "form"}
MANY = "".join(f"a{i},{i},same,{i},{i % 20}\n" for i in range(100))
KEPT = "source,target,--report,kind\na,1,x,n\n\nb,,y,v\nc,2,z,v\n,3,x,n\nd,4,x,n\n"
TYPED = '{"source": "a", "target": "1", "size": 3}\n{"source": "b", "target": "2", "size": null}\n'
CELLS = zip("abcd", ["x", "\\u0000", "\\ud83d", "y"], strict=True)
DAMAGED = "".join(f'{{"source":"{source}","target":"1","note":"{note}"}}\n' for source, note in CELLS)


@pytest.mark.parametrize(
    ("name", "text", "data", "found"),
    [
        ("a.csv", KEPT, {}, {"--report": ["x", "z", "x"], "kind": ["n", "v", "n"]}),
        ("a.csv", f"source,target,same,id,group\n{MANY}", {}, {"group": [str(i % 20) for i in range(100)]}),
        (
            "a.csv",
            "lemma,form,tags,note\nwalk,walks,V;SG,x\nrun,runs,V;PL,y\n",
            PARTS,
            {"tags": ["V;SG", "V;PL"], "note": ["x", "y"]},
        ),
        ("a.tsv", "a\t1\tx\nb\t2\ty\n", {"header": "no", "source": 0, "target": 1}, {"column 2": ["x", "y"]}),
        (
            "a.csv",
            "source,target,k,k\na,1,x,p\nb,2,y,q\n",
            {"header": "yes"},
            {"k (column 2)": ["x", "y"], "k (column 3)": ["p", "q"]},
        ),
        ("a.jsonl", TYPED, {}, {"size": ["3", "null"]}),
        ("a.jsonl", DAMAGED, {}, {"note": ["x", "", "", "y"]}),
    ],
)
def test_each_kept_pair_has_its_cells_in_columns_of_two_to_twenty_values(tmp_path: Path, name, text, data, found):
    (tmp_path / name).write_text(text)
    table = read_table(tmp_path / name, DataSettings.model_validate(data))
    assert further_columns(table, 20) == found
    assert further_columns(table, 1) == {}


def test_the_files_of_a_folder_follow_each_other(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "a.csv").write_text("source,target,kind\na,1,x\nb,,x\n")
    (folder / "b.csv").write_text("source,target,kind\nc,3,y\n")
    assert further_columns(read_table(folder, DataSettings()), 20) == {"kind": ["x", "y"]}


def test_pairs_from_python_and_parallel_texts_have_none(tmp_path: Path) -> None:
    assert further_columns(as_table([("a", "1")]), 20) == {}
    (tmp_path / "a.en").write_text("a\nb\n")
    (tmp_path / "a.de").write_text("1\n2\n")
    path = f"{tmp_path / 'a.en'},{tmp_path / 'a.de'}"
    assert further_columns(read_table(path, DataSettings()), 20) == {}
