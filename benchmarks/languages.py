"""How often an English question finds the lesson that was learned in Malay or Chinese."""

from __future__ import annotations

from typing import TYPE_CHECKING

import common
from changelog import hit_rates

if TYPE_CHECKING:
    from pathlib import Path

TITLE = "Learned in Malay or Chinese, asked in English"
NOTE = "Right lesson first / among the first five, in %, without a threshold."
HEADING = ("texts", "learned in", "lessons", "agenthood")
SETS = (
    ("Tatoeba sentences", "Malay", "tatoeba_en_zsm.tsv", 1, 0),
    ("Tatoeba sentences", "Chinese", "tatoeba_en_cmn.tsv", 1, 0),
    ("NTREX news", "Malay", "ntrex_en_ms_zh.tsv", 2, 1),
    ("NTREX news", "Chinese", "ntrex_en_ms_zh.tsv", 3, 1),
)


def run(folder: Path, limit: int | None) -> str:
    """Measure each set under a skill of its own, threshold 0; returns a Markdown table."""
    rows = []
    with common.empty_store() as hood:
        for name, language, file, learned, asked in SETS:
            pairs = common.sentence_pairs(folder, file, learned, asked)[:limit]
            skill = f"{name} {language}"
            receipts = common.learn(hood, [pair.learned for pair in pairs], skill=skill)
            recalls = common.recall_all(hood, [pair.asked for pair in pairs], skill=skill)
            lessons = str(len({receipt.id for receipt in receipts}))
            ids = [[lesson.id for lesson in recall] for recall in recalls]
            rows.append((name, language, lessons, " / ".join(hit_rates(receipts, ids))))
    return common.table(HEADING, rows)
