"""The command line of Leasehold.

Exit codes: 0 done; 1 refused, or a check found something; 2 the command line or a document is
wrong; 3 not logged in; 4 there is no such thing; 5 something does not answer; 70 a mistake
in this program; 130 interrupted.
"""

import json
import logging
import os
import sys
from collections.abc import Sequence

import click

from leasehold.called import PROGRAM
from leasehold.cli import (
    accounts,
    budgets,
    checks,
    commitments,
    costs,
    explain,
    exports,
    fleet,
    invoices,
    ledger,
    output,
    parked,
    price_book,
    prices,
    proofs,
    providers,
    tenants,
    trail,
    workloads,
)
from leasehold.cli.failures import Exit, Failure
from leasehold.cli.grammar import Command, Commands
from leasehold.cli.session import Session, draw
from leasehold.cli.shown import plain


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=(
        "Exit codes: 0 done, 1 refused or a check found something, 2 wrong command line or "
        "document, 3 not logged in, 4 no such thing, 5 something does not answer, 130 interrupted."
    ),
)
def app() -> None:
    """Lease GPUs by intent: submit, watch, explain, and check every second and cent.

    Where a workload is asked for, its id, the unique beginning of one, or its name will do.
    """


@click.command(cls=Command)
def up() -> None:
    """Start the whole platform on this machine; Ctrl-C stops it."""
    from leasehold.launcher import up as launcher

    click.get_current_context().exit(launcher.run())


app.add("Platform", up, checks.verify, checks.replay, parked.parked)
app.add(
    "Who you are",
    accounts.signup,
    accounts.login,
    accounts.whoami,
    accounts.profiles,
    accounts.use,
    tenants.credential,
    tenants.project,
)
app.add(
    "Work",
    workloads.apply,
    workloads.ps,
    explain.explain,
    output.logs,
    workloads.stop,
    workloads.leases,
    trail.trail,
)
app.add("Money", costs.cost, prices.prices, prices.price, invoices.invoice, costs.topup)
app.add("Money", price_book.price_book, commitments.commitment)
app.add("Money", exports.export)
app.add("Money", budgets.budget, ledger.ledger)
app.add("Money", proofs.proof)
app.add(
    "Money",
    providers.provider_costs,
    providers.provider_bill,
    providers.match,
    providers.margin,
)
app.add(
    "Operating",
    fleet.nodes,
    fleet.guards,
    fleet.sources,
    fleet.instances,
    fleet.audit,
    tenants.envelope,
    tenants.tenant,
)


def main() -> None:
    """The console script."""
    # What libraries warn of is told by the command, in one sentence, or not at all.
    logging.getLogger().addHandler(logging.NullHandler())
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets a question mark, not a failure.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command; answers its exit code."""
    session = Session()
    try:
        code = _run(list(arguments), session)
        sys.stdout.flush()
        return code
    except (BrokenPipeError, SystemExit):
        # The reader of the pipe went away, which click answers with an exit of its own; there is
        # nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    finally:
        session.close()


def _run(arguments: list[str], session: Session) -> int:
    try:
        code = app.main(arguments, prog_name=PROGRAM, standalone_mode=False, obj=session)
    except click.exceptions.NoArgsIsHelpError as help_:
        print(help_.format_message())
        return Exit.USAGE
    except (click.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:
        failure = _failure(error)
        _tell(session, failure)
        return failure.exit_code
    return int(code or Exit.OK)


def _failure(error: Exception) -> Failure:
    if isinstance(error, Failure):
        return error
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else PROGRAM
        message = error.format_message().rstrip(".")
        return Failure(message, Exit.USAGE, code="USAGE", hint=f"{command} --help")
    if isinstance(error, OSError) and error.filename:
        return Failure(f"{error.filename}: {error.strerror}", Exit.USAGE, code="FILE")
    if os.environ.get("LEASEHOLD_TRACEBACK"):
        raise error
    return Failure(
        f"a mistake in this program: {type(error).__name__}: {error}",
        Exit.BUG,
        code="BUG",
        hint="set LEASEHOLD_TRACEBACK=1 and run it again to see where",
    )


def _tell(session: Session, failure: Failure) -> None:
    if session.as_json:
        print(json.dumps(failure.document(), ensure_ascii=False), file=sys.stderr)
        return
    field = failure.details.get("field", "")
    where = f"{field}: " if field and field not in failure.message else ""
    draw(sys.stderr, plain(f"leasehold: {where}{failure.message} ({failure.code})"))
    if failure.hint:
        draw(sys.stderr, plain(f"  next: {failure.hint}"))
