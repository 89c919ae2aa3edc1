"""The tables of one service, in a schema of its own.

The service's role may add to its log and read it; it may not change or remove a row of it.
"""


def ddl(schema: str, role: str) -> str:
    return _TABLES.format(schema=schema) + _GRANTS.format(schema=schema, role=role)


_TABLES = """
create schema if not exists {schema};
create table if not exists {schema}.events (
    position bigint not null,
    shard smallint not null,
    version int not null,
    aggregate_id text not null,
    topic text not null,
    tenant_id text not null,
    correlation_id text not null,
    traceparent text not null,
    data bytea not null,
    hash bytea not null,
    primary key (shard, position),
    unique (aggregate_id, version)
);
create index if not exists events_correlation
    on {schema}.events (correlation_id, position) where correlation_id <> '';
create table if not exists {schema}.commands (
    key text primary key,
    payload_hash bytea not null,
    answer bytea not null
);
create table if not exists {schema}.heads (
    shard smallint primary key,
    epoch bigint not null,
    holder text not null,
    expires_at timestamptz not null,
    position bigint not null,
    hash bytea not null
);
create table if not exists {schema}.cursors (
    shard smallint not null,
    source text not null,
    position bigint not null,
    incarnation text not null,
    hash bytea not null,
    primary key (shard, source)
);
create table if not exists {schema}.parked (
    shard smallint not null,
    source text not null,
    position bigint not null,
    aggregate_id text not null,
    topic text not null,
    cause text not null,
    data bytea not null,
    primary key (shard, source, position)
);
create table if not exists {schema}.snapshots (
    shard smallint primary key,
    position bigint not null,
    code text not null,
    state bytea not null
);
"""

_GRANTS = """
grant usage on schema {schema} to {role};
grant select, insert on {schema}.events, {schema}.commands to {role};
grant select, insert, update on {schema}.heads, {schema}.cursors, {schema}.snapshots to {role};
grant select, insert, delete on {schema}.parked to {role};
"""
