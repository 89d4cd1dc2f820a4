"""Histories of real repositories, made for the purpose."""

import os
import shutil
import subprocess
import time

import numpy as np
import pytest

from unstale.errors import InvalidInput
from unstale.lab.git_history import Repository, histories_of
from unstale.lab.histories import load

GIT = shutil.which("git") or ""
pytestmark = pytest.mark.skipif(not GIT, reason="there is no git")


class Git:
    """A repository in the making; each commit is ten seconds after the one before, unless it says when."""

    def __init__(self, folder):
        self.folder, self.now = folder, 1_000_000_000
        folder.mkdir(parents=True, exist_ok=True)
        self("init", "--quiet", "--initial-branch=main")

    def __call__(self, *arguments, code=0):
        who = {
            f"GIT_{one}_{part}": "x@example" for one in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")
        }
        when = {"GIT_AUTHOR_DATE": "@1000 +0000", "GIT_COMMITTER_DATE": f"@{self.now} +0200"}
        own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        done = subprocess.run(  # noqa: S603
            [GIT, "-c", "core.quotePath=true", *arguments],
            cwd=self.folder,
            env=os.environ | who | when | own,
            capture_output=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done.stdout.decode()

    def write(self, name, text):
        path = self.folder / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self, *arguments, at=None):
        self.now = self.now + 10 if at is None else at
        self("add", "--all")
        self("commit", "--quiet", "--allow-empty", "--message", "x", *arguments)
        return self.now


@pytest.fixture
def git(tmp_path):
    return Git(tmp_path / "pages")


def times_of(*folders, since=None, branch=None):
    """Times of each file."""
    found = histories_of([Repository(str(folder), branch) for folder in folders], since)
    assert np.all(np.diff(found.elements) >= 0)
    times = {key: found.times[found.elements == i].tolist() for i, key in enumerate(found.keys)}
    assert all(times.values())
    return times


def test_changes_of_content_deletions_and_files_that_come_again(git):
    git.write("a", "1")
    git.write("b", "1")
    one = git.commit()
    git.write("a", "2")
    two = git.commit()
    git.commit()  # nothing
    (git.folder / "b").unlink()
    gone = git.commit()
    git.write("b", "3")
    back = git.commit()
    assert times_of(git.folder) == {"a": [one, two], "b": [one, gone, back]}


def test_time_is_that_of_the_committer_and_a_second_counts_once(git):
    git.write("a", "1")
    git.commit(at=2000)
    git.write("a", "2")
    git.commit(at=3000)
    git.write("a", "3")
    git.commit(at=3000)
    git.write("a", "4")
    git.commit(at=2500)  # a clock that was wrong
    assert times_of(git.folder) == {"a": [2000, 2500, 3000]}


def test_a_change_of_mode_is_none(git):
    git.write("a", "1")
    one = git.commit()
    (git.folder / "a").chmod(0o755)
    git.commit()
    assert git("show", "--raw").count("100755") == 1
    assert times_of(git.folder) == {"a": [one]}


def test_a_file_that_is_moved_as_it_is_stays_the_same(git):
    git.write("a", "1\n" * 50)
    one = git.commit()
    git("mv", "a", "b")
    git.commit()
    git.write("b", "2\n" * 50)
    two = git.commit()
    git.write("sub/c", "2\n" * 50)
    (git.folder / "b").unlink()
    git.commit()
    git.write("a", "a new one")
    three = git.commit()
    assert times_of(git.folder) == {"sub/c": [one, two], "a": [three]}


def test_a_move_with_an_edit_is_a_deletion_and_a_new_file(git):
    git.write("a", "1\n" * 50)
    one = git.commit()
    (git.folder / "a").unlink()
    git.write("b", "1\n" * 49)
    two = git.commit()
    assert times_of(git.folder) == {"a": [one, two], "b": [two]}


def test_a_file_that_moves_to_several_places_is_one_of_them(git):
    git.write("a", "1\n" * 50)
    one = git.commit()
    (git.folder / "a").unlink()
    git.write("b", "1\n" * 50)
    git.write("c", "1\n" * 50)
    two = git.commit()
    assert sorted(times_of(git.folder).values()) == [[one], [two]]


