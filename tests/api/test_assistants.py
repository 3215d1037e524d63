"""Codex and opencode: the files that are written when the server starts, and the addresses that start them."""

import json
import os
import tomllib

import pytest

from harness import Report
from processes import tester  # noqa: F401

ARK = "https://ark.cn-beijing.volces.com/api/v3"
MODEL = "deepseek-v4-flash-260425"
CODEX, CATALOG, OPENCODE = ".codex/config.toml", ".codex/model-catalog.json", ".config/opencode/config.json"
CATALOGUE = '{"models": []}'


def codex(key, model=MODEL, url=ARK, **more):
    return {"model": model, "model_provider": "ark", **more, "model_providers": {
        "ark": {"name": "Ark", "base_url": url, "env_key": key, "wire_api": "responses"}}}


def opencode(provider="ark", url=ARK, npm="@ai-sdk/openai-compatible", model="m"):
    return {"$schema": "https://opencode.ai/config.json", "model": f"{provider}/{model}", "provider": {provider: {
        "npm": npm, "name": provider, "options": {"baseURL": url, "apiKey": "{env:OPENCODE_API_KEY}"},
        "models": {model: {"name": model}}}}}


PAIR = {"OPENCODE_API_KEY": "k", "OPENCODE_MODEL": "m"}


@pytest.mark.parametrize("env, files", [
    ({}, {}),
    ({"CODEX_MODEL": "m", "CODEX_BASE_URL": "https://x.example/v1", "CODEX_CONFIG_TOML": "a = 1",
      "CODEX_MODEL_CATALOG_JSON": CATALOGUE, "CODEX_API_KEY": ""}, {}),
    ({"OPENAI_API_KEY": "o"}, {CODEX: codex("OPENAI_API_KEY")}),
    ({"OPENAI_API_KEY": "o", "ARK_API_KEY": "a", "CODEX_MODEL": ""}, {CODEX: codex("ARK_API_KEY")}),
    ({"OPENAI_API_KEY": "o", "ARK_API_KEY": "a", "CODEX_API_KEY": "c", "CODEX_MODEL": 'a "b"\\c', "CODEX_BASE_URL": "http://x.example/v1"},
     {CODEX: codex("CODEX_API_KEY", 'a "b"\\c', "http://x.example/v1")}),
    ({"CODEX_API_KEY": "c", "CODEX_MODEL_CATALOG_JSON": CATALOGUE},
     {CODEX: codex("CODEX_API_KEY", model_catalog_json=f"HOME/{CATALOG}"), CATALOG: {"models": []}}),
    ({"CODEX_API_KEY": "c", "CODEX_MODEL": "m", "CODEX_CONFIG_TOML": "[a]\nb = [1,\n2]", "CODEX_MODEL_CATALOG_JSON": CATALOGUE},
     {CODEX: {"a": {"b": [1, 2]}}, CATALOG: {"models": []}}),
    (PAIR, {OPENCODE: opencode()}),
    ({"OPENCODE_API_KEY": "k"}, {}),
    ({"OPENCODE_MODEL": "m", "OPENCODE_PROVIDER": "p"}, {}),
    ({**PAIR, "OPENCODE_BASE_URL": "https://x.example/anthropic"},
     {OPENCODE: opencode(url="https://x.example/anthropic", npm="@ai-sdk/anthropic")}),
    ({**PAIR, "OPENCODE_PROVIDER": "p", "OPENCODE_PROVIDER_NPM": "@my/sdk", "OPENCODE_MODEL": "a/b"},
     {OPENCODE: opencode("p", npm="@my/sdk", model="a/b")}),
    ({**PAIR, "OPENCODE_JSON": '{"model": "mine"}'}, {OPENCODE: {"model": "mine"}}),
    ({"OPENCODE_JSON": '{"model": "mine"}'}, {OPENCODE: {"model": "mine"}}),
])
def test_files(start_server, tmp_path, env, files):
    start_server(env={"HOME": str(tmp_path), **env})
    found = {str(path.relative_to(tmp_path)): path for path in tmp_path.rglob("*") if path.is_file()}
    assert set(found) == set(files)
    for name, path in found.items():
        assert path.stat().st_mode & 0o777 == 0o600
        data = (tomllib if name.endswith(".toml") else json).loads(path.read_text().replace(str(tmp_path), "HOME"))
        assert data == files[name]


