"""`upyclaw bench`: the printed numbers."""

from __future__ import annotations

import json

import click
from rich.console import Console

from upyclaw_host.bench import BENCHES, load

_LIST = "\n".join(f"  {name:9} {words}" for name, (_, words) in BENCHES.items())


@click.command("bench", help=f"Measure and print.\n\n\b\n{_LIST}")
@click.argument("name", type=click.Choice(sorted(BENCHES)))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(name: str, as_json: bool) -> None:
    bench = load(name)
    errors = Console(stderr=True)
    with errors.status(f"bench {name} ...") as status:
        result = bench.run(lambda text: status.update(f"bench {name}: {text} ..."))
    if as_json:
        click.echo(json.dumps(result, ensure_ascii=False))
    else:
        click.echo(bench.render(result))
