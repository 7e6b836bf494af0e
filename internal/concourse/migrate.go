package concourse

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// DatabaseVersions asks a release (a folder of release.Dir, or release.Link) for the
// version of the database's schema, and for the newest version that it supports. current is
// 0 for a database that no web has used. env may have more variables (the encryption keys),
// as WebConfig.Env returns them. A starting web migrates up to supported, never down.
func DatabaseVersions(ctx context.Context, h host.Host, release string, db WebDatabase,
	env map[string]string) (current, supported int, err error) {
	m := migration{h, release, db, env}
	if supported, err = m.number(ctx, "--supported-db-version"); err != nil {
		return 0, 0, fmt.Errorf("cannot ask %s for the database version it supports: %w", release, err)
	}
	current, err = m.number(ctx, "--current-db-version")
	if cmd, ok := errors.AsType[*host.CommandError](err); ok && strings.Contains(cmd.Stderr, noHistory) {
		return 0, supported, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("cannot read the version of the database: %w", err)
	}
	return current, supported, nil
}

// CanUse reports whether a release can use the database as it is. supported is the newest
// schema version of that release. inUse is the current release, "" if there is none.
//
// A release that lacks an undone migration takes it for done, because the last entry of the
// history names that migration. So CanUse asks the current release, too. A release with all
// migrations of the current one can use the database in any case.
func CanUse(ctx context.Context, h host.Host, release, inUse string, db WebDatabase,
	env map[string]string) (can bool, supported int, err error) {
	current, supported, err := DatabaseVersions(ctx, h, release, db, env)
	if err != nil || current <= supported || inUse == "" {
		return err == nil && current <= supported, supported, err
	}
	current, known, err := DatabaseVersions(ctx, h, inUse, db, env)
	return err == nil && (current <= supported || known <= supported), supported, err
}

// noHistory is PostgreSQL's error if the table of versions is missing.
const noHistory = `relation "migrations_history" does not exist`

// Migrate migrates the database's schema to a version of this release, up or down, and
// checks the result. No web may run at the same time. A migration down loses the data that
// only the newer version stores, so a backup is needed. Only a release with both versions
// can do it.
func Migrate(ctx context.Context, h host.Host, release string, db WebDatabase, env map[string]string, to int) error {
	current, supported, err := DatabaseVersions(ctx, h, release, db, env)
	if err != nil {
		return err
	}
	if err := CanMigrate(current, supported, to); err != nil || current == to {
		return err
	}
	m := migration{h, release, db, env}
	if _, err := m.run(ctx, "--migrate-db-to-version="+strconv.Itoa(to)); err != nil {
		return fmt.Errorf("cannot migrate the database from version %d to %d: %w", current, to, err)
	}
	if current, err = m.number(ctx, "--current-db-version"); err != nil {
		return fmt.Errorf("cannot read the version of the database: %w", err)
	}
	if current != to {
		return fmt.Errorf("cannot migrate the database to version %d: "+
			"it is at %d now, as no migration has that number", to, current)
	}
	return nil
}

// CanMigrate returns why a release can't migrate a database from its current version to
// another. Concourse itself reports success for a version that it lacks.
func CanMigrate(current, supported, to int) error {
	if to <= 0 || to > supported {
		return fmt.Errorf("cannot migrate the database to version %d: "+
			"this release knows none above %d; current is %d", to, supported, current)
	}
	if current > supported {
		return fmt.Errorf("cannot migrate the database from version %d: "+
			"this release knows none above %d; use the release that made it", current, supported)
	}
	return nil
}

// migrationLimit bounds a migration of a large database. A query takes at most askLimit.
// Concourse itself waits 5 minutes for a connection.
const (
	migrationLimit = time.Hour
	askLimit       = 30 * time.Second
)

type migration struct {
	h       host.Host
	release string
	db      WebDatabase
	env     map[string]string
}

// number runs a query. The answer is the last word of its output.
func (m migration) number(ctx context.Context, flag string) (int, error) {
	out, err := m.query(ctx, flag)
	if err != nil {
		return 0, err
	}
	lines := strings.Fields(string(out))
	if len(lines) == 0 {
		return 0, errors.New("it prints nothing")
	}
	n, err := strconv.Atoi(lines[len(lines)-1])
	if err != nil {
		return 0, fmt.Errorf("%.100q is not a version", lines[len(lines)-1])
	}
	return n, nil
}

// query runs a command that changes nothing.
func (m migration) query(ctx context.Context, flag string) ([]byte, error) {
	return m.command(ctx, host.Command{Argv: []string{flag}, ReadOnly: true, Deadline: askLimit})
}

func (m migration) run(ctx context.Context, flag string) ([]byte, error) {
	return m.command(ctx, host.Command{Argv: []string{flag}, Deadline: migrationLimit})
}

// command runs concourse migrate. It passes the password and the encryption keys in the
// environment, and removes them from the command's output.
func (m migration) command(ctx context.Context, c host.Command) ([]byte, error) {
	env := map[string]string{"CONCOURSE_POSTGRES_CONNECT_TIMEOUT": "10s"}
	var secrets []string
	for _, from := range []map[string]string{m.env, databaseVariables.env(m.db)} {
		for key, value := range from {
			if value != "" && migrates(key) {
				env[key] = value
				if strings.HasSuffix(key, "_PASSWORD") || strings.Contains(key, "ENCRYPTION_KEY") {
					secrets = append(secrets, value)
				}
			}
		}
	}
	c.Argv = append([]string{m.h.Path(path.Join(m.release, "bin", "concourse")), "migrate"}, c.Argv...)
	for _, key := range slices.Sorted(maps.Keys(env)) {
		c.Env = append(c.Env, key+"="+env[key])
	}
	out, err := m.h.Run(ctx, c)
	if cmd, ok := errors.AsType[*host.CommandError](err); ok {
		for _, s := range secrets {
			cmd.Stderr = strings.ReplaceAll(cmd.Stderr, s, "***")
		}
	}
	return out, err
}

// migrates reports whether the variable is one of `concourse migrate`.
func migrates(key string) bool {
	return strings.HasPrefix(key, "CONCOURSE_POSTGRES_") ||
		strings.HasPrefix(key, "CONCOURSE_ENCRYPTION_KEY") || strings.HasPrefix(key, "CONCOURSE_OLD_ENCRYPTION_KEY")
}
