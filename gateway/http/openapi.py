"""The OpenAPI 3.1 document, built from the same table as the routes: it cannot leave one out."""

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from google.protobuf.descriptor import Descriptor

from gateway.http import oauth, problems
from gateway.http.bodies import Body
from gateway.http.operations import JSON, PEOPLE, Operation
from gateway.http.queries import ID_PATTERN, Query
from gateway.http.shapes import schema_of

_REF = "#/components/schemas/{model}"
_ALWAYS = (400, 404, 405, 429, 500, 503)


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    schemas: dict[str, Any] = {"Problem": problems.SCHEMA}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        described = _operation(operation, schemas)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Leasehold",
            "version": "1",
            "description": "GPUs from many sources, leased, metered and billed. Times are "
            "microseconds UTC; money is text in nano-units with a decimal beside it.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": {str(status): _problem(status) for status in problems.STATUSES},
            "securitySchemes": {"oauth2": _security()},
        },
    }


def _operation(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": list(_parameters(operation)),
        "responses": _responses(operation, schemas),
        "security": [{"oauth2": []}] if operation.needs_token else [],
    }
    if operation.needs_token:
        described["description"] = f"For the roles {', '.join(operation.roles)}."
        described["x-leasehold-roles"] = list(operation.roles)
    if operation.body is not None:
        schema = _body(operation.body, schemas)
        content = {media: {"schema": schema} for media in operation.body.media}
        described["requestBody"] = {"required": True, "content": content}
    if operation.path == "/oauth/token":
        described["requestBody"] = {"required": True, "content": {oauth.FORM: _TOKEN_FORM}}
    return described


def _parameters(operation: Operation) -> Iterable[dict[str, Any]]:
    for name in re.findall(r"{(\w+)}", operation.path):
        identity = Query(name, ID_PATTERN, "id with the prefix of its kind")
        yield {**_parameter(identity, "path"), "required": True}
    for query in operation.query:
        yield _parameter(query, "query")
    if operation.is_command:
        yield _parameter(_KEY, "header")
    if operation.conditional:
        yield {**_parameter(_VERSION, "header"), "required": True}


def _parameter(query: Query, place: str) -> dict[str, Any]:
    return {
        "name": query.name,
        "in": place,
        "description": query.description,
        "schema": {"type": "string", "pattern": f"^({query.pattern})$"},
    }


def _responses(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    content = {
        media: {"schema": schema_of(kind, schemas) if isinstance(kind, Descriptor) else kind}
        for media, kind in operation.answers.items()
    }
    success: dict[str, Any] = {"description": HTTPStatus(operation.status).phrase}
    if content:
        success["content"] = content
    found = {str(operation.status): success}
    for status in sorted(_statuses(operation)):
        found[str(status)] = {"$ref": f"#/components/responses/{status}"}
    if operation.path == "/oauth/token":
        found |= {"400": _OAUTH_ERROR, "401": _OAUTH_ERROR}
    return found


def _statuses(operation: Operation) -> set[int]:
    found = set(_ALWAYS)
    if operation.needs_token:
        found |= {401, 403}
    if operation.is_command:
        found |= {409, 422}
    if operation.body is not None or operation.path == "/oauth/token":
        found |= {408, 413, 415}
    if operation.conditional:
        found |= {412, 428}
    return found


def _problem(status: int) -> dict[str, Any]:
    schema = {"$ref": _REF.format(model="Problem")}
    return {
        "description": HTTPStatus(status).phrase,
        "content": {problems.MEDIA_TYPE: {"schema": schema}},
    }


def _body(model: type[Body], schemas: dict[str, Any]) -> dict[str, Any]:
    schema = model.model_json_schema(ref_template=_REF)
    schemas.update(schema.pop("$defs", {}))
    schemas[model.__name__] = schema
    return {"$ref": _REF.format(model=model.__name__)}


def _security() -> dict[str, Any]:
    scopes = {role: f"acts as {role}" for role in PEOPLE}
    flow = {"tokenUrl": "/oauth/token", "scopes": scopes}
    return {"type": "oauth2", "flows": {"clientCredentials": flow}}


_KEY = Query("Idempotency-Key", "[!-~]{1,255}", "the same key and request get the first answer")
_VERSION = Query("If-Match", '"[1-9][0-9]{0,17}"', "the ETag of the version that is changed")
_TOKEN_FORM = {
    "schema": {
        "type": "object",
        "required": ["grant_type"],
        "properties": {
            "grant_type": {"const": "client_credentials"},
            "client_id": {"type": "string"},
            "client_secret": {"type": "string"},
        },
    }
}
_OAUTH_ERROR = {
    "description": "The error, in OAuth's own form",
    "content": {
        JSON: {
            "schema": {
                "type": "object",
                "required": ["error"],
                "properties": {
                    "error": {"type": "string"},
                    "error_description": {"type": "string"},
                },
            }
        },
        problems.MEDIA_TYPE: {"schema": {"$ref": _REF.format(model="Problem")}},
    },
}
