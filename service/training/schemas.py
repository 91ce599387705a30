"""The request body of a training run."""

from typing import Annotated, Literal

from pydantic import Field

from index.learning.config import FitConfig
from service.http.requests import Strict

ClickReading = Literal["auto", "graded", "debiased", "naive"]
"""The click interpretation (`Recipe.interpretation`); `auto` tries all of them and selects one by validation."""


LearnFrom = Literal["feedback", "documents"]
"""The source of a run: the stored feedback, or the documents alone."""


class TrainingIn(Strict):
    """The parameters of a training run. The same feedback log and parameters give a bit-identical model."""

    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    promote: Literal["auto", "never"] = "auto"
    budget_seconds: Annotated[int, Field(ge=1, le=3600)] = int(FitConfig.cost_budget)
    """The cost budget of all trials, in nominal seconds."""
    click_reading: ClickReading = "auto"
    learn_from: LearnFrom = "feedback"
    """`documents` makes initial weights for the collection without feedback; seed, budget and clicks do not matter."""