def test_a_file_of_the_users_own_stays(start_server, tmp_path):
    """Unless the whole of it is given: many people have a key in their environment. Our own is written anew."""
    file = tmp_path / CODEX
    home = {"HOME": str(tmp_path)}
    file.parent.mkdir()
    file.write_text("model = 'mine'")
    start_server(env={**home, "OPENAI_API_KEY": "o"})
    assert file.read_text() == "model = 'mine'"
    start_server(env={**home, "OPENAI_API_KEY": "o", "CODEX_CONFIG_TOML": "a = 1"})
    assert file.read_text() == "a = 1"
    file.unlink()
    for model in ("one", "two"):
        start_server(env={**home, "OPENAI_API_KEY": "o", "CODEX_MODEL": model})
        assert tomllib.loads(file.read_text())["model"] == model


@pytest.mark.parametrize("env, said", [
    ({"CODEX_CONFIG_TOML": "a = 1\nb = "}, "CODEX_CONFIG_TOML is not TOML: line 2"),
    ({"CODEX_API_KEY": "c", "CODEX_MODEL_CATALOG_JSON": "{"}, "CODEX_MODEL_CATALOG_JSON is not a JSON object"),
    ({"CODEX_API_KEY": "c", "CODEX_MODEL_CATALOG_JSON": "[]"}, "CODEX_MODEL_CATALOG_JSON is not a JSON object"),
    ({"CODEX_API_KEY": "c", "CODEX_BASE_URL": "ftp://x"}, "CODEX_BASE_URL: 'ftp://x' is not"),
    ({**PAIR, "OPENCODE_JSON": "nothing"}, "OPENCODE_JSON is not a JSON object"),
    ({**PAIR, "OPENCODE_BASE_URL": "x"}, "OPENCODE_BASE_URL: 'x' is not"),
    ({**PAIR, "OPENCODE_PROVIDER": "a/b"}, "OPENCODE_PROVIDER: 'a/b' is not"),
])
def test_what_is_invalid_ends_the_start(start_server, tmp_path, env, said):
    with pytest.raises(Report) as ended:
        start_server(env={"HOME": str(tmp_path), **env})
    assert said in str(ended.value) and list(tmp_path.rglob("*")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="NOT TESTED: needs root")
def test_they_are_the_users(start_server, tester, tmp_path):  # noqa: F811
    """A link in the user's home leads nowhere that they may not write."""
    home, elsewhere = f"/home/{tester}", tmp_path / "roots"
    elsewhere.mkdir()
    (elsewhere / "config.toml").write_text("root's own")
    os.makedirs(f"{home}/.config")
    os.symlink(elsewhere, f"{home}/.codex")
    env = {"HOME": home, "USER": tester, "CODEX_API_KEY": "c", **PAIR}
    with pytest.raises(Report) as ended:
        start_server(["--user", tester], env=env)
    assert "Permission denied" in str(ended.value)
    os.unlink(f"{home}/.codex")
    os.mkdir(f"{home}/.codex")
    os.symlink(elsewhere / "config.toml", f"{home}/.codex/config.toml")
    os.chmod(elsewhere, 0o777), os.chmod(elsewhere / "config.toml", 0o666)
    for path in (f"{home}/.codex", f"{home}/.config"):
        os.chown(path, *[os.stat(home).st_uid] * 2)
    start_server(["--user", tester], env=env)
    assert (elsewhere / "config.toml").read_text() == "root's own"
    for name in (CODEX, OPENCODE):
        assert os.stat(f"{home}/{name}").st_uid == os.stat(home).st_uid and not os.path.islink(f"{home}/{name}")


@pytest.mark.parametrize("name, package", [("codex", "@openai/codex"), ("opencode", "opencode-ai")])
def test_the_terminal_starts_them(server, name, package):
    """Its page enters the bare name of a program. Where there is none, the shell says how to get it."""
    answer = server.get(f"/{name}?theme=dark")
    assert answer.status_code == 307 and answer.headers["location"] == f"terminal?command={name}&theme=dark"
    run = lambda command: server.post("/v1/shell/exec", {"id": name, "command": command}).json()["data"]
    done = run(f"PATH=/usr/bin:/bin; {name}")
    assert done["exit_code"] == 127 and f"npm install -g --prefix ~/.local {package}" in done["output"]
    done = run("no-such-program")
    assert done["exit_code"] == 127 and done["output"] == "bash: no-such-program: command not found"
    server.request("DELETE", f"/v1/shell/sessions/{name}")
