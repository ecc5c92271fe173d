"""Function words of English and Malay: damped in the lexical vector, dropped from keyword search."""

from __future__ import annotations

_DAMPED = """
a an the this that these those there
i me my we our you your he him his she her it its they their
be is are was were been being do does did have has had
can could will would should may might
in on at to of for from by with about as into than
and or but if so then not no
what when where which who why how

aku saya awak kamu kita kami dia mereka
ini itu ada adalah akan telah sudah dah nak
di ke dari pada dalam untuk dengan oleh sebagai
dan atau juga yang jika kalau kerana tak tidak
la lah je pun
"""

_ALSO_IGNORED = """
himself herself itself themselves am us myself yourself ours yours theirs hers them whose whom
done doing having must shall cannot
onto over under out up off between through during
because while until though nor only just very too also here
some any each both few more most other own same such

anda beliau ialah sedang masih pernah belum bukan jangan tiada tersebut
daripada kepada tentang bagi antara
tetapi tapi maka supaya agar apabila bila kan lagi sahaja saja
"""

DAMPED = frozenset(_DAMPED.split())
"""Words that count 15 % in the lexical vector. Part of its revision: a change here is a new space."""

STOP_WORDS = DAMPED | frozenset(_ALSO_IGNORED.split())
"""Words that keyword search ignores."""
