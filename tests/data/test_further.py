"""The further columns of a table, by kept pair."""

from __future__ import annotations

from pathlib import Path

from glassformer.data.further import further_columns
from glassformer.data.given import as_table
from glassformer.data.tables import read_table
from glassformer.paper.settings import DataSettings


def columns_of(path: Path, text: str, most: int = 20, **data: object) -> dict[str, list[str]]:
    path.write_text(text)
    settings = DataSettings.model_validate(data)
    return further_columns(read_table(path, settings), most)


def test_each_kept_pair_has_its_cells_whatever_the_columns_are_called(tmp_path: Path) -> None:
    text = "source,target,--report,kind\na,1,x,n\n\nb,,y,v\nc,2,z,v\n,3,x,n\nd,4,x,n\n"
    assert columns_of(tmp_path / "a.csv", text) == {"--report": ["x", "z", "x"], "kind": ["n", "v", "n"]}
    assert columns_of(tmp_path / "b.csv", text, most=1) == {}


def test_columns_of_one_value_or_too_many_are_left_out(tmp_path: Path) -> None:
    rows = "".join(f"a{i},{i},same,{i},{i % 20}\n" for i in range(100))
    found = columns_of(tmp_path / "a.csv", f"source,target,same,id,group\n{rows}")
    assert found == {"group": [str(i % 20) for i in range(100)]}


def test_features_are_further_columns_and_texts_are_not(tmp_path: Path) -> None:
    text = "lemma,form,tags,note\nwalk,walks,V;SG,x\nrun,runs,V;PL,y\n"
    found = columns_of(tmp_path / "a.csv", text, source="lemma", features=["tags"], target="form")
    assert found == {"tags": ["V;SG", "V;PL"], "note": ["x", "y"]}


def test_columns_without_a_name_of_their_own_have_their_position(tmp_path: Path) -> None:
    assert columns_of(tmp_path / "a.tsv", "a\t1\tx\nb\t2\ty\n", header="no", source=0, target=1) == {
        "column 2": ["x", "y"]
    }
    found = columns_of(tmp_path / "b.csv", "source,target,k,k\na,1,x,p\nb,2,y,q\n", header="yes")
    assert found == {"k (column 2)": ["x", "y"], "k (column 3)": ["p", "q"]}


def test_json_lines_keep_numbers_and_missing_values_as_text(tmp_path: Path) -> None:
    rows = '{"source": "a", "target": "1", "size": 3}\n{"source": "b", "target": "2", "size": null}\n'
    assert columns_of(tmp_path / "a.jsonl", rows) == {"size": ["3", "null"]}


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


def test_a_damaged_cell_of_a_further_column_is_empty_and_its_row_is_kept(tmp_path: Path) -> None:
    rows = [("a", "x"), ("b", "\\u0000"), ("c", "\\ud83d"), ("d", "y")]
    text = "".join(f'{{"source":"{source}","target":"1","note":"{note}"}}\n' for source, note in rows)
    assert columns_of(tmp_path / "a.jsonl", text) == {"note": ["x", "", "", "y"]}
