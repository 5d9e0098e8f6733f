"""kiln-html's page in a browser: clicks, keys and hostile names. By hand; needs Debian's chromium.

.venv/bin/python tests/tools/page_in_browser.py [--screenshot FILE] [--dark] [--graph FILE]
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kiln.testing import binary

GRAPH = r"""graph inference
op "evil</script><script>document.title = 'evil'</script>" "evil(Tensor self) -> Tensor"
%0 = input f32[32, 64]
%1 = input f32[64, 32]
%2 = mm(%0, %1) : f32[32, 32]
%3 = t(%2) : f32[32, 32]{1, 32}
%4 = exp(%3) : f32[32, 32]{1, 32}
%5 = sum_dim(%4, [1], true, none) : f32[32, 1]
%6 = div(%4, %5) : f32[32, 32]{1, 32}
%7 = mm(%6, %0) : f32[32, 64]
%8 = relu(%7) : f32[32, 64]
%9 = "evil</script><script>document.title = 'evil'</script>"(%8) : f32[32, 64]
%10 = mm(%2, %9) : f32[32, 64]
%11 = relu(%10) : f32[32, 64]
return %11
"""

# Runs in the page, after its own script.
DRIVER = """
const lines = (column, name) => [...document.querySelectorAll(`#${column} > .${name}`)].map((line) => line.textContent);
const rows = (column) => [...document.querySelectorAll(`#${column} > div`)];
const result = {};
const note = (name) => {
  result[name] = { status: document.getElementById("status").textContent, step: document.getElementById("step").value };
  for (const column of ["graph", "loop", "llvm", "asm"]) result[name][column] = lines(column, "mark");
};
const click = (column, part, last) => {
  const found = rows(column).filter((line) => line.textContent.includes(part));
  found.at(last ? -1 : 0).click();
};
const key = (column, name) =>
  document.getElementById(column).dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
result.rows = rows("graph").length;
result.steps = document.querySelectorAll("#step option").length;
result.member = lines("graph", "member");
click("graph", "= exp(", false);
note("request exp");
click("graph", "= div(", true);
note("div");
click("loop", "= exp ", false);
note("loop exp");
key("loop", "ArrowDown");
note("next line");
click("asm", "vdivps", false);
note("asm division");
click("graph", "= relu(%10)", true);
note("last relu");
key("graph", "ArrowUp");
note("up from it");
rows("graph").filter((line) => line.textContent.includes("= exp(")).at(-1)
  .dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
note("pointing");
document.getElementById("graph").dispatchEvent(new MouseEvent("mouseleave"));
note("pointing no more");
result.title = document.title;
result.evil = rows("graph").filter((line) => line.textContent.includes("<\\/script><script>")).length;
document.body.dataset.result = JSON.stringify(result);
"""


def chromium(*args: str) -> str:
    program = shutil.which("chromium")
    if program is None:
        sys.exit("chromium is not there: apt-get install chromium")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1700,900"]
    run = subprocess.run([program, *flags, *args], check=True, capture_output=True, text=True, timeout=120)
    return run.stdout


def make_page(graph: Path, page: Path) -> None:
    subprocess.run([binary("kiln-html"), str(graph), "-o", str(page)], check=True)


def drive(folder: Path) -> dict[str, Any]:
    (folder / "graph.kir").write_text(GRAPH)
    make_page(folder / "graph.kir", folder / "page.html")
    page = (folder / "page.html").read_text()
    driven = folder / "driven.html"
    driven.write_text(page.replace("</body>", f"<script>{DRIVER}</script></body>"))
    dom = chromium("--dump-dom", driven.as_uri())
    result = re.search(r'data-result="([^"]*)"', dom)
    assert result is not None, "the page's script, or the driver, has failed"
    return json.loads(html.unescape(result[1]))


def only(lines: list[str], part: str) -> bool:
    return bool(lines) and all(part in line for line in lines)


def check(seen: dict[str, Any]) -> None:
    assert seen["steps"] == 7, seen["steps"]
    assert seen["evil"] == 4, seen["evil"]  # its schema and its node, in both graphs: as text
    assert seen["title"].endswith("graph.kir"), seen["title"]
    assert len(seen["member"]) == 4 and only(seen["member"], "origin="), seen["member"]

    exp = seen["request exp"]
    assert len(exp["graph"]) == 2 and only(exp["graph"], "= exp("), exp
    assert any("= exp " in line for line in exp["loop"]), exp
    assert len(exp["llvm"]) >= 8 and len(exp["asm"]) >= 8, exp
    assert any("vmulps" in line or "vfmadd" in line for line in exp["asm"]), exp

    div = seen["div"]
    assert len(div["graph"]) == 2 and only(div["graph"], "= div("), div
    assert any("= div " in line for line in div["loop"]) and any("store" in line for line in div["loop"]), div
    assert any("fdiv" in line for line in div["llvm"]) and any("vdivps" in line for line in div["asm"]), div

    line = seen["loop exp"]
    assert only(line["loop"], "= exp ") and only(line["graph"], "= exp("), line
    assert seen["next line"]["loop"] != line["loop"] and len(seen["next line"]["loop"]) == 1, seen["next line"]
    asm = seen["asm division"]
    assert only(asm["loop"], "= div ") and only(asm["graph"], "= div("), asm

    relu = seen["last relu"]
    assert relu["step"] == "6" and len(relu["graph"]) == 2 and only(relu["graph"], "= relu(%10)"), relu
    up = seen["up from it"]
    assert only(up["graph"], "mm") and len(up["graph"]) == 2, up
    assert any("= exp(" in line for line in seen["pointing"]["graph"]), seen["pointing"]
    assert seen["pointing no more"]["graph"] == up["graph"], seen["pointing no more"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--screenshot", type=Path, help="a picture of the page, with a node picked")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--graph", type=Path, help="what the picture is of; any input of kiln-html")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        check(drive(folder))
        if args.screenshot:
            page = folder / "page.html"
            if args.graph:
                make_page(args.graph, page)
            pick = "[...document.querySelectorAll('#graph > .member')].at(1)?.click();"
            page.write_text(page.read_text().replace("</body>", f"<script>{pick}</script></body>"))
            dark = ["--blink-settings=preferredColorScheme=0"] if args.dark else []
            chromium(*dark, f"--screenshot={args.screenshot.resolve()}", page.as_uri())
    print("the page does as it should")


if __name__ == "__main__":
    main()
