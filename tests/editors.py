"""VS Code at /code-server/, as a person uses it in a browser: for the tests of the server and of the host."""

import contextlib
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import TimeoutError

from chromium import Watch
from harness import ROOT, START_SECONDS, eventually

INSTALLED = ROOT / "node_modules/code-server/out/server-main.js"
NEEDED = pytest.mark.skipif(not INSTALLED.exists(), reason="NOT TESTED: VS Code is not installed: make deps")


class Editor:
    """The page, once it shows the files of the workspace."""

    def __init__(self, context, url):
        self.page = context.new_page()
        self.watch = Watch(self.page)
        self.page.goto(url)
        self.await_files()

    def await_files(self):
        self.page.wait_for_selector(".explorer-folders-view .monaco-list", timeout=START_SECONDS * 1000)

    def file(self, name):
        """Its entry among the files."""
        found = self.page.locator(f".explorer-folders-view [role=treeitem][aria-label^='{name}']")
        found.wait_for(timeout=START_SECONDS * 1000)
        return found

    def write(self, name, text):
        """Opens a file, types at its end, and saves."""
        self.file(name).dblclick()
        self.page.wait_for_selector(f".editor-instance [data-uri$='/{name}'] .view-lines", timeout=START_SECONDS * 1000)
        self.page.locator(f".editor-instance [data-uri$='/{name}'] .view-lines").click()
        self.page.wait_for_selector(f".monaco-editor.focused[data-uri$='/{name}']", timeout=START_SECONDS * 1000)
        self.page.keyboard.press("Control+End")
        self.page.keyboard.type(text)
        self.page.keyboard.press("Control+s")

    def type_in_terminal(self, line):
        """The keys open it, lead into it, or close it, whichever is next; a page that has just come may not hear them."""
        def is_focused():
            self.page.keyboard.press("Control+Backquote")
            with contextlib.suppress(TimeoutError):
                return self.page.wait_for_selector(".terminal-wrapper .xterm-helper-textarea:focus", timeout=4000)

        assert eventually(is_focused, START_SECONDS)
        self.page.keyboard.type(line + "\n")

    def notices(self):
        return self.page.locator(".notification-toast").all_inner_texts()

    def foreign(self, url):
        """Requests to other servers; not those of an extension's page for its files, which a service worker answers."""
        return [asked for asked in self.watch.foreign(url) if ".vscode-resource.vscode-cdn.net/" not in asked or
                f"failed: {asked}" in self.watch.trouble]

    def webview(self):
        """What an extension shows: a frame in a frame."""
        return self.page.frame_locator("iframe.webview").frame_locator("#active-frame")


def processes(server):
    """The ids of VS Code's servers that it has started."""
    def is_editor(pid):
        try:
            return b"server-main.js" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except FileNotFoundError:
            return False

    return [pid for pid in server.children() if is_editor(pid)]


# Shows a webview by itself, which runs a script, loads a file of the extension, and tells the extension so; that
# writes what it was told into the workspace.
MANIFEST = """{
    "name": "shows", "publisher": "tests", "version": "1.0.0", "engines": {"vscode": "^1.80.0"},
    "main": "./main.js", "activationEvents": ["onStartupFinished"]
}"""
MAIN = """
const vscode = require('vscode'), fs = require('fs'), path = require('path');
exports.activate = context => {
    const panel = vscode.window.createWebviewPanel('shows', 'Shows', vscode.ViewColumn.One, {enableScripts: true});
    const style = panel.webview.asWebviewUri(vscode.Uri.joinPath(context.extensionUri, 'style.css'));
    panel.webview.onDidReceiveMessage(told => fs.writeFileSync(
        path.join(vscode.workspace.workspaceFolders[0].uri.fsPath, 'told.txt'), told));
    panel.webview.html = `<!doctype html><link rel="stylesheet" href="${style}"><p id="shown">from the extension</p>
        <script>addEventListener('load', () => acquireVsCodeApi().postMessage(
            getComputedStyle(document.getElementById('shown')).color))</script>`;
};
"""
STYLE = "#shown { color: rgb(1, 2, 3) }"


def write_extension(path):
    """A .vsix, which is a zip file."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("extension/package.json", MANIFEST)
        archive.writestr("extension/main.js", MAIN)
        archive.writestr("extension/style.css", STYLE)
        archive.writestr("extension.vsixmanifest", """<?xml version="1.0" encoding="utf-8"?>
            <PackageManifest Version="2.0.0" xmlns="http://schemas.microsoft.com/developer/vsx-schema/2011"><Metadata>
            <Identity Language="en-US" Id="shows" Version="1.0.0" Publisher="tests"/><DisplayName>Shows</DisplayName>
            </Metadata><Installation><InstallationTarget Id="Microsoft.VisualStudio.Code"/></Installation>
            <Assets><Asset Type="Microsoft.VisualStudio.Code.Manifest" Path="extension/package.json"/></Assets>
            </PackageManifest>""")
