"""Characters that words and query keys leave out, and the marks that stand around words."""

INVISIBLE = "\u00ad\u034f\u180b-\u180d\u2060\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef"
"""Soft hyphen, word joiner, byte order mark and variation selectors, as the inside of a character class."""
QUOTES = '"“”„‟«»'
"""Quotation marks that make phrases."""
BEFORE_WORDS = QUOTES + "'‘’‹›¿¡([{"
AFTER_WORDS = QUOTES + "'‘’‹›?!.,;:…。、)]}"
"""Punctuation before and after words that does not change them."""
LETTER_APOSTROPHES = "\u02bb\u02bc"
"""Apostrophes that Unicode has among the letters: Ukrainian has them where others type an apostrophe."""
APOSTROPHES = "'\u2019" + LETTER_APOSTROPHES
