package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// lockKey keeps two web units from repairing at once, which PostgreSQL answers
// with an error to one of them. It is any number that Concourse does not use.
const lockKey = "4993215872361270"

// lacking lists the tables and sequences that the web needs and may not use,
// with their owners: none where Concourse has made no tables yet. Of its tables
// migrations_history comes first, and auth_request when the web serves logins;
// these two count whoever owns them, others where this user may take the owner's
// role, as the schema may hold other people's. The rights that count are those of
// the current user, which some servers make another than the one who logged in.
const lacking = `
select r.rolname, c.relkind in ('r', 'p'), c.relname
from pg_class c join pg_roles r on r.oid = c.relowner
where c.relnamespace = 'public'::regnamespace
and exists (select from pg_class a where a.relnamespace = c.relnamespace and a.relname in ('auth_request', 'migrations_history') and a.relkind in ('r', 'p'))
and (c.relname in ('auth_request', 'migrations_history') or pg_has_role(session_user, c.relowner, 'member'))
and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
and case when c.relkind in ('r', 'p') then not (has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert')
  and has_table_privilege(c.oid, 'update') and has_table_privilege(c.oid, 'delete'))
  when c.relkind = 'S' then not (has_sequence_privilege(c.oid, 'usage') and has_sequence_privilege(c.oid, 'select'))
  else false end
order by 1, 2, 3`

// grantees are who gets the rights back: the user who logs in, and the roles
// that hand on rights to change data and that it is a member of.
const grantees = `
select session_user::text
union
select r.rolname::text from pg_auth_members m join pg_roles r on r.oid = m.roleid join pg_roles u on u.oid = m.member
where u.rolname = session_user and r.rolname like '%\_dml'
order by 1`

// Repair gives the web's user its rights on Concourse's tables and sequences
// back, and those on tables to come, by taking the role of their owners: a
// server that hands out users for each relation may leave the tables to a role
// whose rights a new user does not have. It does nothing where nothing lacks,
// or where Concourse has made no tables yet. granted says what, for a log. Where
// something lacks still, the error names the statement for a superuser.
func Repair(ctx context.Context, db Config) (granted []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, workTime)
	defer cancel()
	c, err := connect(ctx, db)
	if err != nil {
		return nil, err
	}
	defer c.close()
	fail := func(err error) error {
		return fmt.Errorf("cannot repair the privileges in %s: %w", db.place(), err)
	}
	if granted, err = c.repair(ctx); err != nil {
		return nil, fail(err)
	}
	if granted == nil {
		return nil, nil
	}
	// A new login sees what Concourse will see.
	again, err := connect(ctx, db)
	if err != nil {
		return nil, err
	}
	defer again.close()
	missing, err := again.lacking(ctx)
	if err != nil {
		return nil, fail(err)
	}
	if len(missing) > 0 {
		return nil, fail(fmt.Errorf("it can't use %s of %s; as a superuser run there: %s", missing[0].name, missing[0].owner, remedy(db.User)))
	}
	return granted, nil
}

func remedy(user string) string {
	return fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO %[1]s; GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO %[1]s;", quote(user))
}

// object is a table or a sequence.
type object struct {
	owner string
	table bool
	name  string
}

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
		all = append(all, object{r[0], r[1] == "t", r[2]})
	}
	return all, err
}

// repair grants in one transaction, which a failure or a lost connection undoes.
// granted is nil where nothing lacks, and empty where nothing could be done.
func (c conn) repair(ctx context.Context) (granted []string, err error) {
	missing, err := c.lacking(ctx)
	if err != nil || len(missing) == 0 {
		return nil, err
	}
	if _, err := c.query(ctx, "select pg_advisory_xact_lock($1)", lockKey); err != nil {
		return nil, err
	}
	rows, err := c.query(ctx, grantees)
	if err != nil {
		return nil, err
	}
	granted = []string{}
	var to []string
	for _, r := range rows {
		to = append(to, quote(r[0]))
	}
	for rest := missing; len(rest) > 0; {
		owner := rest[0].owner
		n := slices.IndexFunc(rest, func(o object) bool { return o.owner != owner })
		if n < 0 {
			n = len(rest)
		}
		text, err := c.grant(ctx, owner, rest[:n], strings.Join(to, ", "))
		if err != nil {
			return nil, err
		}
		if text != "" {
			granted = append(granted, text)
		}
		rest = rest[n:]
	}
	_, err = c.query(ctx, "commit")
	return granted, err
}

// grant grants what an owner has. Whose role this user can't take is left out,
// with no text: the look afterwards tells.
func (c conn) grant(ctx context.Context, owner string, objects []object, to string) (string, error) {
	if _, err := c.query(ctx, "savepoint before"); err != nil {
		return "", err
	}
	if _, err := c.query(ctx, "set local role "+quote(owner)); err != nil {
		_, back := c.query(ctx, "rollback to savepoint before")
		return "", back
	}
	var tables, sequences []string
	for _, o := range objects {
		name := "public." + quote(o.name)
		if o.table {
			tables = append(tables, name)
		} else {
			sequences = append(sequences, name)
		}
	}
	var run []string
	if len(tables) > 0 {
		run = append(run, "grant select, insert, update, delete on table "+strings.Join(tables, ", ")+" to "+to)
	}
	if len(sequences) > 0 {
		run = append(run, "grant usage, select on sequence "+strings.Join(sequences, ", ")+" to "+to)
	}
	run = append(run,
		"alter default privileges in schema public grant select, insert, update, delete on tables to "+to,
		"alter default privileges in schema public grant usage, select on sequences to "+to)
	for _, sql := range run {
		if _, err := c.query(ctx, sql); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d tables and %d sequences of %s to %s", len(tables), len(sequences), owner, to), nil
}

// quote makes a name an identifier of SQL.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
