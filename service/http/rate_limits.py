"""Rate limits of API keys, in memory: a sliding window of a minute for each key."""

import math
import time

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter


class RateLimits:
    """Counts the requests of keys. A restart of the service forgets the counts."""

    def __init__(self) -> None:
        self._limiter: SlidingWindowCounterRateLimiter | None = None

    def retry_after_seconds(self, key_id: str, per_minute: int) -> int | None:
        """Count a request; return None if the key may make it, else the seconds until it may try again."""
        if self._limiter is None:  # made at the first use, because its storage starts a thread
            self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())
        item = RateLimitItemPerMinute(per_minute)
        if self._limiter.hit(item, key_id):
            return None
        reset = self._limiter.get_window_stats(item, key_id).reset_time
        return min(60, max(1, math.ceil(reset - time.time())))
