-- Which collections there are, and how the table of one is made. The search path is the store's schema.

create table collections (
    name text collate "C" primary key,
    number integer generated always as identity unique,
    dimension integer not null,
    typed boolean not null,
    lexical boolean not null,
    scoped boolean not null
);

-- `id`, `tenant_id` and the columns to filter on hold keys (see keys.py): a long text is shortened in them and whole
-- in `full_id` or `metadata`. `metadata` is the text as given, in its order; `attributes` the same, to filter on.
-- Collation "C" compares by code point. A vector stays beside its row if it fits, since a search reads them all.
create function make_rows(made text, dimension integer, typed boolean, lexical boolean, scoped boolean)
returns void language plpgsql as $make$
begin
    execute format(
        'create table %I ('
        'id text collate "C" primary key, full_id text collate "C", tenant_id text collate "C" not null, '
        'content text collate "C" not null, metadata text not null, attributes jsonb not null, '
        'created_at text collate "C" not null, vector vector(%s)%s%s%s)',
        made, dimension,
        case when typed then ', kind text collate "C", member text collate "C", skill text collate "C", '
                             'terms text, words text[]' else '' end,
        case when scoped then ', project text collate "C", agent_id text collate "C"' else '' end,
        case when lexical then ', lexical vector(256)' else '' end);
    if dimension <= 1024 then
        execute format('alter table %I alter column vector set storage main', made);
    end if;
    execute format('create index on %I (tenant_id%s)', made,
                   case when scoped then ', project, agent_id' else '' end);
    execute format('create index on %I using gin (attributes jsonb_path_ops)', made);
    if typed then
        execute format('create index on %I (kind, member, skill)', made);
        execute format('create index on %I using gin (words)', made);
    end if;
    -- Asked once for each statement, thanks to `select`. Where nobody says whose rows are meant there are none.
    execute format('alter table %I enable row level security', made);
    execute format('alter table %I force row level security', made);
    execute format(
        'create policy tenants on %I using ('
        'tenant_id = (select nullif(current_setting(''agenthood.tenant'', true), '''')) '
        'or (select current_setting(''agenthood.tenants'', true)) = ''all'')', made);
end
$make$;
