"""`tower graph`: the routes as a drawing."""

from __future__ import annotations

import click

from tower.cli import agents, factories, options, screen


@click.command("graph", short_help="Draw who may send to whom, as Mermaid or SVG.")
@options.config
@click.option(
    "-p", "--pipeline", metavar="NAME", help="Show what the chains of this pipeline can come to, and no more."
)
@click.option("--svg", "as_svg", is_flag=True, help="Print a picture (SVG); it needs nothing else to be looked at.")
@options.as_json
def command(config: str, pipeline: str | None, as_svg: bool, as_json: bool) -> None:
    """Draw the factory that a configuration file describes: its agents, the ways in, and the routes between them.
    Prints a Mermaid diagram, which code hosts and wikis show as a drawing. No tower is needed.
    """
    if as_svg and as_json:
        raise click.UsageError("give --svg or --json, not both")
    factory = factories.good(options.config_path(config))
    if pipeline is not None and pipeline not in factory.pipelines:
        raise agents.unknown(pipeline, factory.pipelines, "pipeline")
    # Here, since `tower --help` imports every verb.
    from tower.core.drawing.mermaid import flowchart
    from tower.core.drawing.svg import picture
    from tower.core.factory_map import document, factory_map

    shown = factory_map(factory, pipeline)
    if as_json:
        screen.document(document(shown))
    else:
        screen.whole((picture(shown) if as_svg else flowchart(shown)).encode())
