"""The shape of the command line: options that every command takes, and help in sections.

``-o``, ``--profile`` and ``--gateway`` may stand before or after the command; the later wins.
"""

import click

from leasehold.cli.session import Session

SENTENCE_MAX = 200


class Command(click.Command):
    """A command; every one takes the options that stand anywhere."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.params += _everywhere()


class Commands(click.Group):
    """A group of commands, listed in sections in the order in which they were added."""

    command_class = Command

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.params += _everywhere()
        self._sections: dict[str, list[click.Command]] = {}

    def add(self, section: str, *commands: click.Command) -> None:
        for command in commands:
            self.add_command(command)
            self._sections.setdefault(section, []).append(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = self._sections or {"Commands": list(self.commands.values())}
        for title, commands in sections.items():
            # A sentence that is too long for a line goes on in the next, rather than being cut.
            rows = [(one.name or "", one.get_short_help_str(SENTENCE_MAX)) for one in commands]
            with formatter.section(title):
                formatter.write_dl(rows)


pass_session = click.make_pass_decorator(Session, ensure=True)


def key_option(command: click.Command) -> click.Command:
    """For commands that change something: the key under which it is done at most once."""
    option = click.Option(
        ["--key"],
        help="Idempotency key: repeating a call with its key does nothing twice.",
        metavar="KEY",
        expose_value=False,
        callback=_choose,
    )
    command.params.insert(len(command.params) - len(_everywhere()), option)
    return command


def _everywhere() -> list[click.Parameter]:
    return [
        click.Option(
            ["-o", "--output"],
            type=click.Choice(["table", "json"]),
            help="How to write the answer.  [default: table]",
            expose_value=False,
            callback=_choose,
        ),
        click.Option(
            ["--profile"],
            metavar="NAME",
            help="Who asks, if not the profile in use.",
            expose_value=False,
            callback=_choose,
        ),
        click.Option(
            ["--gateway"],
            metavar="URL",
            help="Another gateway than the profile's.",
            expose_value=False,
            callback=_choose,
        ),
    ]


def _choose(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None and parameter.name:
        setattr(ctx.ensure_object(Session), parameter.name, value)
