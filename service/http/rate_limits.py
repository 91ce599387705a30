"""Rate limits of API keys, in memory: no 60 seconds have more requests of a key than its rate.

The time of every allowed request of the last minute is kept, about 150 bytes each. A request takes about 10 us with
20,000 kept times, and more in proportion.
"""

import math
import time

from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter


class RateLimits:
    """Counts the requests of keys. A restart of the service forgets the counts."""

    def __init__(self) -> None:
        self._limiter: MovingWindowRateLimiter | None = None

    def retry_after_seconds(self, key_id: str, per_minute: int, cost: int = 1) -> int | None:
        """Count so many requests; return None if the key may make them, else the seconds until it may try again."""
        if self._limiter is None:  # made at the first use, because its storage starts a thread
            self._limiter = MovingWindowRateLimiter(MemoryStorage())
        item = RateLimitItemPerMinute(per_minute)
        if self._limiter.hit(item, key_id, cost=cost):
            return None
        reset = self._limiter.get_window_stats(item, key_id).reset_time
        return min(60, max(1, math.ceil(reset - time.time())))
