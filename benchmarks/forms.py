"""The forms of attention, numbers of heads, normalisers and values: each is fitted to the same judgments and searched.

    python -m benchmarks.forms --data ../shared/data --sets cosqa,cranfield --out benchmarks/results/forms.json

The default is the bilinear form with one head and softmax. Each variant changes one of them and keeps the rest:
evidence, memory, candidates, recipes, seeds. Untrained, every form with softmax ranks as the default does, so a
difference comes from training. `trained` and `served` mean the same as in benchmarks/ablations.py, and differences are
to the default, with a paired t interval over test queries.
"""

from benchmarks.ablations import UNTRAINED, Variant, run
from benchmarks.workbench import options_of
from index.ranking.attention import HeadConfig
from index.ranking.normalisers import NORMALISERS
from index.ranking.score_functions import FORMS

HEADS = (2, 4, 8)
VALUE_RANK = 8
ENOUGH = 400.0
"""A cost budget with which the recipe of values is tried on every set."""
DEFAULT = f"{HeadConfig.form}, {HeadConfig.normaliser}"
VARIANTS = (
    Variant(DEFAULT),
    *(
        Variant(f"{form}, {HeadConfig.normaliser}", attention={"form": form})
        for form in FORMS
        if form != HeadConfig.form
    ),
    *(Variant(f"{HeadConfig.form}, {heads} heads", attention={"heads": heads}) for heads in HEADS),
    *(
        Variant(f"{HeadConfig.form}, {normaliser}", attention={"normaliser": normaliser})
        for normaliser in NORMALISERS
        if normaliser != HeadConfig.normaliser
    ),
    Variant(
        f"{HeadConfig.form}, values of rank {VALUE_RANK}",
        attention={"value_rank": VALUE_RANK},
        config={"cost_budget": ENOUGH},
    ),
    Variant("untrained", config=UNTRAINED),
)


def main() -> None:
    """Run the benchmark on the chosen sets; print tables, and one last line of JSON."""
    run(VARIANTS, options_of(__doc__.split("\n")[0], queries=1000, seeds="0").parse_args())


if __name__ == "__main__":
    main()
