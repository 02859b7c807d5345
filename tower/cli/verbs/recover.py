"""`tower recover`: give interrupted work another run."""

from __future__ import annotations

import click

from tower.cli import named, options, screen, words


@click.command("recover", short_help="Start interrupted work again.")
@options.socket
@click.argument("run", required=False)
@click.option("--all-halted", is_flag=True, help="All that a ground stop (the kill switch) ended, instead of one RUN.")
@click.option("--note", metavar="TEXT", help="Words for the new run, quoted in its handover note.")
@click.option("--force", is_flag=True, help="One more attempt although its recovery is used up or not allowed.")
def command(socket: str | None, run: str | None, all_halted: bool, note: str | None, force: bool) -> None:
    """Queue the flights (messages) of an interrupted RUN again, with a handover note about what it left."""
    if (run is None) is not all_halted or (all_halted and (note or force)):
        raise click.UsageError("Give either RUN, with --note or --force if you like, or --all-halted alone.")
    api = options.reach(socket)
    if run is None:
        count = api.post("/recover-halted")["recovered"]
        screen.say(
            f"{words.count(count, 'flight')} that a ground stop had ended {'is' if count == 1 else 'are'} queued"
        )
        return
    flight = api.post(f"/runs/{named.run(api, run)}/recover", {"note": note, "force": force})
    screen.out(flight["id"])
    screen.say(f"flight {flight['id']} to {flight['to']} is {flight['state']}, attempt {flight['attempt']}")
