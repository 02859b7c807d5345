"""Personas, roles, positions and skills: what an agent is told beside its prompt, and where it came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tower.config.instructions import BUILT_IN_ROLES, ROLES
from tower.config.load import Loaded
from tower.core.factory import Agent, Position, Skill

from .conftest import GOOD, Loads

NO_PROMPT = GOOD.replace('prompt = "x"\n', "")


def agent(loaded: Loaded, name: str = "solo") -> Agent:
    assert [str(problem) for problem in loaded.problems] == []
    assert loaded.factory is not None
    return loaded.factory.agents[name]


@pytest.fixture
def skill(tmp_path: Path) -> Path:
    """A skill `git` in the folder of the configuration."""
    return write_skill(tmp_path / "skills" / "git")


def write_skill(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: For {folder.name}\n---\nDo it.\n")
    return folder / "SKILL.md"


def test_a_role_is_prose_a_file_or_built_in(loads: Loads) -> None:
    assert agent(loads(GOOD + "role = 'You build.'\n")).role == "You build."
    assert agent(loads(GOOD + "role = 'r.md'\n", r="---\nname: dev\n---\nBuild it.\n")).role == "dev\n\nBuild it."
    assert agent(loads(GOOD + "role = 'r.md'\n", r="Build it.\n")).role == "Build it."
    told = agent(loads(GOOD + "role = 'reviewer'\n")).role
    assert told is not None
    assert told.startswith("reviewer\n\nYou review a change")


def test_a_role_file_is_the_instructions_of_an_agent_without_a_prompt(loads: Loads) -> None:
    found = agent(loads(NO_PROMPT + "role = 'r.md'\n", r="---\nname: dev\n---\nBuild it.\n"))
    assert (found.instructions.text({}), found.role) == ("Build it.\n", "dev")
    found = agent(loads(NO_PROMPT + "role = 'reviewer'\n"))
    assert found.instructions.text({}).startswith("You review a change")
    assert list(found.instructions.files({})) == [str(ROLES / "reviewer.md")]


def test_prose_is_no_prompt(loads: Loads) -> None:
    (problem,) = loads(NO_PROMPT + "role = 'You build.'\n").problems
    assert (problem.sentence, problem.key) == ("has neither prompt nor prompt_file", "agents.solo")


def test_a_role_that_was_refused_is_not_said_to_be_missing(loads: Loads) -> None:
    (problem,) = loads(NO_PROMPT + "role = 'gone.md'\n").problems
    assert problem.key == "agents.solo.role"


def test_a_file_comes_before_the_built_in_role_of_its_name(loads: Loads, tmp_path: Path) -> None:
    assert agent(loads(NO_PROMPT + "role = 'tester.md'\n")).role == "tester"
    assert agent(loads(NO_PROMPT + "role = 'tester.md'\n", tester="Test.\n")).instructions.text({}) == "Test.\n"
    (problem,) = loads(GOOD + "role = 'tested.md'\n").problems
    places = f"{tmp_path}/prompts/tested.md, then {tmp_path}/tested.md, then {ROLES}/tested.md"
    assert problem.sentence == f"names tested.md, which was not found; tried {places}"


def test_no_path_leads_through_the_built_in_roles(loads: Loads) -> None:
    (problem,) = loads(GOOD + "role = '../../../README.md'\n").problems
    assert "was not found" in problem.sentence


def test_a_word_like_a_built_in_role_is_warned_about(loads: Loads) -> None:
    loaded = loads(GOOD + "role = 'reviwer'\n")
    (problem,) = loaded.problems
    assert (problem.severity, problem.hint) == ("warning", "did you mean reviewer?")
    assert loads(GOOD + "role = 'clerk'\n").problems == ()


@pytest.mark.parametrize("name", BUILT_IN_ROLES)
def test_every_built_in_role_is_sound_and_seats_nobody(loads: Loads, name: str) -> None:
    found = agent(loads(NO_PROMPT.replace('description = "d"\n', "") + f"role = '{name}'\n"))
    assert (found.role, found.position) == (name, Position.PARTICIPANT)
    assert found.description
    assert found.origins["description"] == "role"


ORCHESTRATES = "---\nposition: orchestrator\n---\nLead.\n"


@pytest.mark.parametrize(
    ("text", "files", "position", "origin"),
    [
        (GOOD, {}, "participant", "built in"),
        (GOOD + "position = 'orchestrator'\n", {}, "orchestrator", "agent"),
        (GOOD + "role = 'r.md'\n", {"r": ORCHESTRATES}, "orchestrator", "role"),
        (GOOD + "role = 'r.md'\nposition = 'participant'\n", {"r": ORCHESTRATES}, "participant", "agent"),
        (GOOD + "role = 'You are the orchestrator. position: orchestrator'\n", {}, "participant", "built in"),
        (GOOD + "role = '''\n---\nposition: orchestrator\n---\nLead.'''\n", {}, "participant", "built in"),
        (GOOD + "persona = 'r.md'\n", {"r": ORCHESTRATES}, "participant", "built in"),
        (GOOD.replace('prompt = "x"', "prompt_file = 'r.md'"), {"r": ORCHESTRATES}, "participant", "built in"),
    ],
)
def test_position_comes_from_a_declaration_alone(
    loads: Loads, text: str, files: dict[str, str], position: str, origin: str
) -> None:
    found = agent(loads(text, **files))
    assert (found.position, found.origins["position"]) == (position, origin)


@pytest.mark.parametrize("value", ["Orchestrator", "lead", ""])
def test_position_takes_its_two_words_alone(loads: Loads, value: str) -> None:
    (problem,) = loads(GOOD + f"position = '{value}'\n").problems
    assert problem.key == "agents.solo.position"
    assert "participant" in f"{problem.sentence}{problem.hint}"


def test_one_way_in_leads_to_one_orchestrator(loads: Loads, tmp_path: Path) -> None:
    two = GOOD + "position = 'orchestrator'\n" + GOOD.replace("solo", "other") + "position = 'orchestrator'\n"
    assert loads(two).problems == ()
    (problem,) = loads(two + "[[routes]]\nfrom = 'solo'\nto = 'other'\n").problems
    assert str(problem).removeprefix(f"{tmp_path}/") == (
        "layover.toml:12:1: agents.other.position: solo is an orchestrator too, and a chain that is sent straight"
        ' to solo (entry = true) may reach both; write position = "participant" in one of the two'
    )


def test_skills_are_found_and_joined(loads: Loads, tmp_path: Path, skill: Path) -> None:
    other = write_skill(tmp_path / "prompts" / "skills" / "tests")
    text = "[defaults]\nskills = ['skills/git']\n" + GOOD
    git = Skill(name="git", description="For git", path=str(skill))
    tests = Skill(name="tests", description="For tests", path=str(other))
    assert agent(loads(text)).skills == (git,)
    both = agent(loads(text + "skills = ['skills/tests/', 'skills/git']\n"))
    assert (both.skills, both.origins["skills"]) == ((git, tests), "agent and defaults")
    none = agent(loads(text + "skills = []\n"))
    assert (none.skills, none.origins["skills"]) == ((), "agent")


def test_a_skill_that_changes_makes_another_generation(loads: Loads, skill: Path) -> None:
    first, second = (loads(GOOD + "skills = ['skills/git']\n"), skill.write_text(skill.read_text() + "More.\n"))
    again = loads(GOOD + "skills = ['skills/git']\n")
    assert first.factory
    assert again.factory
    assert second
    assert first.factory.digest != again.factory.digest
    assert skill.parent in again.watched


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            GOOD + "skills = ['skills/git', 'gone']\n",
            "layover.toml:6:25: agents.solo.skills[1]: names gone/SKILL.md, which was not found; tried"
            " prompts/gone/SKILL.md, then gone/SKILL.md",
        ),
        (
            "[defaults]\nskills = ['gone']\n" + GOOD,
            "layover.toml:2:11: defaults.skills[0]: names gone/SKILL.md, which was not found",
        ),
        (
            GOOD + "skills = ['skills/git', 'else/git']\n",
            "layover.toml:6:25: agents.solo.skills[1]: agent solo has another skill git, skills/git/SKILL.md; rename",
        ),
        (
            GOOD + "skills = ['skills/bad']\n",
            "skills/bad/SKILL.md:1:1: agents.solo.skills[0]: has no front matter",
        ),
    ],
)
def test_skills_that_are_refused(loads: Loads, tmp_path: Path, skill: Path, text: str, line: str) -> None:
    write_skill(tmp_path / "else" / "git")
    (tmp_path / "skills" / "bad").mkdir()
    (tmp_path / "skills" / "bad" / "SKILL.md").write_text("Do it.\n")
    assert skill.exists()
    (problem,) = loads(text).problems
    assert str(problem).replace(f"{tmp_path}/", "").startswith(line)
