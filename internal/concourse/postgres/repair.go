package postgres

import (
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"
)

// lockKey prevents two web units from repairing at once, because PostgreSQL would return an
// error to one of them. Concourse does not use this number.
const lockKey = "4993215872361270"

// grantees are the users that get the rights again: the user who logs in, and its roles
// that pass on rights to change data.
const grantees = `
select session_user::text
union
select r.rolname::text from pg_auth_members m join pg_roles r on r.oid = m.roleid join pg_roles u on u.oid = m.member
where u.rolname = session_user and r.rolname like '%\_dml'
order by 1`

// Repair restores the rights of the web's user on Concourse's existing and future tables
// and sequences, by taking the role of their owners. A server that creates users for each
// relation may leave the tables to a role with rights that a new user does not have. Repair
// does nothing if no right is missing, or if Concourse has no tables yet. granted describes
// the changes, for a log. If rights are still missing, the error has the statement for a
// superuser.
func Repair(ctx context.Context, db Config) (granted []string, err error) {
	err = connected(ctx, db, func(ctx context.Context, c conn) error {
		if granted, err = c.repair(ctx); err != nil {
			return fmt.Errorf("cannot repair the privileges in %s: %w", db.place(), err)
		}
		if granted == nil {
			return nil
		}
		return Rights(ctx, db) // a new login has the same view as Concourse
	})
	if err != nil {
		return nil, err
	}
	return granted, nil
}

// repair grants in one transaction, which a failure or a lost connection undoes. granted is
// nil if no right is missing, and empty if none could be granted.
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

// grant grants rights on an owner's objects. It returns no text if this user can't take the
// owner's role; Rights reports it afterwards.
func (c conn) grant(ctx context.Context, owner string, objects []object, to string) (string, error) {
	if _, err := c.query(ctx, "savepoint before"); err != nil {
		return "", err
	}
	if _, err := c.query(ctx, "set local role "+quote(owner)); err != nil {
		_, back := c.query(ctx, "rollback to savepoint before")
		return "", back
	}
	var tables, sequences, run []string
	owns := false
	for _, o := range objects {
		switch name := "public." + quote(o.name); o.kind {
		case "table":
			tables = append(tables, name)
		case "sequence":
			sequences = append(sequences, name)
		case "schema":
			run = append(run, "grant usage, create on schema public to session_user")
		case "owner":
			owns = !o.super // a superuser's role is not taken at each login
		}
	}
	if len(tables) > 0 {
		run = append(run, "grant select, insert, update, delete on table "+strings.Join(tables, ", ")+" to "+to)
	}
	if len(sequences) > 0 {
		run = append(run, "grant usage, select on sequence "+strings.Join(sequences, ", ")+" to "+to)
	}
	if len(tables)+len(sequences) > 0 {
		run = append(run,
			"alter default privileges in schema public grant select, insert, update, delete on tables to "+to,
			"alter default privileges in schema public grant usage, select on sequences to "+to)
	}
	text := fmt.Sprintf("%d tables and %d sequences of %s to %s", len(tables), len(sequences), owner, to)
	if owns {
		// Only the owner's rights allow tables that inherit from the owner's.
		database, err := c.one(ctx, "select current_database()::text")
		if err != nil {
			return "", err
		}
		run = append(run, "set local role none",
			fmt.Sprintf("alter role session_user in database %s set role = %s", quote(database[0]), quote(owner)))
		text += ", and its role at each login"
	}
	for _, sql := range run {
		if _, err := c.query(ctx, sql); err != nil {
			return "", err
		}
	}
	return text, nil
}

// A web's component "tracker" takes up the running builds of the database. A component runs
// only on the web with its lock, which is an advisory lock of this class (Concourse,
// atc/db/lock, LockTypeBatch) with the checksum of the component's name.
const componentLocks = 2

// trackerTime bounds the wait for the lock. The tracker holds it for one query.
const trackerTime = 10 * time.Second

// HoldTracker runs do while no web of the database takes up builds. Builds that a web
// follows already go on. The server ends the hold together with the connection, so a killed
// process leaves nothing behind. Without the lock do runs too, because the web's own error
// about its database follows.
func HoldTracker(ctx context.Context, db Config, do func(context.Context) error) error {
	if c, err := connect(ctx, db); err == nil {
		defer c.close()
		within, cancel := context.WithTimeout(ctx, trackerTime)
		_, _ = c.query(within, fmt.Sprintf("select pg_catalog.pg_advisory_lock(%d, %d)", componentLocks,
			int32(crc32.ChecksumIEEE([]byte("tracker")))))
		cancel()
	}
	return do(ctx)
}
