"""Texts that break quoting, wildcards, encodings and displays, all of which a store must take as they are."""

from __future__ import annotations

from hypothesis import strategies as st

HOSTILE = (
    "'", "''", '"', "`", "\\", "\\\\", "a\\", "\\'", "%", "_", "a_b", "axb", "a%b", "a\\_b", "[a]", "*", "?", "$1",
    "😀", "👨\u200d👩\u200d👧",
    "line\nbreak", "\r\n\t", "\u202eabc\u202c", "\u0627\u0644\u0639", "\ufeffbom", "\u00e9", "e\u0301",
    "{{x}}", "{}", "'; DROP TABLE vectors;--", "' OR '1'='1", '"type":"t"', '{"type":"t"}', "\\u0041", "\\n", "null",
    "NaN", "true", " ", " lead", "trail ", "\uffff", "\U0010ffff", "\ue000", "\ud7ff", "\x7f", "\x01", "\u2028",
    "中文模式", "ß", "İ",
)  # fmt: skip

MEGABYTE = "x'\\%😀_" * 100_000
"""About 1 MB as UTF-8."""

texts = st.one_of(
    st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6),
)
