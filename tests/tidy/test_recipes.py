"""Every command, study and manifest in docs/recipes is accepted by the program."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from conftest import need_program
from storlab.cli.main import app, verbs
from storlab.lab.study.file import load_study
from tidy import tree

RECIPES = tree.source(".md", "docs/recipes")
CLUSTERFILE = "packaging/container/Containerfile.cluster"
MPIJOB = "packaging/kubernetes/mpijob.yaml"
CONTAINERFILE = "packaging/container/Containerfile"
IO_URING = {"io_uring_setup", "io_uring_enter", "io_uring_register"}
_BLOCK = re.compile(r"(?ms)^```(\w+)\n(.*?)^```$")


def blocks(language: str) -> list[tuple[str, str]]:
    """Yield the recipe's name and text of each code block in that language."""
    found = [(name, *pair) for name in RECIPES for pair in _BLOCK.findall(tree.read(name))]
    return [(str(name), text) for name, kind, text in found if kind == language]


def manifests() -> list[Any]:
    return [m for _, text in blocks("yaml") for m in yaml.safe_load_all(text)]


def studies() -> Iterator[tuple[str, str]]:
    """Yield studies with their position: alone, or in the data of a ConfigMap."""
    yield from blocks("toml")
    for manifest in manifests():
        data = manifest.get("data", {})
        yield from ((name, text) for name, text in data.items() if name.endswith(".toml"))


def commands() -> list[list[str]]:
    """Yield the words of each storlab call: in scripts, in running text, and in Job arguments."""
    inline = [c for name in RECIPES for c in re.findall(r"`(storlab [^`]+)`", tree.read(name))]
    scripts = [text.replace("\\\n", " ") for _, text in blocks("bash")]
    lines = [line for text in scripts for line in text.splitlines()]
    called = [c for line in lines for c in re.findall(r"(?:^|\s)(storlab [a-z]+ .+)$", line)]
    jobs = [m["spec"]["template"]["spec"] for m in manifests() if m["kind"] == "Job"]
    arguments = [c["args"] for job in jobs for c in job["containers"]]
    return [*(shlex.split(text)[1:] for text in [*inline, *called]), *arguments]


def test_there_is_something_to_check() -> None:
    assert len(list(studies())) >= 3
    assert len(commands()) >= 15
    assert {name for name, _ in blocks("yaml")} == {"docs/recipes/s3-kubernetes.md"}


@pytest.mark.parametrize(("name", "text"), list(studies()))
def test_studies_are_valid(name: str, text: str, tmp_path: Path) -> None:
    assert "study" in tomllib.loads(text)
    place = tmp_path / "study.toml"
    place.write_text(text)
    assert load_study(place).study.target


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_are_those_of_the_program(words: list[str]) -> None:
    verb, *rest = words
    assert verb in verbs()
    group: Any = typer.main.get_command(app)
    command = group.get_command(None, verb)
    with command.make_context(verb, list(rest)) as made:
        assert made.params


def test_commands_name_files_of_their_recipe() -> None:
    for name in RECIPES:
        text = tree.read(name)
        named = set(re.findall(r"[a-z0-9-]+\.toml", text)) - {"study.toml"}
        assert all(f"`{n}`" in text or f"  {n}: |" in text for n in named - {"nvme.toml"}), name


@pytest.mark.parametrize("text", [text for _, text in blocks("bash")])
def test_scripts_are_bash(text: str) -> None:
    subprocess.run([need_program("bash"), "-n"], input=text, text=True, check=True)


def test_the_job_asks_for_no_right() -> None:
    (job,) = [m for m in manifests() if m["kind"] == "Job"]
    pod = job["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    rights = container["securityContext"]
    assert rights["readOnlyRootFilesystem"] is True
    assert rights["capabilities"] == {"drop": ["ALL"]}
    mounted = {m["name"] for m in container["volumeMounts"]}
    assert mounted == {v["name"] for v in pod["volumes"]}
    maps = {m["metadata"]["name"] for m in manifests() if m["kind"] == "ConfigMap"}
    assert {v["configMap"]["name"] for v in pod["volumes"] if "configMap" in v} == maps


def test_the_seccomp_line_allows_io_uring_and_nothing_else(tmp_path: Path) -> None:
    if shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    (script,) = [text for _, text in blocks("bash") if "seccomp.json" in text and "jq" in text]
    given = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "syscalls": [
            {"names": ["bdflush", "io_uring_setup"], "action": "SCMP_ACT_ERRNO"},
            {"names": ["read", "write"], "action": "SCMP_ACT_ALLOW"},
        ],
    }
    default = tmp_path / "default.json"
    default.write_text(json.dumps(given))
    script = script.replace("/usr/share/containers/seccomp.json", str(default))
    subprocess.run(["bash", "-c", script], cwd=tmp_path, check=True)
    made = json.loads((tmp_path / "storlab-seccomp.json").read_text())
    allowed = [e["names"] for e in made["syscalls"] if e["action"] == "SCMP_ACT_ALLOW"]
    assert {n for names in allowed for n in names} == {"read", "write", *IO_URING}
    assert made["syscalls"][0]["names"] == ["bdflush"]


