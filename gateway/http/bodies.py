"""What a request's body may hold: closed models, read strictly.

``true`` is not 1 and ``"4"`` is not 4; a field that nobody declared is refused by its path, never
dropped: an author who misspells a limit must learn that it is not in force.
"""

from typing import Any, ClassVar, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from chassis.errors import Invalid

B = TypeVar("B", bound="Body")

_CODES = {"extra_forbidden": "UNKNOWN_FIELD", "missing": "REQUIRED_FIELD"}


class Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    # Media types in which the document may come.
    media: ClassVar[tuple[str, ...]] = ("application/json",)

    @classmethod
    def examine(cls, document: Any) -> None:
        """Refuses what needs a better answer than "unknown"."""


def read(model: type[B], document: Any) -> B:
    """The document as ``model``, or Invalid with the path of the first thing wrong."""
    model.examine(document)
    try:
        return model.model_validate(document)
    except ValidationError as error:
        # A misspelt field is also a missing one; what was written says more.
        found = error.errors(include_url=False, include_input=False)
        first = min(found, key=lambda one: one["type"] != "extra_forbidden")
        path = ".".join(str(part) for part in first["loc"])[:200]
        code = _CODES.get(first["type"], "FIELD")
        where = f"{path}: " if path else "the body: "
        details = {"field": path} if path else {}
        said = _unknown(model, first["loc"]) if code == "UNKNOWN_FIELD" else first["msg"]
        raise Invalid(where + said, code=code, **details) from None


def _unknown(model: type[BaseModel], path: tuple[int | str, ...]) -> str:
    """What may stand where an unknown field stands."""
    for part in path[:-1]:
        if isinstance(part, int):
            continue  # the place in a list, whose items are all of one model
        fields = model.model_fields.items()
        inner = next(field.annotation for name, field in fields if part in (name, field.alias))
        inner = next(iter(get_args(inner)), inner)
        assert isinstance(inner, type), "a model stands in a model, or a list of one does"
        model = inner
    names = [field.alias or name for name, field in model.model_fields.items()]
    return f"unknown field; known here: {', '.join(names)}"
