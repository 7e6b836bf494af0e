package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// lacking lists the objects that the web needs and may not use, with their owner and
// whether the owner is a superuser. It lists none before Concourse has created tables.
//
// The rules are:
//
//   - migrations_history comes first of its tables, and auth_request when the web serves
//     logins. These two are listed whoever owns them.
//   - Other tables are listed if this user may take the owner's role, because the schema
//     may also have tables of others.
//   - Concourse creates tables at its start and for each pipeline. It needs the owner's
//     rights on build_events, because those tables inherit from it.
//   - It also needs the right to create tables in the schema, which not every user has
//     since PostgreSQL 15.
//   - The rights of the current user apply, which some servers change at login.
const lacking = `
with concourse as (
  select c.* from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'S')
  and exists (select from pg_class a where a.relnamespace = c.relnamespace
    and a.relname in ('auth_request', 'migrations_history') and a.relkind in ('r', 'p'))
), lacks as (
  select c.relowner as owner, case c.relkind when 'S'
    then 'sequence' else 'table' end as kind, c.relname as name from concourse c
  where (c.relname in ('auth_request', 'migrations_history') or pg_has_role(session_user, c.relowner, 'member'))
  and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid
    and d.deptype = 'e')
  and case when c.relkind = 'S' then not (has_sequence_privilege(c.oid, 'usage')
    and has_sequence_privilege(c.oid, 'select'))
    else not (has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert')
    and has_table_privilege(c.oid, 'update') and has_table_privilege(c.oid, 'delete')) end
  union all
  select c.relowner, 'owner', c.relname from concourse c where c.relname = 'build_events'
    and not pg_has_role(c.relowner, 'usage')
  union all
  select n.nspowner, 'schema', n.nspname from pg_namespace n where n.oid = 'public'::regnamespace
    and exists (select from concourse)
  and not (has_schema_privilege(n.oid, 'usage') and has_schema_privilege(n.oid, 'create'))
)
select r.rolname, l.kind, l.name, r.rolsuper from lacks l join pg_roles r on r.oid = l.owner
order by 1, 2, 3`

// object names an object on which the web lacks rights.
type object struct {
	owner string
	super bool   // the owner is a superuser
	kind  string // table, sequence, schema; owner: a table that needs its owner's rights
	name  string
}

// lacking starts the transaction of its query.
func (c conn) lacking(ctx context.Context) (all []object, err error) {
	if _, err := c.query(ctx, "begin"); err != nil {
		return nil, err
	}
	// Not in a search path that another user can change.
	if _, err := c.query(ctx, "set local search_path = pg_catalog, pg_temp"); err != nil {
		return nil, err
	}
	rows, err := c.query(ctx, lacking)
	for _, r := range rows {
		all = append(all, object{owner: r[0], kind: r[1], name: r[2], super: r[3] == "t"})
	}
	return all, err
}

// Rights checks whether the web's user has the rights that Concourse needs. It changes
// nothing. Its error has the statement for a superuser.
func Rights(ctx context.Context, db Config) error {
	return connected(ctx, db, func(ctx context.Context, c conn) error {
		missing, err := c.lacking(ctx)
		if err == nil && len(missing) > 0 {
			err = c.refusal(ctx, missing)
		}
		if err != nil {
			return fmt.Errorf("cannot use Concourse's tables in %s: %w", db.place(), err)
		}
		return nil
	})
}

func (c conn) refusal(ctx context.Context, missing []object) error {
	row, err := c.one(ctx, "select current_user::text, current_setting('server_version_num')::int >= 160000")
	if err != nil {
		return err
	}
	return fmt.Errorf("%s; as a superuser run there: %s", slices.MinFunc(missing, byImportance).why(),
		remedy(quote(row[0]), row[1] == "t", missing))
}

// byImportance orders the most important object first.
func byImportance(a, b object) int {
	order := []string{"owner", "table", "sequence", "schema"}
	return slices.Index(order, a.kind) - slices.Index(order, b.kind)
}

func (o object) why() string {
	switch o.kind {
	case "owner":
		return fmt.Sprintf("they belong to %s, and it lacks that role's rights", o.owner)
	case "schema":
		return "it can't make tables in the schema public"
	}
	return fmt.Sprintf("it can't use %s of %s", o.name, o.owner)
}

// remedy returns the statements that give a user, as an identifier, the missing rights.
// since16 reports PostgreSQL 16 or newer, where each membership, and not the user, controls
// whether rights are inherited.
func remedy(user string, since16 bool, missing []object) string {
	var run []string
	owned := ""
	is := func(kind string) func(object) bool {
		return func(o object) bool { return o.kind == kind && o.owner != owned }
	}
	if i := slices.IndexFunc(missing, is("owner")); i >= 0 {
		switch o := missing[i]; {
		case o.super: // a user must not get a superuser's role
			run = append(run, fmt.Sprintf("DO $$DECLARE t name; BEGIN FOR t IN SELECT relname FROM pg_class "+
				"WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND "+
				"pg_get_userbyid(relowner) = %s LOOP EXECUTE format('ALTER TABLE public.%%I OWNER TO %%s', "+
				"t, %s); END LOOP; END$$",
				literal(o.owner), literal(user)))
		case since16:
			run = append(run, fmt.Sprintf("GRANT %s TO %s WITH INHERIT TRUE", quote(o.owner), user))
		default:
			run = append(run, fmt.Sprintf("GRANT %s TO %s", quote(o.owner), user),
				fmt.Sprintf("ALTER ROLE %s INHERIT", user))
		}
		owned = missing[i].owner
	}
	if slices.ContainsFunc(missing, is("table")) {
		run = append(run, "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "+user)
	}
	if slices.ContainsFunc(missing, is("table")) || slices.ContainsFunc(missing, is("sequence")) {
		run = append(run, "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO "+user)
	}
	owned = ""
	if slices.ContainsFunc(missing, is("schema")) {
		run = append(run, "GRANT USAGE, CREATE ON SCHEMA public TO "+user)
	}
	return strings.Join(run, "; ")
}

// quote formats a name as an SQL identifier, and literal a text as an SQL string.
func quote(name string) string   { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
