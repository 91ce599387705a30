"""Request bodies of promotions and evaluations."""

from typing import Annotated

from pydantic import AfterValidator, Field

from service.http.requests import Strict, not_blank

Version = Annotated[int, Field(ge=0, le=2**31)]
Measure = Annotated[str, Field(max_length=40)]
CUTOFF, RELEVANT_FROM = r"@[1-9]\d{0,3}", r"(\(rel=[1-9]\))?"
MEASURE_PATTERN = (
    rf"nDCG({CUTOFF})?|Judged{CUTOFF}|Rprec{RELEVANT_FROM}|(AP|RR){RELEVANT_FROM}({CUTOFF})?"
    rf"|(P|R|Success){RELEVANT_FROM}{CUTOFF}"
)
"""The measures that can be computed. The pattern excludes a cut-off of 0, at which ir-measures ends the process."""
Grade = Annotated[int, Field(ge=-1, le=1000)]


class Promotion(Strict):
    """The version to promote, the reason, and whether to ignore the gate."""

    version: Version
    reason: Annotated[str, Field(max_length=1000)] = ""
    force: bool = False


class EvaluationIn(Strict):
    """The models, measures and judgments of an evaluation.

    qrels: query text -> document id -> grade; the default is the held-out feedback.
    """

    models: Annotated[list[Version], Field(min_length=1, max_length=10)] | None = None
    measures: Annotated[list[Measure], Field(min_length=1, max_length=20)] = Field(
        default_factory=lambda: ["nDCG@10", "R@100"]
    )
    qrels: (
        Annotated[
            dict[
                Annotated[str, Field(min_length=1, max_length=2048), AfterValidator(not_blank)],
                Annotated[
                    dict[Annotated[str, Field(min_length=1, max_length=512)], Grade],
                    Field(max_length=10_000, fail_fast=True),
                ],
            ],
            Field(min_length=1, max_length=10_000, fail_fast=True),
        ]
        | None
    ) = None
