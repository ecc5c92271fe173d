"""Learning a stream of JSON lines batch by batch: nothing is lost, and memory does not grow with the file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

from agenthood.cli.interrupts import completed
from agenthood.cli.jsonl import ByteSource, EpisodeParser, ParsedLine, raw_lines
from agenthood.cli.logs import Held
from agenthood.cli.reasons import Reasons
from agenthood.cli.text import counted
from agenthood.errors import StoreUnavailableError
from agenthood.records import EvalResult, Receipt, ReceiptStatus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agenthood import Hood
    from agenthood.cli.output import Output
    from agenthood.cli.progress import Advance

NOTHING_LEARNED = "stopped before any line was learned, run it again"
_BATCH_BYTES = 8 * 2**20
_WARNINGS = 10
_COMMIT = 2_000
"""Lines; the engine writes no more episodes in one commit, and a batch should be written whole or not at all."""


@dataclass(frozen=True, slots=True)
class Source:
    """A stream of lines.

    Attributes:
        file: where they are read from.
        size: how many bytes there are, or None if that cannot be known.
    """

    file: ByteSource
    size: int | None


class BulkLearner:
    """Learns the lines of one source.

    Attributes:
        counts: how many lines ended how, of those that are settled.
    """

    def __init__(
        self,
        hood: Hood,
        output: Output,
        *,
        rejects: BinaryIO | None = None,
        batch: int = 500,
        shared: bool = False,
    ) -> None:
        self.counts: dict[ReceiptStatus, int] = {
            "stored": 0,
            "merged": 0,
            "pending": 0,
            "skipped": 0,
            "rejected": 0,
        }
        self._hood = hood
        self._output = output
        self._rejects = rejects
        self._batch = min(batch, _COMMIT)
        self._parser = EpisodeParser()
        self._reasons = Reasons(output)
        self._shared = shared
        self._settled = 0

    def run(self, source: Source, advance: Advance) -> None:
        """Learn everything.

        Args:
            source: the lines.
            advance: told after each batch how many bytes are done, and of how many.

        Raises:
            StoreUnavailableError: the store could not be written; nothing of that batch was learned.
            AgenthoodError: the engine failed as a whole.
        """
        done = 0
        try:
            for batch in self._batches(source):
                with completed(partial(self._unsure, batch)):
                    self._learn(batch)
                done += sum(len(line.raw.data) for line in batch)
                advance(done, source.size)
        except StoreUnavailableError as error:
            raise StoreUnavailableError(f"{self._stopped()}: {error}") from error
        except BaseException:  # also Ctrl-C: whatever ends it, someone must know where to go on
            self._output.problem(self._stopped())
            raise
        finally:
            self._reasons.rest()

    def _stopped(self) -> str:
        if not self._settled:
            return NOTHING_LEARNED
        return f"stopped: line {self._settled} was the last one settled, go on after it"

    def warnings(self) -> list[str]:
        """One sentence for each key that lines had and nobody knows, the most frequent first."""
        known = self._parser.unknown.most_common()
        found = [
            f"unknown key {key[:80]!r} ignored in {counted(count, 'line')}, the first of them "
            f"line {self._parser.first[key]}{self._parser.hints[key]}"
            for key, count in known[:_WARNINGS]
        ]
        if len(known) > _WARNINGS:
            found.append(f"{len(known) - _WARNINGS} more unknown keys were ignored")
        return found

    def _batches(self, source: Source) -> Iterator[list[ParsedLine]]:
        """Lines that are not blank, in batches of limited count and size."""
        batch: list[ParsedLine] = []
        size = 0
        for raw in raw_lines(source.file):
            if raw.blank:
                continue
            batch.append(self._parser.parse(raw))
            size += len(raw.data)
            if len(batch) >= self._batch or size >= _BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _learn(self, batch: list[ParsedLine]) -> None:
        receipts = iter(self._receipts([line.result for line in batch if line.result is not None]))
        for line in batch:
            receipt = next(receipts) if line.result is not None else Receipt("rejected", reason=line.reason)
            self._settle(line, receipt)
        if self._rejects is not None:
            self._rejects.flush()
        self._settled = batch[-1].raw.number
        self._output.flush()  # a receipt for every line that is settled, however the command ends

    def _receipts(self, results: list[EvalResult]) -> Sequence[Receipt]:
        """Learn, with one receipt for each.

        Raises:
            StoreUnavailableError: the store refused them all; another batch would fare no better.
        """
        with Held() as held:
            receipts = self._hood.learn_many(results, shared=self._shared)
            causes = held.causes({receipt.reason for receipt in receipts if receipt.status == "rejected"})
        for cause in causes:
            if isinstance(cause, StoreUnavailableError):
                raise cause
        return receipts

    def _unsure(self, batch: list[ParsedLine]) -> str:
        """What to say where nobody waits for the batch to end."""
        settled = f"line {self._settled} was the last one settled; " if self._settled else ""
        return f"ended at once: {settled}up to line {batch[-1].raw.number} lines may be learned or not"

    def _settle(self, line: ParsedLine, receipt: Receipt) -> None:
        """Count, report and keep one line whose fate is known."""
        if receipt.status == "rejected" and self._rejects is not None:
            self._rejects.write(line.raw.data)
        if not line.raw.first:
            return
        self.counts[receipt.status] += 1
        if receipt.status == "rejected":
            self._reasons.say(line.raw.number, receipt.reason)
        if self._output.json:
            self._output.document({"line": line.raw.number, **receipt.to_dict()})
