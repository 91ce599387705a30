"""Documents and queries of made texts, from word lists of this file and a seed.

A document has a title and a text of 50 words about one topic, and two keys: a title and a passage. A query has words of
one topic. A user of the topic wants its documents, and `topic_of` tells the topic by the id. No file is read.
"""

import random
from typing import Any

TOPICS = {
    "kitchen": "kettle bowl copper pan ladle oven stove whisk apron sieve teapot saucer grater skillet",
    "garden": "rake hedge tulip shovel compost orchard lawn seedling trellis mulch greenhouse fern ivy pruning",
    "sea": "harbour sail anchor tide lighthouse rudder schooner gull reef buoy mast cargo lagoon ferry",
    "music": "violin drum chorus melody piano quartet rhythm trumpet opera cello harp flute tempo ballad",
    "winter": "snow sledge glacier frost mitten blizzard icicle scarf skate avalanche thaw hail chimney ember",
    "paper": "envelope ledger stamp notebook parchment ink folder margin printer archive quill receipt binder atlas",
    "railway": "engine platform carriage signal tunnel freight conductor junction timetable viaduct siding axle",
    "sky": "comet telescope orbit eclipse planet meteor horizon satellite nebula crater zenith aurora equinox lens",
    "workshop": "hammer chisel varnish lathe plank rivet sander workbench mallet hinge pliers gauge solder bracket",
    "market": "basket vendor pepper barley merchant bargain spice honey cheese stall almond scale crate barrel",
}
COMMON = (
    "small large blue green old new quiet heavy early late open narrow round plain useful common near far first second "
    "morning evening house river street winter paper copper people water story picture reason journey letter minute"
).split()
TEXT_WORDS = 50
NAMES = tuple(TOPICS)


def document(rng: random.Random, number: int, prefix: str = "doc") -> dict[str, Any]:
    """Return a made document. Its id has the prefix, the topic and the number."""
    topic = NAMES[number % len(NAMES)]
    words = TOPICS[topic].split()
    body = [rng.choice(words) if rng.random() < 0.4 else rng.choice(COMMON) for _ in range(TEXT_WORDS - 1)]
    return {
        "id": f"{prefix}-{topic}-{number}",
        "title": " ".join(rng.sample(words, 3)),
        "text": " ".join([*body, f"number{number}"]),
        "metadata": {"topic": topic, "n": number},
    }


def query(rng: random.Random) -> tuple[str, str]:
    """Return the text of a made query and its topic."""
    topic = rng.choice(NAMES)
    return " ".join([*rng.sample(TOPICS[topic].split(), rng.randint(2, 3)), rng.choice(COMMON)]), topic


def topic_of(document_id: str) -> str:
    """Return the topic of a made document."""
    return document_id.split("-")[1]