def test_another_file_under_a_name_that_was_free_is_another_element(git):
    git.write("a", "the first")
    git.write("b", "the second")
    one = git.commit()
    (git.folder / "a").unlink()
    gone = git.commit()
    git("mv", "b", "a")
    git.commit()
    git.write("a", "edited")
    edited = git.commit()
    assert times_of(git.folder) == {"a": [one, edited], "a (2)": [one, gone]}


def test_a_merge_is_one_change_at_its_own_time(git):
    git.write("a", "1")
    one = git.commit()
    git("switch", "--quiet", "--create", "side")
    for text in "234":
        git.write("b", text)
        git.commit()
    git("switch", "--quiet", "main")
    git.write("a", "2")
    two = git.commit()
    git.now += 10
    git("merge", "--quiet", "--no-ff", "--message", "x", "side")
    assert times_of(git.folder) == {"a": [one, two], "b": [git.now]}
    assert len(times_of(git.folder, branch="side")["b"]) == 3


def test_odd_names(git):
    names = ["ünï cödé", "new\nline", "tab\t", '"quoted"', ":100644 x", "-x", "日本/語"]
    for name in names:
        git.write(name, name)
    git.write(b"not utf-8 \xff", "x")
    one = git.commit()
    assert times_of(git.folder) == {name: [one] for name in [*names, "not utf-8 \\xff"]}


def test_links_and_submodules_are_files(git, tmp_path):
    other = Git(tmp_path / "other")
    other.write("x", "1")
    other.commit()
    git.write("a", "1")
    (git.folder / "link").symlink_to("a")
    one = git.commit()
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other.folder), "sub")
    two = git.commit()
    (git.folder / "link").unlink()
    (git.folder / "link").symlink_to("b")
    three = git.commit()
    assert times_of(git.folder) == {"a": [one], "link": [one, three], ".gitmodules": [two], "sub": [two]}


def test_since_begins_with_the_files_that_there_are_then(git):
    git.write("old", "1")
    git.write("gone", "1")
    git.commit(at=1000)
    git.write("old", "2")
    (git.folder / "gone").unlink()
    git.commit(at=2000)
    git.write("new", "1")
    git.write("old", "3")
    git.commit(at=3000)
    assert times_of(git.folder, since=2500) == {"old": [2500, 3000], "new": [3000]}
    assert times_of(git.folder, since=2000) == {"old": [2000, 3000], "gone": [2000], "new": [3000]}
    assert times_of(git.folder, since=9000) == {"old": [9000], "new": [9000]}


def test_several_repositories(git, tmp_path):
    git.write("a", "1")
    one = git.commit()
    others = [Git(tmp_path / "x" / "pages"), Git(tmp_path / "docs")]
    for other in others:
        other.write("a", "1")
        other.commit()
    found = times_of(git.folder, *(other.folder for other in others))
    assert found == {name: [one] for name in ("pages/a", "pages (2)/a", "docs/a")}


def test_bare_and_shallow_clones(git, tmp_path):
    for text in "123":
        git.write("a", text)
        git.commit()
    git("clone", "--quiet", "--bare", str(git.folder), str(tmp_path / "pages.git"))
    git("clone", "--quiet", "--depth=2", git.folder.as_uri(), str(tmp_path / "cut"))
    bare, cut = Repository(str(tmp_path / "pages.git")), Repository(str(tmp_path / "cut"))
    assert (bare.name, bare.is_shallow, bare.count()) == ("pages", False, 3)
    assert (cut.is_shallow, cut.count()) == (True, 2)
    whole = times_of(git.folder)
    assert times_of(bare.folder) == whole
    assert times_of(cut.folder)["a"] == whole["a"][1:]


def test_what_cannot_be_read(git, tmp_path, monkeypatch):
    def refused(folder, branch=None):
        with pytest.raises(InvalidInput) as caught:
            Repository(str(folder), branch)
        return str(caught.value).removeprefix(f"{folder}: ")

    assert refused(git.folder) == "it has no commits"
    git.write("sub/a", "1")
    git.commit()
    assert refused(tmp_path / "nowhere") == "does not exist"
    assert refused(git.folder / "sub" / "a") == "is not a folder"
    assert refused(tmp_path) == "is not a git repository, or not its top folder"
    assert refused(git.folder / "sub") == "is not a git repository, or not its top folder"
    for ref in ("nope", "--all", "main..main", "main:sub/a"):
        assert refused(git.folder, ref) == f"it has no branch, tag or commit {ref!r}"
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setattr("unstale.lab.git_history._KEPT_VARIABLES", ("GIT_CONFIG_", "GIT_TEST_"))
    assert "belongs to another user, so git does not trust it" in refused(git.folder)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refused(git.folder) == "git is needed to read repositories, and is not installed"


