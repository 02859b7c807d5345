"""`tower diff`: what a writer's run changed."""

from __future__ import annotations

import click

from tower.cli import named, options, screen


@click.command("diff", short_help="What a writer's run changed in its tree.")
@options.socket
@options.as_json
@click.argument("run")
@click.option("--stat", "form", flag_value="stat", help="How much changed in which files.")
@click.option("--names", "form", flag_value="names", help="Only the names, each with what happened to it.")
def command(socket: str | None, as_json: bool, run: str, form: str | None) -> None:
    """Print what RUN changed in its live tree, committed or not; of one that is alive, what it has changed so far.

    A flight (message) stands for its latest run. `tower diff RUN | git apply -R`, in the top folder of the repository,
    takes it back.
    """
    api = options.reach(socket)
    known = named.run(api, run)
    if as_json:
        told = api.read(f"/runs/{known}/diff?form=names").body.decode(errors="replace")
        files = [line.split("\t") for line in told.splitlines()]
        screen.document({"run": known, "files": [{"change": change, "names": names} for change, *names in files]})
        return
    screen.raw(api.read(f"/runs/{known}/diff?form={form or 'patch'}").body)
