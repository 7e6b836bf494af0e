package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// lacking lists what the web needs and may not use, with its owner and whether
// that is a superuser: none where Concourse has made no tables yet. Of its tables
// migrations_history comes first, and auth_request when the web serves logins;
// these two count whoever owns them, others where this user may take the owner's
// role, as the schema may hold other people's. Concourse makes tables, at its very
// start and for each pipeline: it has to have the owner's rights on build_events,
// from which those inherit, and the right to make any in the schema, which not
// everybody has since PostgreSQL 15. The rights that count are those of the current
// user, which some servers make another than the one who logged in.
const lacking = `
with concourse as (
  select c.* from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'S')
  and exists (select from pg_class a where a.relnamespace = c.relnamespace and a.relname in ('auth_request', 'migrations_history') and a.relkind in ('r', 'p'))
), lacks as (
  select c.relowner as owner, case c.relkind when 'S' then 'sequence' else 'table' end as kind, c.relname as name from concourse c
  where (c.relname in ('auth_request', 'migrations_history') or pg_has_role(session_user, c.relowner, 'member'))
  and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
  and case when c.relkind = 'S' then not (has_sequence_privilege(c.oid, 'usage') and has_sequence_privilege(c.oid, 'select'))
    else not (has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert')
    and has_table_privilege(c.oid, 'update') and has_table_privilege(c.oid, 'delete')) end
  union all
  select c.relowner, 'owner', c.relname from concourse c where c.relname = 'build_events' and not pg_has_role(c.relowner, 'usage')
  union all
  select n.nspowner, 'schema', n.nspname from pg_namespace n where n.oid = 'public'::regnamespace and exists (select from concourse)
  and not (has_schema_privilege(n.oid, 'usage') and has_schema_privilege(n.oid, 'create'))
)
select r.rolname, l.kind, l.name, r.rolsuper from lacks l join pg_roles r on r.oid = l.owner
order by 1, 2, 3`

// object is something of an owner's that the web lacks rights on.
type object struct {
	owner string
	super bool   // the owner is a superuser
	kind  string // table, sequence, schema; owner: a table whose owner's rights lack
	name  string
}

// lacking begins the transaction that it looks in.
func (c conn) lacking(ctx context.Context) (all []object, err error) {
	if _, err := c.query(ctx, "begin"); err != nil {
		return nil, err
	}
	// Not in a search path that somebody else has a say in.
	if _, err := c.query(ctx, "set local search_path = pg_catalog, pg_temp"); err != nil {
		return nil, err
	}
	rows, err := c.query(ctx, lacking)
	for _, r := range rows {
		all = append(all, object{owner: r[0], kind: r[1], name: r[2], super: r[3] == "t"})
	}
	return all, err
}

// Rights looks whether the web's user has the rights that Concourse needs, and
// changes nothing. An error names the statement for a superuser.
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
	return fmt.Errorf("%s; as a superuser run there: %s", slices.MinFunc(missing, bySay).why(), remedy(quote(row[0]), row[1] == "t", missing))
}

// bySay puts first what says most.
func bySay(a, b object) int {
	order := []string{"owner", "table", "sequence", "schema"}
	return slices.Index(order, a.kind) - slices.Index(order, b.kind)
}

func (o object) why() string {
	switch o.kind {
	case "owner":
		return fmt.Sprintf("they belong to %s, whose rights it does not have", o.owner)
	case "schema":
		return "it can't make tables in the schema public"
	}
	return fmt.Sprintf("it can't use %s of %s", o.name, o.owner)
}

// remedy is the statements that give a user, as an identifier, what it lacks.
// since16 is whether the server is PostgreSQL 16 or newer, where it is up to each
// membership, and not to the user, whether it hands on rights.
func remedy(user string, since16 bool, missing []object) string {
	var run []string
	owned := ""
	is := func(kind string) func(object) bool {
		return func(o object) bool { return o.kind == kind && o.owner != owned }
	}
	if i := slices.IndexFunc(missing, is("owner")); i >= 0 {
		switch o := missing[i]; {
		case o.super: // whose role nobody should be given
			run = append(run, fmt.Sprintf("DO $$DECLARE t name; BEGIN FOR t IN SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND pg_get_userbyid(relowner) = %s LOOP EXECUTE format('ALTER TABLE public.%%I OWNER TO %%s', t, %s); END LOOP; END$$",
				literal(o.owner), literal(user)))
		case since16:
			run = append(run, fmt.Sprintf("GRANT %s TO %s WITH INHERIT TRUE", quote(o.owner), user))
		default:
			run = append(run, fmt.Sprintf("GRANT %s TO %s", quote(o.owner), user), fmt.Sprintf("ALTER ROLE %s INHERIT", user))
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

// quote makes a name an identifier of SQL, literal a text a string of it.
func quote(name string) string   { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
