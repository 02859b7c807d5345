"""`[layover]`, and how the tower's environment overrides it.

`TOWER_LAYOVER__NAME` beats the file, through pydantic-settings; the environment is a mapping that the caller passes.
No other table can be overridden. What the values mean is left to `layout`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, get_args, get_origin

import tomli
from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from tower.config.values import (
    TABLE,
    Hosts,
    HttpAddress,
    Includes,
    Names,
    Paths,
    PathText,
    Umask,
    Words,
    between,
    seconds,
)

PREFIX: Final = "TOWER_LAYOVER__"


class LayoverTable(BaseModel):
    """`[layover]`, as the file has it."""

    model_config = TABLE

    state_dir: PathText | None = None
    work_dir: PathText = "workspace"
    allowed_dirs: Paths = ()
    prompt_dir: PathText = "prompts"
    http_addr: HttpAddress = "127.0.0.1:0"
    public_hosts: Hosts = ()
    logbook: PathText | None = None
    socket: PathText | None = None
    socket_group: Words = None
    on_stop: Literal["stop", "leave"] = "stop"
    grace_sec: Annotated[float, BeforeValidator(seconds), between(0, 3600)] = 20.0
    max_body_bytes: Annotated[int, between(1024, 64 << 20)] = 1 << 20
    max_log_mb: Annotated[int, between(1, 1 << 20)] = 256
    min_free_mb: Annotated[int, between(0, 1 << 30)] = 512
    snapshots_dir: PathText | None = None
    umask: Umask = None
    retention_days: Annotated[int, between(0, 36_500)] = 90
    keep_worktrees_hours: Annotated[float, between(0, 87_600)] = 24.0
    snapshots_max: Annotated[int, between(0, 10_000)] = 16
    notify: Names = ()
    include: Includes = ()


class OverriddenTable(LayoverTable, BaseSettings):
    """`[layover]` made from `table=` (the file's) and `environ=`; a variable beats the file's key."""

    model_config = SettingsConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The mapping that was passed, then the file's table; the process's own environment is not read here."""
        given = init_settings()
        return (
            EnvironmentSource(settings_cls, given["environ"]),
            InitSettingsSource(settings_cls, init_kwargs=given["table"]),
        )


class EnvironmentSource(PydanticBaseSettingsSource):
    """Variables with `PREFIX`: text as it is, everything else as TOML (`20`, `["/srv"]`)."""

    def __init__(self, settings_cls: type[BaseSettings], environ: Mapping[str, str]) -> None:
        super().__init__(settings_cls)
        self._environ = environ

    def get_field_value(self, field: FieldInfo | None, field_name: str) -> tuple[Any, str, bool]:
        """The value of one key, with the variable's name; the flag is unused (values are decoded here)."""
        variable = PREFIX + field_name.upper()
        text = self._environ[variable]
        is_text = field is None or _takes_text(field.annotation)
        return (text if is_text else _toml_value(text)), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Every overridden key, those that `[layover]` does not have included: they are to be refused."""
        fields = self.settings_cls.model_fields
        return {key: self.get_field_value(fields.get(key), key)[0] for key in overridden(self._environ)}


def overridden(environ: Mapping[str, str]) -> dict[str, str]:
    """Keys of `[layover]` that the environment overrides -> the variable that does."""
    return {
        name.removeprefix(PREFIX).lower(): name
        for name in sorted(environ)
        if name.startswith(PREFIX) and name.isupper() and len(name) > len(PREFIX)
    }


def _takes_text(annotation: Any) -> bool:
    """Whether a key's type is text, or text or nothing."""
    if get_origin(annotation) is tuple:
        return False
    return annotation is str or any(_takes_text(part) for part in get_args(annotation))


def _toml_value(text: str) -> Any:
    """The value that `text` would be in the file; text that is no TOML stays text."""
    try:
        read = tomli.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return read["value"] if read.keys() == {"value"} else text