def instructions(name: str = CONTAINERFILE) -> list[tuple[str, str]]:
    """Return each instruction of a Containerfile and its arguments."""
    text = re.sub(r"(?m)^#.*\n", "", tree.read(name)).replace("\\\n", " ")
    split = [line.partition(" ") for line in text.splitlines() if line]
    return [(word, rest) for word, _, rest in split]


def test_the_container_has_a_user_and_fetches_nothing_by_itself() -> None:
    found = instructions()
    words = [word for word, _ in found]
    assert set(words) <= {
        "ARG",
        "FROM",
        "COPY",
        "RUN",
        "ENV",
        "WORKDIR",
        "USER",
        "ENTRYPOINT",
        "CMD",
    }
    last = [rest for word, rest in found if word == "USER"][-1]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", last)
    assert words.index("USER") > len(words) - 1 - words[::-1].index("RUN")
    assert json.loads(dict(found)["ENTRYPOINT"]) == ["storlab"]
    base = dict(pair.split("=", 1) for word, pair in found if word == "ARG")["BASE"]
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", base)
    every = [*found, *instructions(CLUSTERFILE)]
    copies = [rest.split() for word, rest in every if word == "COPY" and "--from" not in rest]
    copied = [name for names in copies for name in names[:-1]]
    ignored = tree.read(".containerignore").split()
    assert [f"!{name}" for name in copied] == ignored[1:]


def _settings(name: str) -> dict[str, str]:
    """Return the keywords of an ssh configuration and their values."""
    lines = tree.read(f"packaging/container/{name}").splitlines()
    words = (line.strip().partition(" ") for line in lines if not line.startswith("#"))
    return {word: value for word, _, value in words}


def test_the_mpijob_is_of_one_piece_with_its_image(tmp_path: Path) -> None:
    """Check that user, port, keys, hosts and volumes agree in manifest, image and study."""
    documents = list(yaml.safe_load_all(tree.read(MPIJOB)))
    (job,) = [d["spec"] for d in documents if d["kind"] == "MPIJob"]
    (configured,) = [d for d in documents if d["kind"] == "ConfigMap"]
    server, client = _settings("sshd_config"), _settings("ssh_config")
    keys = job["sshAuthMountPath"]
    assert server["HostKey"] == client["IdentityFile"] == f"{keys}/id_rsa"
    assert server["AuthorizedKeysFile"] == f"{keys}/authorized_keys"
    found = instructions(CLUSTERFILE)
    user = [rest for word, rest in found if word == "USER"][-1]
    (made,) = [rest for word, rest in found if word == "RUN"]
    assert f"--uid {user.partition(':')[0]} " in made
    assert made.split("useradd")[1].split("&&")[0].split()[-1] == server["AllowUsers"]
    assert client["User"] == server["AllowUsers"]
    place = tmp_path / "study.toml"
    place.write_text(configured["data"]["study.toml"])
    study = load_study(place).study
    cluster = study.cluster
    assert cluster is not None
    assert cluster.hostfile == "/etc/mpi/hostfile"  # where the operator writes it
    replicas = job["mpiReplicaSpecs"]
    assert cluster.most_asked == replicas["Worker"]["replicas"]
    assert replicas["Launcher"]["replicas"] == job["slotsPerWorker"] == 1
    for role, spec in replicas.items():
        pod = spec["template"]["spec"]
        assert pod["securityContext"]["runAsUser"] == int(user.partition(":")[0])
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert set(mounts) == {volume["name"] for volume in pod["volumes"]}
        assert mounts["data"] == cluster.mount
        assert {"/tmp", "/dev/shm"} <= set(mounts.values())
        if role == "Worker":
            assert container["command"][0] == "/usr/sbin/sshd"
            assert container["readinessProbe"]["tcpSocket"]["port"] == int(server["Port"])
            assert client["Port"] == server["Port"]
        else:
            assert container["args"][0] in verbs()
            assert container["args"][1] == f"{mounts['study']}/study.toml"
    limits = [s["template"]["spec"]["containers"][0]["resources"] for s in replicas.values()]
    assert all(limit["requests"] == limit["limits"] for limit in limits)


def test_hadolint_finds_nothing() -> None:
    hadolint = shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed")
    subprocess.run([hadolint, tree.ROOT / CONTAINERFILE], check=True)
