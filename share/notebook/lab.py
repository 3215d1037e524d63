"""JupyterLab as the server starts it: the page, its files and its settings.

    python lab.py SOCKET DIRECTORY

It listens on the Unix socket, whose directory nobody else may enter, and shows the files of DIRECTORY. It
has no kernels: the server answers below /jupyter/api/kernels, sessions and kernelspecs itself. Nor has it
a password: who may call is the server's to say, which also refuses what pages of other origins send.
"""

import os
import sys

del sys.path[0]  # of this file
from jupyterlab.labapp import LabApp  # noqa: E402
from jupyterlab_server.handlers import LabHandler  # noqa: E402

BASE = "/jupyter/"
# They would ask people for permission to fetch news, look for newer versions, and call what is not here: the server
# has a terminal of its own, and there are no language servers.
DISABLED = ("@jupyterlab/apputils-extension:announcements", "@jupyterlab/terminal-extension",
            "@jupyterlab/lsp-extension", "@jupyterlab/fileeditor-extension:language-server",
            "@jupyterlab/notebook-extension:language-server")
# Our addresses get what a reverse proxy has put before them: only the browser knows that.
PREFIX = """<script>
(() => {
  const config = document.getElementById("jupyter-config-data"), data = JSON.parse(config.textContent);
  const before = new URL("%(root)s", location.href).pathname;
  for (const [name, value] of Object.entries(data))
    if ((name === "baseUrl" || /^full.*Url$/.test(name)) && value.startsWith("/"))
      data[name] = before + value.slice(1);
  config.textContent = JSON.stringify(data);
})();
</script>"""


def show_anywhere():
    """The page works below any prefix: what it names in its HTML is relative, the rest it works out itself."""
    plain = LabHandler.render_template

    def render(self, name, **values):
        if name != "index.html":
            return plain(self, name, **values)
        config = dict(values["page_config"])
        config["buildCheck"] = config["buildAvailable"] = False
        config["disabledExtensions"] = [*config.get("disabledExtensions", ()), *DISABLED]
        html = plain(self, name, **{**values, "page_config": config})
        root = "../" * (self.request.path.count("/") - 1) or "./"
        head, mark, rest = html.partition("</script>")
        for attribute in ("src", "href"):
            rest = rest.replace(f'{attribute}="{BASE}', f'{attribute}="{root}{BASE[1:]}')
        return head + mark + PREFIX % {"root": root} + rest

    LabHandler.render_template = render


def main():
    place, directory = sys.argv[1:]
    show_anywhere()
    extensions = {"jupyter_lsp": False, "jupyter_server_terminals": False, "notebook_shim": False}
    options = {
        "ServerApp.sock": place,
        "ServerApp.sock_mode": "0600",
        "ServerApp.base_url": BASE,
        "ServerApp.root_dir": directory,
        "ServerApp.preferred_dir": directory,
        "ServerApp.open_browser": False,
        "ServerApp.allow_remote_access": True,
        "ServerApp.disable_check_xsrf": True,
        "ServerApp.terminals_enabled": False,
        "ServerApp.quit_button": False,
        "ServerApp.allow_root": True,
        "ServerApp.autoreload": False,
        "ServerApp.jpserver_extensions": repr(extensions),
        "IdentityProvider.token": "",
        "PasswordIdentityProvider.hashed_password": "",
        "LabApp.extension_manager": "readonly",
        "LabApp.news_url": "None",
        "FileContentsManager.delete_to_trash": False,
        "Application.log_level": "WARN",
    }
    LabApp.launch_instance([f"--{name}={value}" for name, value in options.items()])


if __name__ == "__main__":
    os.umask(0o022)
    main()
