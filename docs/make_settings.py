"""
Writes docs/reference/settings.md from the table of settings; `--check` only says whether it is up to date.
"""  # noqa: INP001  # a script in a folder, not a package

from __future__ import annotations

import sys
from pathlib import Path

from tidegate.proxy.table import OWN_GROUPS
from tidegate.service.describe import markdown

PAGE = Path(__file__).parent / "reference" / "settings.md"

HEAD = """\
# Settings

Everything that [the service](../guides/running-the-service.md) can be told.
This page is made by `docs/make_settings.py` from the table in `python/tidegate/service/table.py`.
Flags, variables, the help and the JSON Schema come from the same table.

Every setting can be given in three ways, and flags win over variables, variables over the file:

| where | how `http.tls.cert` is written |
| --- | --- |
| a file, `tidegate serve --config tidegate.yaml` or `TIDEGATE_CONFIG` | `http: {tls: {cert: tls.crt}}` |
| a variable | `TIDEGATE_HTTP_TLS_CERT=tls.crt` |
| a flag | `--http-tls-cert tls.crt` |

```console
$ tidegate serve --config tidegate.yaml --check    # says everything that is wrong with settings and rules
$ tidegate serve --config tidegate.yaml --show     # what is in force, and who said so; secrets are not shown
$ tidegate serve --schema > settings.schema.json   # for editors
```

- **Durations** are written `500ms`, `10s`, `2m`, or as a number of seconds; **sizes** `16384`, `16KiB`, `1MiB`.
- **Flags that are true or false** are `--watch` and `--no-watch`; in files and variables they are `true` and `false`.
- **Lists** are lists in a file, and divided by commas elsewhere.
- **Paths** in a file begin at the folder of the file, others at the working directory.
- **Secrets** belong into files (`http.token_file`, `secret_file`) or variables: everybody on a machine can see the flags of its processes.
- An empty variable is none. A variable that is almost a setting, such as `TIDEGATE_HTTP_TOKN`, is warned of.
- A key that does not exist is an error, with the one that was probably meant.
"""

PROXY = """\

# Settings of the proxy

[`tidegate proxy`](../guides/proxy.md) has all settings above and these; `grpc.listen` and `admin.listen` are off unless it is told to.
What stands under `upstream` holds for every group of servers, and each group can say it again under the same name.

Some of the settings above are about the ports of the service, and mean less or nothing on the port of the proxy:

| setting | on the port of the proxy |
| --- | --- |
| `limits.body_bytes`, `limits.batch` | bodies are passed on as they come, however long they are |
| `limits.read_timeout` | for the head and the handshake of TLS; pieces of a body may take `upstream.idle_timeout` |
| `deny_status` | a denial is always 429 |
| `trusted_gateways` | whose `X-Forwarded-*` servers get, `proxy.trusted_proxies` says; by whose clients are counted, the rules |
| `http.token`, `rls.*`, `grpc.*` | clients show no token, and nobody asks by Envoy's protocol there |
"""


def page() -> str:
    """
    The page as it should be.

    Returns:
        Markdown.
    """
    return f"{HEAD}\n{markdown()}\n{PROXY}\n{markdown(OWN_GROUPS)}"


def main() -> int:
    """
    Writes or compares.

    Returns:
        The exit code.
    """
    if "--check" in sys.argv:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page() else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
