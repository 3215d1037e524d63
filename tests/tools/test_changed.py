"""tools/changed: which files differ from the last merge."""

import os
import shutil
import subprocess

import pytest

from harness import ROOT

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="NOT TESTED: no git here")
HOURS = 3600


class Tree:
    def __init__(self, path):
        self.path = path
        path.mkdir(exist_ok=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *args, when=10**9):
        done = subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x", *args], cwd=self.path, check=True, text=True,
                              capture_output=True, env={"PATH": os.environ["PATH"], "HOME": str(self.path),
                                                        "GIT_COMMITTER_DATE": f"{when} +0000"})
        return done.stdout.strip()

    def commit(self, name, when):
        (self.path / name).parent.mkdir(exist_ok=True)
        (self.path / name).write_text(f"{when}\n")
        self.git("add", ".")
        self.git("commit", "-q", "-m", name, when=10**9 + when)
        return self.git("rev-parse", "HEAD")

    def changed(self, **env):
        done = subprocess.run([ROOT / "tools/changed"], cwd=self.path, check=True, capture_output=True, text=True,
                              env={"PATH": os.environ["PATH"], "HOME": str(self.path), **env})
        return set(done.stdout.split())


@pytest.fixture
def tree(tmp_path):
    tree = Tree(tmp_path / "tree")
    tree.commit("old.c", 0)
    tree.first = tree.commit("merged.c", 1 * HOURS)
    tree.commit("src/a.c", 8 * HOURS)
    tree.commit("src/b.c", 9 * HOURS)
    return tree


def test_where_everything_is_merged_the_last_hours_count(tree):
    assert tree.changed() == {"src/a.c", "src/b.c"}


def test_what_is_not_committed_counts(tree):
    (tree.path / "old.c").write_text("new")
    (tree.path / "new.c").write_text("new")
    assert tree.changed() == {"src/a.c", "src/b.c", "old.c", "new.c"}


def test_a_branch_is_compared_with_its_origin(tree):
    tree.git("update-ref", "refs/remotes/origin/main", tree.git("rev-parse", "HEAD~1"))
    assert tree.changed() == {"src/b.c"}
    tree.git("update-ref", "refs/remotes/origin/main", "HEAD")
    assert tree.changed() == {"src/a.c", "src/b.c"}


def test_base_names_the_commit_to_compare_with(tree):
    assert tree.changed(BASE="HEAD~1") == {"src/b.c"}
    assert tree.changed(BASE=tree.first) == {"src/a.c", "src/b.c"}


def test_all_files_where_nothing_is_known(tree):
    everything = {"old.c", "merged.c", "src/a.c", "src/b.c"}
    assert tree.changed(BASE="no-such-commit") == everything
    shutil.rmtree(tree.path / ".git")
    assert tree.changed() == everything


def test_all_files_where_the_history_is_cut_off(tree, tmp_path):
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{tree.path}", tmp_path / "shallow"], check=True)
    shallow = Tree(tmp_path / "shallow")
    assert shallow.changed() == {"old.c", "merged.c", "src/a.c", "src/b.c"}
