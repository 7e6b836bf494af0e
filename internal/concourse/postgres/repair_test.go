package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"
)

// server answers as PostgreSQL would: it has rows for statements that begin with a text, and
// refuses some. Real servers are in tests/postgres.
type server struct {
	rows    map[string][][]string
	refuses string
	ran     []string // statements, in order
}

func (s *server) serve(c net.Conn) {
	b := pgproto3.NewBackend(c, c)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	failed := false
	for b.Flush() == nil {
		m, err := b.Receive()
		if err != nil {
			return
		}
		switch m := m.(type) {
		case *pgproto3.Parse:
			failed = s.refuses != "" && strings.HasPrefix(m.Query, s.refuses)
			s.ran = append(s.ran, m.Query)
			if failed {
				b.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: "42501", Message: "permission denied"})
				continue
			}
			b.Send(&pgproto3.ParseComplete{})
		case *pgproto3.Bind:
			if !failed {
				b.Send(&pgproto3.BindComplete{})
			}
		case *pgproto3.Describe:
			if !failed {
				b.Send(&pgproto3.RowDescription{})
			}
		case *pgproto3.Execute:
			if failed {
				continue
			}
			for _, row := range s.answer(s.ran[len(s.ran)-1]) {
				var values [][]byte
				for _, v := range row {
					values = append(values, []byte(v))
				}
				b.Send(&pgproto3.DataRow{Values: values})
			}
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 0")})
		case *pgproto3.Sync:
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		}
	}
}

func (s *server) answer(sql string) [][]string {
	for prefix, rows := range s.rows {
		if strings.HasPrefix(strings.TrimSpace(sql), prefix) {
			return rows
		}
	}
	return nil
}

// granting returns the statements that change rights.
func (s *server) granting() (all []string) {
	for _, sql := range s.ran {
		if strings.HasPrefix(sql, "grant") || strings.HasPrefix(sql, "alter") || strings.HasPrefix(sql, "set local role") ||
			strings.HasPrefix(sql, "commit") || strings.HasPrefix(sql, "rollback") {
			all = append(all, sql)
		}
	}
	return all
}

// A server makes a user for each relation, and the tables belong to the role of another user.
func TestRightsAreTakenFromTheOwners(t *testing.T) {
	const to = `"app_dml", "relation-5"`
	tables := `grant select, insert, update, delete on table %s to ` + to
	future := []string{`alter default privileges in schema public grant select, insert, update, delete on tables to ` + to,
		`alter default privileges in schema public grant usage, select on sequences to ` + to}
	for name, c := range map[string]struct {
		lacking [][]string // owner, kind, name, superuser
		refuses string
		ran     []string
		granted []string
	}{
		"nothing": {},
		"tables": {[][]string{{"admin", "table", "builds", "f"}, {"admin", "table", `odd"name`, "f"}}, "",
			[]string{`set local role "admin"`, fmt.Sprintf(tables, `public."builds", public."odd""name"`), future[0], future[1], "commit"},
			[]string{"2 tables and 0 sequences of admin to " + to}},
		"a sequence": {[][]string{{"admin", "sequence", "builds_id_seq", "f"}}, "",
			[]string{`set local role "admin"`, `grant usage, select on sequence public."builds_id_seq" to ` + to, future[0], future[1], "commit"},
			[]string{"0 tables and 1 sequences of admin to " + to}},
		"two owners": {[][]string{{"a", "table", "jobs", "f"}, {"b", "schema", "public", "f"}}, "",
			[]string{`set local role "a"`, fmt.Sprintf(tables, `public."jobs"`), future[0], future[1],
				`set local role "b"`, "grant usage, create on schema public to session_user", "commit"},
			[]string{"1 tables and 0 sequences of a to " + to, "0 tables and 0 sequences of b to " + to}},
		"rights of the owner": {[][]string{{"admin", "owner", "build_events", "f"}}, "",
			[]string{`set local role "admin"`, "set local role none", `alter role session_user in database "ci" set role = "admin"`, "commit"},
			[]string{"0 tables and 0 sequences of admin to " + to + ", and its role at each login"}},
		"a superuser's role is not taken": {[][]string{{"postgres", "owner", "build_events", "t"}}, "",
			[]string{`set local role "postgres"`, "commit"}, []string{"0 tables and 0 sequences of postgres to " + to}},
		"a role that cannot be taken": {[][]string{{"admin", "table", "builds", "f"}}, `set local role "admin"`,
			[]string{`set local role "admin"`, "rollback to savepoint before", "commit"}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{refuses: c.refuses, rows: map[string][][]string{
				"with concourse as":        c.lacking,
				"select session_user":      {{"app_dml"}, {"relation-5"}},
				"select current_database":  {{"ci"}},
				"select pg_advisory_xact":  {{""}},
				"select current_user::tex": {{"relation-5", "t"}},
			}}
			conn, err := connect(t.Context(), listen(t, s.serve))
			require.NoError(t, err)
			defer conn.close()
			granted, err := conn.repair(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.granted, granted)
			require.Equal(t, c.ran, s.granting())
		})
	}
}

// The rights are checked again after a repair. What is left is a superuser's work.
func TestMissingRightsNameTheStatement(t *testing.T) {
	lacks := [][]string{{"admin", "table", "builds", "f"}}
	s := &server{refuses: `set local role "admin"`, rows: map[string][][]string{"with concourse as": lacks,
		"select session_user": {{"ci"}}, "select current_user": {{"ci", "t"}}}}
	db := listen(t, s.serve)
	_, err := Repair(t.Context(), db)
	require.ErrorContains(t, err, `it can't use builds of admin; as a superuser run there: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "ci"`)
	require.ErrorContains(t, err, "cannot use Concourse's tables in the database concourse at 127.0.0.1:")

	s.rows["with concourse as"] = nil
	require.NoError(t, Rights(t.Context(), db))
	granted, err := Repair(t.Context(), db)
	require.NoError(t, err)
	require.Nil(t, granted, "nothing was missing")

	s.rows["with concourse as"], s.refuses = lacks, "select pg_advisory"
	_, err = Repair(t.Context(), db)
	require.ErrorContains(t, err, "cannot repair the privileges in the database concourse at 127.0.0.1:")
	require.ErrorContains(t, err, "permission denied (SQLSTATE 42501)")
	s.rows["select current_user"] = nil
	require.ErrorContains(t, Rights(t.Context(), db), "it does not answer as PostgreSQL does")
}

func TestServerMustTakeWrites(t *testing.T) {
	for answer, want := range map[string]string{"f": "", "t": "that server is a replica, which takes no writes"} {
		s := &server{rows: map[string][][]string{"select pg_catalog.pg_is_in_recovery()": {{answer}}}}
		err := Ping(t.Context(), listen(t, s.serve))
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
	s := &server{rows: map[string][][]string{"select": {{"f"}, {"f"}}}}
	require.ErrorContains(t, Ping(t.Context(), listen(t, s.serve)), "it does not answer as PostgreSQL does")
}

// The lock's number is Concourse's: 2, and CRC-32 of the component's name.
func TestNoWebTakesUpBuildsDuringAHold(t *testing.T) {
	s := &server{}
	db, broken := listen(t, s.serve), errors.New("broken")
	err := HoldTracker(t.Context(), db, func(context.Context) error {
		require.Equal(t, []string{"select pg_catalog.pg_advisory_lock(2, -1402787153)"}, s.ran)
		return broken
	})
	require.Equal(t, broken, err)
	db.Port = 0
	require.Equal(t, broken, HoldTracker(t.Context(), db, func(context.Context) error { return broken }), "also without the lock")
}
