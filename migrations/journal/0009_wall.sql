-- The second wall. Every statement filters by user; should one not, the tables themselves show and take nothing but the rows
-- of the user that the connection acts for. The server says on every connection, before each use, for whom it acts: in
-- `skymem.acts_for` stands the id of a user, or `everyone`.

-- For whom the connection acts; null for everyone. Nobody said is an error: nothing to be seen would be taken for nothing
-- there.
create function journal.acts_for() returns uuid language plpgsql stable parallel safe as $$
declare
    whom constant text := coalesce(current_setting('skymem.acts_for', true), '');
begin
    if whom = '' then
        raise exception 'nobody said for whom this connection acts'
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'set skymem.acts_for to the id of a user, or to everyone';
    end if;
    return nullif(whom, 'everyone')::uuid;
end
$$;
create function journal.acts_for_everyone() returns boolean language sql stable parallel safe as $$
    select current_setting('skymem.acts_for', true) = 'everyone'
$$;

-- Builds the wall around every table of `schemas` that holds what is somebody's, the owner's own access included, where it
-- does not stand yet. The server calls it at each start, after the migrations: so no table, and no plugin, can forget it. The
-- functions stand in sub-selects so that they are asked once for a statement, not for every row.
create function journal.raise_wall(schemas text[]) returns setof text language plpgsql
set client_min_messages = warning as $$
declare
    place record;
begin
    for place in
        select format('%I.%I', nspname, relname) as name, attname as column_name
        from pg_class
        join pg_namespace on pg_namespace.oid = relnamespace
        join pg_attribute on attrelid = pg_class.oid and not attisdropped and atttypid = 'uuid'::regtype
        where relkind in ('r', 'p')
          and nspname = any(schemas)
          and (attname = 'user_id' or (pg_class.oid = 'journal.users'::regclass and attname = 'id'))
          and not (relrowsecurity
                   and relforcerowsecurity
                   and exists (select from pg_policy where polrelid = pg_class.oid and polname = 'wall'))
        order by 1
    loop
        execute format('alter table %s enable row level security, force row level security', place.name);
        execute format('drop policy if exists wall on %s', place.name);
        execute format('create policy wall on %s using (%I = (select journal.acts_for()) '
                       'or (select journal.acts_for_everyone()))', place.name, place.column_name);
        return next place.name;
    end loop;
end
$$;

-- Makes `role` the owner of everything in `schemas`: for whoever has run the server as an administrator of the database, whom
-- no wall keeps out, and now gives it a role of its own. To be called by that administrator.
create function journal.hand_over(role text, schemas text[] default '{journal,episodes,facts,files,summaries,vault}')
returns void language plpgsql as $$
declare
    it record;
begin
    execute format('grant create on database %I to %I', current_database(), role);
    for it in
        select format('schema %I', nspname) as name from pg_namespace where nspname = any(schemas)
        union all
        select format('table %I.%I', nspname, relname)
        from pg_class join pg_namespace on pg_namespace.oid = relnamespace
        where relkind in ('r', 'p') and nspname = any(schemas)
        union all
        select format('function %s', pg_proc.oid::regprocedure)
        from pg_proc join pg_namespace on pg_namespace.oid = pronamespace
        where nspname = any(schemas)
    loop
        execute format('alter %s owner to %I', it.name, role);
    end loop;
end
$$;
