"""What a training run is asked."""

from typing import Annotated, Literal

from pydantic import Field

from index.learning.config import FitConfig
from service.http.requests import Strict

ClickReading = Literal["auto", "graded", "debiased", "naive"]
"""How a run reads clicks (`recipes.Recipe.reading`); `auto` tries every way and lets validation choose."""


class TrainingIn(Strict):
    """How to train; the same log asked for in the same way gives the same model, bit for bit."""

    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    promote: Literal["auto", "never"] = "auto"
    budget_seconds: Annotated[int, Field(ge=1, le=3600)] = int(FitConfig.cost_budget)
    """What trials may cost in all, by their nominal price."""
    click_reading: ClickReading = "auto"
