"""
Measures Tidegate against its peers in one run and writes the result page.

    python benchmarks/run.py             everything, about an hour; writes README.md, results.json and pictures beside this file
    python benchmarks/run.py --quick     a smoke test, a few minutes; writes nothing
    python benchmarks/run.py --render    draws the page again from results.json
    python benchmarks/run.py --only redis --update    measures one subject again, and keeps what results.json has of the others
"""

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import control_run
import integrations_run
import machine
import memory
import plot
import proxy_run
import python_speed
import redis_store
import report
import rules_speed
import rust_speed
import service_plot
import service_run
import tail
from bars import judge
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

HERE = Path(__file__).resolve().parent
SUBJECTS = {
    "python": python_speed.measure,
    "rust": rust_speed.measure,
    "rules": rules_speed.measure,
    "tail": tail.measure,
    "memory": memory.measure,
    "redis": redis_store.measure,
    "service": service_run.measure,
    "proxy": proxy_run.measure,
    "control": control_run.measure,
    "integrations": integrations_run.measure,
}
TITLES = {
    "python": "Calls from Python",
    "rust": "The store in Rust",
    "rules": "Rules",
    "tail": "Tail latency",
    "memory": "Bytes per key",
    "redis": "The shared store",
    "service": "The service",
    "proxy": "The proxy",
    "control": "The control plane",
    "integrations": "The integrations",
}


def main() -> None:
    """Runs the benchmarks; the exit code is 0 even when a bar is missed."""
    options = _options()
    console = Console() if sys.stdout.isatty() else Console(width=140)
    before = _read_json(HERE / "results.json") if options.render or options.update else {}
    results = before if options.render else _merged(before, _measure(options, console))
    _show(results, console)
    if options.json:
        _write_json(results, options.json)
    is_whole = not options.only or options.update
    folder = options.output or (HERE if is_whole and not options.quick else None)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        _write_json(results, folder / "results.json")
        plot.draw(results, folder / "results.svg")
        if service_plot.has_something(results):
            service_plot.draw(results, folder / "service.svg")
        (folder / "README.md").write_text(report.page(results), encoding="utf-8")
        console.print(f"wrote {folder / 'README.md'}, results.json and pictures")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smoke test: few rounds and keys")
    parser.add_argument("--only", action="append", choices=SUBJECTS, help="only this subject (repeatable); no page is written")
    parser.add_argument("--update", action="store_true", help="with --only: write the page, with the other subjects as they were")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results here, subject by subject")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="write page, plot and results into this folder")
    parser.add_argument("--render", action="store_true", help="measure nothing, draw results.json again")
    return parser.parse_args()


def _measure(options: argparse.Namespace, console: Console) -> dict[str, Any]:
    results: dict[str, Any] = {"quick": options.quick, "machine": machine.describe(), "machines": {}}
    _introduce(results["machine"], console)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        for name, measure in SUBJECTS.items():
            if options.only and name not in options.only:
                continue
            task = progress.add_task(TITLES[name], total=1.0, text="")
            results["machines"][name] = machine.describe()
            results[name] = measure(quick=options.quick, advance=partial(_advance, progress, task))
            progress.update(task, completed=1.0, text="")
            if options.json:
                # Whoever stops a run of an hour keeps what it has measured by then.
                _write_json(results, options.json)
    return results


def _merged(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Return what was measured now, and what was before of everything else; each subject with the machine that it was measured on."""
    machines = {name: before["machine"] for name in SUBJECTS if name in before} | before.get("machines", {})
    return before | now | {"machines": machines | now["machines"]}


def _advance(progress: Progress, task: TaskID, text: str, share: float) -> None:
    progress.update(task, completed=share, text=text)


def _introduce(facts: dict[str, Any], console: Console) -> None:
    console.print(f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB, {facts['system']}, load {facts['load']}")
    packages = [f"{name} {version}" for name, version in facts["packages"].items()]
    console.print(", ".join([facts["python"], facts["rustc"] or "no rustc", *packages]))
    if "tidegate" not in facts["packages"]:
        console.print("[yellow]tidegate is not installed in this environment: only its peers are measured (run `make setup`)[/]")


def _show(results: dict[str, Any], console: Console) -> None:
    for title, header, rows in report.tables(results):
        table = Table(*header, title=title, title_justify="left")
        for row in rows:
            table.add_row(*(cell.replace("**", "").replace("`", "") for cell in row))
        console.print(table)
    if results.get("python"):
        console.print(f"empty loop: {results['python']['loop_ns']:.1f} ns per turn, contained in every number")
    bars = judge(results)
    short = [f"\n  {bar.verdict}: {bar.what.replace('`', '')}" for bar in bars if not bar.is_met]
    console.print(f"{len(bars)} bars, {len(short)} of them not met" + "".join(short))


def _read_json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _write_json(results: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
