"""Fields are described in the OpenAPI schema by the docstrings below them."""

from pydantic import BaseModel, Field

from service.http.field_docstrings import describe_fields, docstrings


class Base(BaseModel):
    """The base of the models below."""

    id: str
    """The identifier."""
    plain: int = 0


class Below(Base):
    """A model with a name of its own for a field, and a reference."""

    from_: str = Field(alias="from")
    """The first word,
    in two lines."""
    other: Base | None = None
    """Another one."""
    told: str = Field("", description="A description of its own.")
    """A docstring that does not count."""


class Variant(Base):
    """A model whose schemas differ in requests and answers."""

    id: str
    """The identifier of a variant."""


def described(model: type[BaseModel], name: str) -> dict[str, str]:
    schemas = {name: model.model_json_schema()}
    describe_fields(schemas, [model])
    properties = schemas[name]["properties"]
    return {field: one["description"] for field, one in properties.items() if "description" in one}


def test_descriptions_are_docstrings_of_the_model_and_of_its_bases() -> None:
    assert docstrings(Below) == {
        "id": "The identifier.",
        "from_": "The first word,\nin two lines.",
        "other": "Another one.",
        "told": "A docstring that does not count.",
    }
    assert docstrings(Variant) == {"id": "The identifier of a variant."}


def test_fields_are_described_by_the_names_that_the_schema_has() -> None:
    assert described(Below, "Below") == {
        "id": "The identifier.",
        "from": "The first word,\nin two lines.",
        "other": "Another one.",
        "told": "A description of its own.",
    }


def test_both_schemas_of_a_model_are_described() -> None:
    for name in ("Variant-Input", "Variant-Output"):
        assert described(Variant, name) == {"id": "The identifier of a variant."}