def test_a_damaged_repository(git):
    for text in "123":
        git.write("a", text)
        git.commit()
    tree = git("rev-parse", "HEAD~1^{tree}").strip()
    (git.folder / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(InvalidInput, match="git cannot read it"):
        times_of(git.folder)


def test_settings_of_the_repository_neither_run_programs_nor_matter(git, tmp_path):
    program, proof = tmp_path / "program", tmp_path / "proof"
    program.write_text(f"#!/bin/sh\ntouch {proof}\n")
    program.chmod(0o755)
    git.write(".gitattributes", "* diff=own\n")
    for text in "12":
        git.write("a", text)
        git.commit()
    expected = times_of(git.folder)
    for name, value in {
        "core.fsmonitor": program, "core.pager": program, "core.sshCommand": program, "gpg.program": program,
        "diff.external": program, "diff.own.command": program, "diff.own.textconv": program,
        "log.showSignature": "true", "log.showRoot": "false", "log.diffMerges": "off",
        "diff.renames": "copies",
        "color.ui": "always", "diff.relative": "true", "pager.log": "true", "log.date": "relative",
        "alias.log": f"!{program}", "log.follow": "true", "diff.noprefix": "true", "core.quotePath": "false",
    }.items():  # fmt: skip
        git("config", name, str(value))
    for hook in ("post-index-change", "reference-transaction", "fsmonitor-watchman"):
        shutil.copy(program, git.folder / ".git" / "hooks" / hook)
    assert times_of(git.folder) == expected
    assert not proof.exists()
    git("status")
    assert proof.exists()  # so it would have been run


def test_nothing_is_fetched(git, tmp_path):
    proof = tmp_path / "proof"
    for text in "12":
        git.write("a", text)
        git.commit()
    tree = git("rev-parse", "HEAD~1^{tree}").strip()
    git("config", "core.repositoryFormatVersion", "1")
    git("config", "extensions.partialClone", "origin")
    git("config", "remote.origin.promisor", "true")
    git("config", "remote.origin.url", f"ext::touch {proof}")
    git("config", "protocol.ext.allow", "always")
    (git.folder / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(InvalidInput, match="git cannot read it"):
        times_of(git.folder)
    assert not proof.exists()
    git("log", "--raw", code=128)
    assert proof.exists()


def test_variables_of_a_hook_do_not_matter(git, tmp_path, monkeypatch):
    git.write("a", "1")
    one = git.commit()
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", "nowhere")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "false")
    assert times_of(git.folder) == {"a": [one]}


def test_a_repository_is_a_history(git):
    git.write("a", "1")
    git.write("b", "1")
    git.commit(at=0)
    git.write("a", "2")
    git.commit(at=86400)
    recorded = load(str(git.folder))
    assert (recorded.name, len(recorded), recorded.end) == ("pages", 2, 1.0)
    assert recorded.keys[recorded.busiest] == "a"
    assert recorded.times.tolist() == [1.0]


def test_a_large_repository_is_read_as_fast_as_git_gives_it(tmp_path):
    commits, each, files = 1500, 20, 2000
    rng = np.random.default_rng(1)
    git = Git(tmp_path / "large")
    stream = []
    for k in range(commits):
        stream.append(f"commit refs/heads/main\ncommitter x <x> {1_000_000_000 + 60 * k} +0000\ndata 1\nx\n")
        stream += [
            f"M 644 inline d{i % 70}/f{i}\ndata {len(str(k))}\n{k}\n"
            for i in set(rng.integers(files, size=each))
        ]
    subprocess.run(  # noqa: S603
        [GIT, "fast-import", "--quiet"], cwd=git.folder, input="".join(stream).encode(), check=True
    )
    begun = time.perf_counter()
    found = histories_of([Repository(str(git.folder))])
    assert time.perf_counter() - begun < 100.0  # about half a second
    assert len(found.keys) == files
    assert len(found) == sum(line.startswith("M ") for line in stream)
