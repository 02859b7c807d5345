"""`tower validate`: what is wrong with a configuration file."""

from __future__ import annotations

import click

from tower.cli import exits, factories, findings, options, safe, screen, words


@click.command("validate", short_help="Check a configuration file; starts nothing.")
@options.config
@options.as_json
@click.option("--strict", is_flag=True, help="Exit with 1 when there are warnings.")
def command(config: str, as_json: bool, strict: bool) -> int:
    """List everything that is wrong with a configuration file and the prompt files that it names, with the place of
    each and what to write instead. Exit code 0 when it is good, 78 when it is not.
    """
    path = options.config_path(config)
    loaded = factories.read(path)
    errors = sum(finding["severity"] == "error" for finding in loaded)
    warnings = len(loaded) - errors
    if as_json:
        screen.document({"path": str(path), "ok": not errors, "problems": loaded})
    else:
        for finding in loaded:
            screen.out(safe.line(findings.full(finding)))
        screen.say(f"{path}: {words.count(errors, 'error')}, {words.count(warnings, 'warning')}")
    if errors:
        return exits.CONFIGURATION
    return exits.FAILED if strict and warnings else exits.DONE
