"""The request body of a training run."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from index.learning.config import FitConfig
from service.http.requests import Strict

ClickReading = Literal["auto", "graded", "debiased", "naive"]
"""The click interpretation (`Recipe.interpretation`); `auto` averages two of them (`AVERAGED`)."""


LearnFrom = Literal["feedback", "documents"]
"""The source of a run: the stored feedback, or the documents alone."""


Objective = Literal["listwise", "reinforce"]
"""What a run maximises: the likelihood of the confirmed documents, or the expected clicks of explored lists."""


class TrainingIn(Strict):
    """The parameters of a training run. The same feedback log and parameters give a bit-identical model."""

    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    promote: Literal["auto", "never"] = "auto"
    budget_seconds: Annotated[int, Field(ge=1, le=3600)] = int(FitConfig.cost_budget)
    """The cost budget of all trials, in nominal seconds."""
    click_reading: ClickReading = "auto"
    learn_from: LearnFrom = "feedback"
    """`documents` makes initial weights for the collection without feedback; seed, budget and clicks do not matter."""
    objective: Objective = "listwise"
    """`reinforce` learns from explored lists alone."""

    @model_validator(mode="after")
    def _consistent(self) -> "TrainingIn":
        if self.objective == "reinforce" and (self.learn_from != "feedback" or self.click_reading != "auto"):
            raise ValueError("objective reinforce reads explored lists: leave out learn_from and click_reading")
        return self
