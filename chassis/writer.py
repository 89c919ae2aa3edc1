"""The only thread that changes a shard.

It drains the waiting commands, applies each to the application, sets aside those that fail, and
commits everything that follows from the others with one statement; then it answers every caller.
A lone command is committed at once: a group is whatever was waiting, never something waited for.
While one group is being committed the next is prepared on top of it; commits keep their order,
nobody is answered before theirs, and if one fails so does everything after it.

A command's key, payload hash and answer commit with its events and are kept. The same key and
payload get the first answer again; the same key with another payload is a conflict.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, TypeVar

import psycopg
from psycopg_pool import PoolTimeout

from chassis.application import Application
from chassis.clock import Clock
from chassis.errors import Conflict, CursorMoved, Overloaded, ServiceError, Unavailable
from chassis.events import Cause
from chassis.store import Cursor, Fenced, Group, Head, Parked, Store, is_outage

log = logging.getLogger(__name__)

NO_CAUSE = Cause()
GROUP_MAX = 512
WAITING_MAX = 50_000
AWAY_SECONDS = 0.2

T = TypeVar("T")


@dataclass(slots=True)
class Command:
    run: Callable[[int], Any]
    key: str
    payload_hash: bytes
    cause: Cause
    cursor: Cursor | None
    park: Parked | None
    unpark: tuple[str, int] | None
    future: Future[Any] = field(default_factory=Future)


def _done() -> Future[None]:
    future: Future[None] = Future()
    future.set_result(None)
    return future


@dataclass(slots=True)
class Batch:
    """Commands that commit together, and what becomes of each."""

    before: Head
    after: Head
    group: Group = field(default_factory=Group)
    answered: list[tuple[Command, Any]] = field(default_factory=list)
    failed: list[tuple[Command, Exception]] = field(default_factory=list)
    done: Future[None] = field(default_factory=_done)


class Writer:
    def __init__(
        self,
        application: Application,
        store: Store,
        head: Head,
        *,
        on_commit: Callable[[int, int], None] = lambda commands, events: None,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._application = application
        self._store = store
        self._head = Head(head.epoch, application.head.position, application.head.hash)
        self._clock = Clock(application.last_at)
        self._waiting: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._questions: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = (
            queue.SimpleQueue()
        )
        self._on_commit = on_commit
        self._on_lost = on_lost
        self._stopped = False
        self._in_flight: Batch | None = None
        self._cursors: dict[str, int] = {}
        self._committer = ThreadPoolExecutor(1, thread_name_prefix="committer")
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish what waits, then end."""
        self._stopped = True
        self._waiting.put(None)
        self._thread.join(timeout=10)

    def command(
        self,
        run: Callable[[int], Any],
        *,
        key: str = "",
        payload: bytes = b"",
        cause: Cause = NO_CAUSE,
        cursor: Cursor | None = None,
        park: Parked | None = None,
        unpark: tuple[str, int] | None = None,
    ) -> Future[Any]:
        """Run on the writer's thread with the time it is recorded at; done when committed.

        With a key, ``run`` answers bytes, and those bytes are the answer to every repetition.
        """
        if self._stopped:
            raise Unavailable("this process no longer writes", code="NOT_LEADER")
        if self._waiting.qsize() >= WAITING_MAX:
            raise Overloaded(f"{WAITING_MAX} commands are waiting; try again later")
        digest = sha256(payload).digest() if key else b""
        command = Command(run, key, digest, cause, cursor, park, unpark)
        self._waiting.put(command)
        return command.future

    def query(self, ask: Callable[[], Any]) -> Future[Any]:
        """Run on the writer's thread between groups, so that it sees committed state only."""
        if self._stopped:
            raise Unavailable("this process no longer writes", code="NOT_LEADER")
        future: Future[Any] = Future()
        self._questions.put((ask, future))
        self._waiting.put(None)
        return future

    def _run(self) -> None:
        try:
            while not (self._stopped and self._waiting.empty()):
                group = self._next_group()
                if not self._questions.empty():
                    self._settle()
                    self._answer_questions()
                if group:
                    self._process(group)
                elif self._in_flight is not None and self._in_flight.done.done():
                    self._settle()
            self._settle()
        except Fenced as fenced:
            log.error("lost the shard: %s", fenced)
            self._on_lost()
        except Exception:
            log.exception("the writer failed")
            self._on_lost()
        self._stopped = True
        self._committer.shutdown()
        self._refuse_the_rest()

    def _next_group(self) -> list[Command]:
        waiting, group = self._waiting, []
        if command := waiting.get():
            group.append(command)
        while len(group) < GROUP_MAX and not waiting.empty():
            if command := waiting.get_nowait():
                group.append(command)
        return group

    def _answer_questions(self) -> None:
        while not self._questions.empty():
            ask, future = self._questions.get_nowait()
            try:
                future.set_result(ask())
            except Exception as error:
                future.set_exception(error)
            finally:
                self._application.discard()

    def _process(self, commands: list[Command]) -> None:
        known = self._known_answers(commands)
        batch = Batch(before=self._head, after=self._head)
        for command in commands:
            try:
                batch.answered.append((command, self._apply(command, known, batch)))
            except Exception as error:
                self._application.discard()
                if not isinstance(error, ServiceError):
                    log.exception("a command failed unexpectedly")
                batch.failed.append((command, error))
        self._head = batch.after
        self._settle()
        self._in_flight = batch
        if self._waiting.empty():
            self._finish(batch)
            self._settle()
        else:
            batch.done = self._committer.submit(self._finish, batch)

    def _apply(self, command: Command, known: dict[str, tuple[bytes, bytes]], batch: Batch) -> Any:
        if command.key and (first := known.get(command.key)):
            if first[0] != command.payload_hash:
                raise Conflict("this idempotency key was used with another payload")
            return first[1]
        if command.cursor:
            self._refuse_out_of_turn(command.cursor)
        answer = command.run(self._clock.stamp())
        rows, batch.after = self._application.record(command.cause, batch.after)
        group = batch.group
        group.events += rows
        if command.key:
            known[command.key] = (command.payload_hash, answer)
            group.answers.append((command.key, command.payload_hash, answer))
        if command.cursor:
            group.cursors[command.cursor.source] = command.cursor
            self._cursors[command.cursor.source] = command.cursor.position
        if command.park:
            group.parked.append(command.park)
        if command.unpark:
            group.unparked.append(command.unpark)
        return answer

    def _refuse_out_of_turn(self, cursor: Cursor) -> None:
        """Events are sent ahead; one that failed must not be overtaken by the next."""
        at = self._cursors.get(cursor.source)
        if at is None:
            stored = self._store.cursor(cursor.source)
            at = self._cursors[cursor.source] = stored.position if stored else 0
        if at != cursor.after:
            raise CursorMoved(f"the cursor of {cursor.source} is at {at}, not {cursor.after}")

    def _finish(self, batch: Batch) -> None:
        """Commit, then answer. Runs beside the preparation of the next group."""
        try:
            if batch.group:
                self._commit(batch.before, batch.group, batch.after)
        except Exception:
            self._stopped = True
            unknown = Unavailable("the outcome is unknown; repeat with the same idempotency key")
            for command, _ in (*batch.answered, *batch.failed):
                command.future.set_exception(unknown)
            self._waiting.put(None)
            raise
        self._on_commit(len(batch.answered), len(batch.group.events))
        for command, answer in batch.answered:
            command.future.set_result(answer)
        for command, error in batch.failed:
            command.future.set_exception(error)

    def _settle(self) -> None:
        """Wait for the group in flight; raises if it was not committed."""
        if self._in_flight is not None:
            batch, self._in_flight = self._in_flight, None
            batch.done.result()
            self._application.committed(batch.after, len(batch.group.events))

    def _known_answers(self, commands: list[Command]) -> dict[str, tuple[bytes, bytes]]:
        keys = [command.key for command in commands if command.key]
        if not keys:
            return {}
        # Read the group in flight before the store: it may be committed in between.
        unread = self._in_flight.group.answers if self._in_flight else []
        flying = {key: (digest, answer) for key, digest, answer in unread}
        return self._until_back(lambda: self._store.answers(keys)) | flying

    def _commit(self, before: Head, group: Group, after: Head) -> None:
        """Commit for sure: an unclear outcome is resolved by looking, never by guessing."""
        while True:
            try:
                self._store.commit(before, group, after)
                return
            except (psycopg.OperationalError, PoolTimeout) as error:
                if not is_outage(error):
                    raise
                if self._until_back(lambda: self._store.is_written(group, after)):
                    return

    def _until_back(self, read: Callable[[], T]) -> T:
        """Read, however long the database is away."""
        while True:
            try:
                return read()
            except (psycopg.OperationalError, PoolTimeout) as error:
                if not is_outage(error):
                    raise
                log.warning("the database is away; waiting for it")
                time.sleep(AWAY_SECONDS)

    def _refuse_the_rest(self) -> None:
        gone = Unavailable("this process no longer writes", code="NOT_LEADER")
        while not self._waiting.empty():
            if command := self._waiting.get_nowait():
                command.future.set_exception(gone)
        while not self._questions.empty():
            self._questions.get_nowait()[1].set_exception(gone)
