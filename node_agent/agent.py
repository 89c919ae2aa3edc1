"""What the node has (its jobs) joined with what it remembers (its journal), and what follows.

Used from one event loop and never waits for the network: everything here also works while the
control plane is away. The journal is written before anything is done that must not be forgotten,
and a job's folder is removed only when its end, its slices and its output are all known
elsewhere.
"""

import logging
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from chassis.clock import SECOND
from node_agent.gpus import Gpu
from node_agent.jobs import Jobs
from node_agent.journal import Entry, Journal
from node_agent.metering import Slice
from node_agent.policy import (
    Abandon,
    Action,
    Assignment,
    Change,
    JobState,
    Refuse,
    Run,
    Skip,
    Start,
    next_desired,
    plan,
)

LOG_BYTES_MAX = 1024 * 1024

_log = logging.getLogger(__name__)


class Agent:
    def __init__(self, state_dir: Path, gpus: Iterable[Gpu], *, slice_seconds: int = 5) -> None:
        self.journal = Journal(state_dir / "journal")
        self._jobs_dir = state_dir / "jobs"
        self.jobs = Jobs(self._jobs_dir, lambda lease_id: self._entry(lease_id).meter.until_us)
        self._uuids = {gpu.index: gpu.uuid for gpu in gpus}
        self._slice_us = slice_seconds * SECOND
        # Leases that got no job here; told with the others until they are no longer assigned.
        self.refused: dict[str, Refuse | Skip] = {}

    def obey(self, assignments: Iterable[Assignment], settled: Iterable[str]) -> None:
        """Brings the node closer to what the control plane wants of it."""
        wanted = list(assignments)
        self._settle(settled)
        actions = plan(wanted, self.jobs.runs(), self.journal.fences, self._uuids)
        self._refuse([action for action in actions if isinstance(action, Refuse | Skip)])
        for action in actions:
            try:
                self._act(action)
            except OSError:
                # A full disk, most likely. The same action comes up again at the next answer.
                _log.exception("an order could not be carried out", extra={"order": action})
        self._forget({assignment.lease_id for assignment in wanted})

    def open_runs(self) -> list[Run]:
        """Runs whose end the control plane has not recorded yet."""
        return [
            run
            for run in self.jobs.runs()
            if not self._entry(run.lease_id).settled and (run.begun or run.state is JobState.EXITED)
        ]

    def pending_slices(self) -> list[tuple[Run, Slice]]:
        """Cuts what is due and returns every slice that waits for an answer."""
        runs = {run.lease_id: run for run in self.jobs.runs()}
        cut: dict[str, Entry] = {}
        for run in runs.values():
            entry = self._entry(run.lease_id)
            due = run.proven_us - entry.meter.until_us >= self._slice_us
            if due or run.state is JobState.EXITED:
                meter = entry.meter.cut(run.proven_us)
                if meter != entry.meter:
                    cut[run.lease_id] = replace(entry, meter=meter)
        # On disk before it can be sent: a slice that was sent must come back the same.
        self.journal.put(cut)
        waiting = ((run, self._entry(run.lease_id).meter.pending) for run in runs.values())
        return [(run, pending) for run, pending in waiting if pending]

    def slices_answered(self, answered: Iterable[tuple[Run, Slice]]) -> None:
        entries = {}
        for run, slice_ in answered:
            entry = self._entry(run.lease_id)
            entries[run.lease_id] = replace(entry, meter=entry.meter.answered(slice_.seq))
        self.journal.put(entries)

    def output(self) -> list[tuple[str, int, bytes]]:
        """For each lease that printed something new: where it begins, and what it is."""
        found = []
        for run in self.jobs.runs():
            offset = self._entry(run.lease_id).log_offset
            if data := self.jobs.output(run.lease_id, offset, LOG_BYTES_MAX):
                found.append((run.lease_id, offset, data))
        return found

    def continue_output(self, lease_id: str, offset: int) -> None:
        """The control plane has what is before ``offset``, or does not want it."""
        # Not worth a sync: what is sent again is dropped by its offset.
        self.journal.put({lease_id: replace(self._entry(lease_id), log_offset=offset)}, sync=False)

    def stop_all(self, cause: str, grace_us: int) -> None:
        for run in self.jobs.runs():
            if run.state is JobState.RUNNING:
                desired = next_desired(run, None)
                wish = replace(desired, stop_cause=cause, grace_us=grace_us)
                self.jobs.change(run.lease_id, wish)

    def _act(self, action: Action) -> None:
        if isinstance(action, Start):
            self._start(action.assignment)
        elif isinstance(action, Change):
            self.jobs.change(action.lease_id, action.desired)
        elif isinstance(action, Abandon):
            self.jobs.abandon(action.lease_id)

    def _refuse(self, actions: list[Refuse | Skip]) -> None:
        for action in actions:
            lease_id = action.assignment.lease_id
            if isinstance(action, Refuse) and lease_id not in self.refused:
                extra = {"lease_id": lease_id, "refusal": action.refusal}
                _log.warning("a lease was refused: %s", action.detail, extra=extra)
        self.refused = {action.assignment.lease_id: action for action in actions}

    def _start(self, assignment: Assignment) -> None:
        lease_id = assignment.lease_id
        if lease_id not in self.journal.leases:
            self.journal.accept(lease_id, assignment.fencing_token, assignment.slots)
        self.jobs.prepare(lease_id, self._spec(assignment), assignment.desired)
        self.jobs.start(lease_id, assignment.desired)
        extra = {"lease_id": lease_id, "correlation": assignment.correlation_id}
        _log.info("a lease was started", extra=extra)

    def _spec(self, assignment: Assignment) -> dict[str, Any]:
        program = assignment.program
        assert program is not None, "plan refuses what has no program"
        home = (self._jobs_dir / assignment.lease_id / "work").absolute()
        uuids = ",".join(self._uuids[slot] for slot in assignment.slots)
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(home),
            **program.environment,
            # The platform's own come last: a tenant cannot set them.
            "CUDA_VISIBLE_DEVICES": uuids,
            "NVIDIA_VISIBLE_DEVICES": uuids,
            "LEASEHOLD_LEASE_ID": assignment.lease_id,
            "LEASEHOLD_TENANT_ID": assignment.tenant_id,
            "LEASEHOLD_GPU_COUNT": str(len(assignment.slots)),
        }
        return {
            "lease_id": assignment.lease_id,
            "fencing_token": assignment.fencing_token,
            "slots": list(assignment.slots),
            "command": list(program.command),
            "environment": environment,
            "seconds_max": program.seconds_max,
        }

    def _settle(self, settled: Iterable[str]) -> None:
        known = ((lease_id, self.journal.leases.get(lease_id)) for lease_id in settled)
        self.journal.put(
            {
                id_: replace(entry, settled=True)
                for id_, entry in known
                if entry and not entry.settled
            }
        )

    def _forget(self, assigned: set[str]) -> None:
        """Drops what is known elsewhere, and what was accepted but never got a folder."""
        runs = {run.lease_id: run for run in self.jobs.runs()}
        for lease_id, entry in list(self.journal.leases.items()):
            run = runs.get(lease_id)
            if run is None:
                if lease_id not in assigned:
                    self.journal.forget(lease_id)
            elif run.state is JobState.EXITED and self._is_told(run, entry):
                self.jobs.forget(lease_id)
                self.journal.forget(lease_id)

    def _is_told(self, run: Run, entry: Entry) -> bool:
        more = self.jobs.output(run.lease_id, entry.log_offset, 1)
        return entry.settled and entry.meter.complete(run.run_us) and not more

    def _entry(self, lease_id: str) -> Entry:
        return self.journal.leases.get(lease_id) or Entry(fencing_token=0)
