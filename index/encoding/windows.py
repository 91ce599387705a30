"""Cuts a long text window by window, and finds the cuts that one pass over the whole text finds.

The time of the splitter grows with the square of the text that it gets, most where there are no spaces. The end of a
window changes the last cuts before it, so these are not used. The next window begins two chunks earlier and must repeat
the last used chunk: the cuts behind a chunk depend on that chunk and on the text that follows, and on nothing before.
"""

from collections.abc import Callable, Sequence

MAX_CHARACTERS = 50_000
"""The longest window. A longer chunk, such as a run of letters without end, is cut where the window ends."""
CHUNKS = 8
"""The chunks that a window is meant to contain."""
STEPS_BACK = (2, 4, 8)
"""By how many chunks a window begins before the next cut, until it repeats the last used chunk."""

Chunk = tuple[int, str]
"""The position of a chunk in the text, and the chunk."""


def cut_in_windows(cut: Callable[[str], Sequence[Chunk]], text: str, characters: int) -> list[Chunk]:
    """Return the chunks of a text. `cut` cuts a short text; `characters` is a guess of the length of a chunk."""
    found: list[Chunk] = []
    done = 0
    while done < len(text):
        chunks, done = _run(cut, text, done, max(1, characters))
        found += chunks
    return found


def _run(cut: Callable[[str], Sequence[Chunk]], text: str, begin: int, characters: int) -> tuple[list[Chunk], int]:
    """Return the chunks from `begin` on and where they end: at the end of the text, or where windows do not agree."""
    found: list[Chunk] = []
    start, size, step = begin, CHUNKS * characters, 0
    while True:
        size = min(size, MAX_CHARACTERS)
        stop = min(start + size, len(text))
        chunks = [(start + at, chunk) for at, chunk in cut(text[start:stop])]
        if found and found[-1] not in chunks:
            step += 1
            if step == len(STEPS_BACK):
                return found, _end(found[-1])
            start = found[-min(STEPS_BACK[step], len(found))][0]
            size += found[-1][0] - start
            continue
        fresh = chunks[chunks.index(found[-1]) + 1 :] if found else chunks
        if stop == len(text) or not fresh:  # nothing but white space follows: the splitter takes its square, too
            return found + fresh, stop
        mean = max(characters, (stop - start) // max(1, len(chunks)))
        sound = [chunk for chunk in fresh if _end(chunk) <= stop - mean]
        if sound:
            found += sound
            start, size, step = found[-min(STEPS_BACK[0], len(found))][0], CHUNKS * mean, 0
        elif size == MAX_CHARACTERS:
            return found + fresh, stop
        else:
            size *= 2


def _end(chunk: Chunk) -> int:
    return chunk[0] + len(chunk[1])
