"""Best fit of whole GPUs over free counts, at a cost that does not grow with the number of nodes.

Per model, nodes stand in buckets by how many GPUs they have free; the best fit is the first node
of the smallest sufficient bucket. Of equal nodes the one with the smallest id is taken, so the
choice depends on the facts alone and never on the order in which they became known.
"""

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from placement.policy import HoldRefusal


@dataclass(frozen=True)
class Spot:
    node_id: str
    slots: tuple[int, ...]


@dataclass(frozen=True)
class Misfit:
    refusal: HoldRefusal
    detail: str


class Index:
    """Free slots of the nodes that may be offered. ``away`` nodes keep theirs and are not."""

    def __init__(self) -> None:
        self._models: dict[str, _Model] = {}
        self._by_slot: dict[str, Mapping[int, str]] = {}
        self._away: set[str] = set()

    def put(self, node_id: str, model_by_slot: Mapping[int, str], taken: Iterable[int]) -> None:
        self.remove(node_id)
        self._by_slot[node_id] = dict(model_by_slot)
        for model in set(model_by_slot.values()):
            self._models.setdefault(model, _Model(self._away)).put(
                node_id, _mask(slot for slot, name in model_by_slot.items() if name == model)
            )
        self.take(node_id, taken)

    def remove(self, node_id: str) -> None:
        for model in set(self._by_slot.pop(node_id, {}).values()):
            self._models[model].remove(node_id)

    def take(self, node_id: str, slots: Iterable[int]) -> None:
        for model, mask in self._split(node_id, slots):
            model.set_free(node_id, model.free[node_id] & ~mask)

    def give(self, node_id: str, slots: Iterable[int]) -> None:
        for model, mask in self._split(node_id, slots):
            model.set_free(node_id, model.free[node_id] | mask)

    def set_away(self, node_id: str, away: bool) -> None:
        (self._away.add if away else self._away.discard)(node_id)
        for model in set(self._by_slot.get(node_id, {}).values()):
            self._models[model].queue(node_id)

    @property
    def free_count(self) -> int:
        return sum(model.free_count for model in tuple(self._models.values()))

    def best(self, model: str, count: int) -> Spot | Misfit:
        shelf = self._models.get(model)
        largest = shelf.largest if shelf else 0
        if shelf is None or count > largest:
            detail = f"{count} {model} wanted; the largest node has {largest}"
            return Misfit(HoldRefusal.NEVER_FITS, detail)
        node_id = shelf.best(count)
        if node_id is None:
            detail = (
                f"{count} {model} wanted on one node;"
                f" {shelf.free_count} free in all, at most {shelf.most_free} on one node"
            )
            return Misfit(HoldRefusal.CAPACITY, detail)
        return Spot(node_id, _lowest(shelf.free[node_id], count))

    @contextmanager
    def tentative(self) -> Iterator["Tentative"]:
        """Taking for one decision after another; undone at the end, when events take for good."""
        trial = Tentative(self)
        try:
            yield trial
        finally:
            for spot in trial.taken:
                self.give(spot.node_id, spot.slots)

    def _split(self, node_id: str, slots: Iterable[int]) -> Iterator[tuple["_Model", int]]:
        """The slots as masks per model; slots that the node does not have are nobody's."""
        by_slot = self._by_slot.get(node_id, {})
        by_model: dict[str, int] = {}
        for slot in slots:
            if slot in by_slot:
                by_model[by_slot[slot]] = by_model.get(by_slot[slot], 0) | 1 << slot
        return ((self._models[model], mask) for model, mask in by_model.items())


class Tentative:
    def __init__(self, index: Index) -> None:
        self._index = index
        self.taken: list[Spot] = []

    def best(self, model: str, count: int) -> Spot | Misfit:
        found = self._index.best(model, count)
        if isinstance(found, Spot):
            self._index.take(found.node_id, found.slots)
            self.taken.append(found)
        return found


class _Model:
    """The nodes with one model of GPU; free slots as bits of a number."""

    def __init__(self, away: set[str]) -> None:
        self.free: dict[str, int] = {}
        self._free_total = 0
        self._whole: dict[str, int] = {}
        self._sizes: Counter[int] = Counter()
        self._away = away
        # Heaps of node ids by free count. An entry may be out of date and is dropped when met;
        # ``_queued`` keeps a node from standing twice in one heap.
        self._heaps: dict[int, list[str]] = {}
        self._queued: set[tuple[int, str]] = set()

    @property
    def largest(self) -> int:
        return max(self._sizes, default=0)

    @property
    def free_count(self) -> int:
        return self._free_total - sum(self.free.get(n, 0).bit_count() for n in tuple(self._away))

    @property
    def most_free(self) -> int:
        return next((n for n in range(self.largest, 0, -1) if self._first(n) is not None), 0)

    def put(self, node_id: str, mask: int) -> None:
        self._whole[node_id] = mask
        self._sizes[mask.bit_count()] += 1
        self.free[node_id] = 0
        self.set_free(node_id, mask)

    def remove(self, node_id: str) -> None:
        size = self._whole.pop(node_id).bit_count()
        self._sizes[size] -= 1
        if not self._sizes[size]:
            del self._sizes[size]
        self._free_total -= self.free.pop(node_id).bit_count()

    def set_free(self, node_id: str, mask: int) -> None:
        self._free_total += mask.bit_count() - self.free[node_id].bit_count()
        self.free[node_id] = mask
        self.queue(node_id)

    def queue(self, node_id: str) -> None:
        count = self.free[node_id].bit_count()
        if count and (count, node_id) not in self._queued:
            self._queued.add((count, node_id))
            heapq.heappush(self._heaps.setdefault(count, []), node_id)

    def best(self, count: int) -> str | None:
        for enough in range(count, self.largest + 1):
            if node_id := self._first(enough):
                return node_id
        return None

    def _first(self, count: int) -> str | None:
        heap = self._heaps.get(count, [])
        while heap:
            node_id = heap[0]
            if self.free.get(node_id, 0).bit_count() == count and node_id not in self._away:
                return node_id
            heapq.heappop(heap)
            self._queued.discard((count, node_id))
        return None


def _mask(slots: Iterable[int]) -> int:
    return sum(1 << slot for slot in slots)


def _lowest(mask: int, count: int) -> tuple[int, ...]:
    slots = []
    for _ in range(count):
        slots.append((mask & -mask).bit_length() - 1)
        mask &= mask - 1
    return tuple(slots)
