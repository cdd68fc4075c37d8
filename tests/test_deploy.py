"""The Dockerfile and the Kubernetes example use options, paths and files that exist, not root and no writable disk."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer.main

from glassformer.cli import command_line
from glassformer.serve.limits import DRAIN_SECONDS

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")

yaml = pytest.importorskip("yaml")


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile and what follows each."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE).replace("\\\n", " ")
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in text.splitlines() if line]


@pytest.fixture(scope="module")
def resources() -> dict[str, Any]:
    return {each["kind"]: each for each in yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text("utf-8"))}


@pytest.fixture(scope="module")
def pod(resources: dict[str, Any]) -> dict[str, Any]:
    return resources["Deployment"]["spec"]["template"]["spec"]  # type: ignore[no-any-return]


def unknown_options(names: set[str]) -> set[str]:
    """The variables of the environment that `serve` does not read."""
    serve = typer.main.get_command(command_line("serve")).commands["serve"]  # type: ignore[attr-defined]
    return names - {f"GLASSFORMER_{parameter.name.upper()}" for parameter in serve.params}


def test_the_image_runs_serve_with_options_that_exist_not_as_root_and_without_torch() -> None:
    last = dict(instructions())
    assert json.loads(last["ENTRYPOINT"]) == ["glassformer", "serve"]
    options = dict(word.split("=") for word in last["ENV"].split())
    assert options["GLASSFORMER_HOST"] == "0.0.0.0"
    assert not unknown_options(options.keys())
    assert all(int(part) > 0 for part in last["USER"].split(":"))
    assert last["EXPOSE"] == "8000"
    installed = [words for name, words in instructions() if name == "RUN" and "pip install" in words]
    assert [re.findall(r"pip install \S+ \S+ (.+?)\s+&&", words) for words in installed] == [['".[server]"']]


def test_the_image_is_made_of_files_that_exist_and_that_the_context_has() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    assert ignored[0] == "*"
    lines = [words for name, words in instructions() if name == "COPY" and "--from" not in words]
    copied = [word for words in lines for word in words.split()[:-1]]
    assert set(copied) == {line[1:] for line in ignored if line.startswith("!")}
    assert all((ROOT / name).exists() for name in copied)


def test_the_pod_has_no_rights_that_it_does_not_need(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert f"USER {pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}\n" in DOCKERFILE
    assert pod["automountServiceAccountToken"] is False
    assert [mount["name"] for mount in container["volumeMounts"] if not mount.get("readOnly")] == ["tmp"]
    assert container["resources"].keys() == {"requests", "limits"}


def test_probes_look_at_the_server_and_the_pod_has_time_to_finish(
    resources: dict[str, Any], pod: dict[str, Any]
) -> None:
    (container,) = pod["containers"]
    probes = [container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")]
    assert [probe["path"] for probe in probes] == ["/v1/ready", "/v1/ready", "/v1/health"]
    port = resources["Service"]["spec"]["ports"][0]["targetPort"]
    assert {port, *(probe["port"] for probe in probes)} == {container["ports"][0]["name"]}
    assert container["ports"][0]["containerPort"] == 8000
    sleep = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] > sleep + DRAIN_SECONDS


def test_every_name_and_option_that_the_example_refers_to_exists(
    resources: dict[str, Any], pod: dict[str, Any]
) -> None:
    options = resources["ConfigMap"]["data"]
    assert options["GLASSFORMER_MODELS"] == "dates=/models/dates"
    assert not unknown_options(options.keys())
    assert pod["enableServiceLinks"] is False, "else GLASSFORMER_PORT is the address of the service"
    assert pod["containers"][0]["image"] == f"glassformer:{version('glassformer')}"
    deployment = resources["Deployment"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert labels == deployment["selector"]["matchLabels"] == resources["Service"]["spec"]["selector"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert {mount["name"] for mount in pod["containers"][0]["volumeMounts"]} == volumes.keys()
    claim = resources["PersistentVolumeClaim"]["metadata"]["name"]
    assert volumes["models"]["persistentVolumeClaim"]["claimName"] == claim
    assert pod["containers"][0]["envFrom"] == [{"configMapRef": {"name": resources["ConfigMap"]["metadata"]["name"]}}]
