"""`glassformer split`: what it writes and prints."""

from __future__ import annotations

import json

from glassformer.data.datasets import dates
from glassformer.data.tables import read_table
from glassformer.settings import DataSettings


def test_a_table_is_split_into_files_without_a_shared_source_that_train_takes(tmp_path, call, table_of):
    rows = dates(60, seed=3)
    table, out = table_of(tmp_path / "t.csv", [("iso", "english"), *rows, *rows[:9], ("", "x")]), tmp_path / "parts"
    answer = call("split", table, "--out", out, "--valid", "0.1", "--test", "10", "--seed", "4", "--json")
    assert answer.code == 0, answer.err
    assert "70 rows read, 69 kept" in answer.err
    found = json.loads(answer.out)
    assert (found["seed"], found["left_out"]) == (4, 1)
    assert {name: part["rows"] for name, part in found["parts"].items()} == {"train": 52, "valid": 7, "test": 10}
    read = {name: read_table(*part["files"], DataSettings()) for name, part in found["parts"].items()}
    assert [len(set(each.sources)) for each in read.values()] == [part["sources"] for part in found["parts"].values()]
    assert sum(part["sources"] for part in found["parts"].values()) == len({source for source, _ in rows})
    audited = call("audit", out / "train.csv", "--valid", out / "valid.csv", "--test", out / "test.csv", "--json")
    assert not {"pair overlap", "source overlap"} & {each["kind"] for each in json.loads(audited.out)["findings"]}


def test_the_parts_are_printed_and_are_not_replaced(tmp_path, call, table):
    out = tmp_path / "parts"
    answer = call("split", table, "--out", out, "-q")
    assert (answer.code, answer.err) == (0, "")
    assert "no source is in two parts" in answer.out
    assert f"train  160   160      {out / 'train.csv'}" in answer.out
    again = call("split", table, "--out", out)
    assert (again.code, again.out) == (1, "")
    assert "the folder is not empty; nothing was written" in again.err


VERBS = [
    (f"{lemma}{ending}", tags, lemma) for lemma in map(str, range(30)) for ending, tags in (("ed", "PST"), ("s", "3"))
]


def test_a_group_of_a_folder_or_of_parquet_is_read_from_its_files(tmp_path, call, table_of):
    folder = tmp_path / "tables"
    folder.mkdir()
    for name, rows in (("a.csv", [*VERBS[:20], ("x", "", "y")]), ("b.csv", VERBS[20:])):
        table_of(folder / name, [("source", "target", "lemma"), *rows])
    out = tmp_path / "parts"
    answer = call("split", folder, "--out", out, "--group", "lemma", "--json")
    assert answer.code == 0, answer.err
    report = json.loads(answer.out)
    assert report["split_by"] == "source and lemma"
    assert [part["groups"] for part in report["parts"].values()] == [24, 3, 3]
    rows = {
        name: [line.split(",")[2] for file in (out / name).iterdir() for line in file.read_text().splitlines()[1:]]
        for name in ("train", "valid", "test")
    }
    assert sum(map(len, rows.values())) == 60
    assert sum(len(set(each)) for each in rows.values()) == 30
    shown = call("split", folder, "--out", tmp_path / "again", "--group", "2").out
    assert "split by source and 2: no source and no 2 is in two parts" in shown


def test_a_group_that_cannot_be_used_is_an_error_without_a_file(tmp_path, call, table_of):
    table = table_of(
        tmp_path / "t.csv", [("source", "target", "kind"), ("1", "a", "x"), ("2", "b", " "), ("3", "c", "x")]
    )
    for group, code, part in (("knd", 2, "did you mean 'kind'?"), ("kind", 1, f"got: {table}, row 2\n")):
        answer = call("split", table, "--out", tmp_path / "parts", "--group", group)
        assert (answer.code, answer.out) == (code, "")
        assert part in answer.err
        assert not (tmp_path / "parts").exists()
