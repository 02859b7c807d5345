"""Keys of the format that this build refuses, and where a key that a table does not know belongs.

A key without an effect is never accepted in silence: what stands here is refused as "not available yet", with what
holds in the meantime. A key leaves this table when its effect lands; the keys with an effect are those of `schema`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tower.core.fences import inline

_SHARED: Final = {
    "memory_max_mb": "the memory of a run is not limited",
    "pids_max": "the processes of a run are not limited",
    "reask": "answers are not read as proposals",
    "learnings": "there are no learnings",
}

NOT_YET: Final[Mapping[str, Mapping[str, str]]] = {
    "": {},
    "layover": {},
    "defaults": {
        **_SHARED,
    },
    "runners.*": {
        "cli": "write the program's command",
        "resume": "each run is a new process",
    },
    "runners.*.estimate": {},
    "runners.*.mcp": {},
    "agents.*": {
        **_SHARED,
        "mcp": "configure the program's own tool servers",
        "answer": "answers are kept and not read as proposals",
        "privileged": "runs cannot gain privileges",
    },
    "routes.*": {},
    "pipelines.*": {
        "overlap": "every pipeline is started by hand",
        "resumes": "every pipeline is started by hand",
    },
    "pipelines.*.flags.*": {},
    "pipelines.*.agents.*": {},
    "tiers": {},
    "reserve": {},
    "rates.*": {},
    "copilot": {},
}
"""Table -> key -> what holds until the key is available; `*` stands for a name or an index."""


HEADINGS: Final[Mapping[str, str]] = {
    "layover": "[layover]",
    "defaults": "[defaults]",
    "runners.*": "[runners.NAME]",
    "runners.*.mcp": "mcp of [runners.NAME]",
    "runners.*.estimate": "estimate of [runners.NAME]",
    "agents.*": "[agents.NAME]",
    "routes.*": "[[routes]]",
    "tiers": "[tiers]",
    "reserve": "[reserve]",
    "rates.*": "[rates.MODEL]",
    "copilot": "[copilot]",
    "pipelines.*": "[pipelines.NAME]",
    "pipelines.*.flags.*": "a flag of [pipelines.NAME]",
    "pipelines.*.agents.*": "[pipelines.NAME.agents.AGENT]",
}
"""Tables as a person writes them."""


def refuse_key(section: str, key: str, accepted: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Sentence and hint for a key that the table `section` does not accept; `accepted` has the keys of every table.

    What is not available yet is never suggested.
    """
    later = NOT_YET[section]
    if key in later:
        return "is not available yet", f"remove it; for now: {later[key]}"
    if elsewhere := [HEADINGS[table] for table, keys in accepted.items() if table and key in keys]:
        return "is not a known key here", f"it belongs into {' or '.join(elsewhere)}"
    if key in accepted[""]:
        return "is not a known key here", f"{key} stands at the top of the file, in no other table"
    known = accepted[section]
    return "is not a known key", nearest(
        key, known, f"{section.replace('.*', '') or 'the file'} knows {', '.join(sorted(known))}"
    )


def brief(runner: str) -> str:
    """A runner as it is named in a sentence: a `cmd:` of many lines would hide what is said of it."""
    return inline(runner, 40)


def nearest(name: str, names: Iterable[str], otherwise: str) -> str:
    """A hint for a name that is none of `names`: the nearest one, or `otherwise`."""
    near = difflib.get_close_matches(name, [it for it in names if it != name], n=1)
    return f"did you mean {near[0]}?" if near else otherwise
