"""What a training run is asked."""

from typing import Annotated, Literal

from pydantic import Field

from service.inputs import Strict


class TrainingIn(Strict):
    """How to train; the same log and seed give the same model, bit for bit."""

    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0
    promote: Literal["auto", "never"] = "auto"
