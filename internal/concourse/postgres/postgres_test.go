package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const password = "of the test"

// listen answers each connection; a server in its place is under tests/postgres.
func listen(t *testing.T, answer func(net.Conn)) Config {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				answer(c)
			}()
		}
	}()
	return Config{Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, User: "concourse", Password: password, Name: "concourse", SSLMode: "disable"}
}

func both(t *testing.T, ctx context.Context, db Config, want string) {
	t.Helper()
	err := Ping(ctx, db)
	require.ErrorContains(t, err, want)
	require.NotContains(t, err.Error(), password)
	granted, err := Repair(ctx, db)
	require.ErrorContains(t, err, want)
	require.NotContains(t, err.Error(), password)
	require.Empty(t, granted)
}

func TestSilentServerTimesOut(t *testing.T) {
	db := listen(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	both(t, ctx, db, "cannot reach the database concourse at 127.0.0.1:")
	both(t, ctx, db, "as user concourse: no answer in time")
}

func TestServerWithoutTLSIsRefusedIfTLSIsRequired(t *testing.T) {
	db := listen(t, func(c net.Conn) {
		c.Read(make([]byte, 8)) // SSLRequest
		c.Write([]byte("N"))
		io.Copy(io.Discard, c)
	})
	db.SSLMode = "require"
	both(t, t.Context(), db, "refused TLS")
}

func TestServerOtherThanPostgreSQLIsAnError(t *testing.T) {
	db := listen(t, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	both(t, t.Context(), db, "cannot reach the database concourse at 127.0.0.1:")
}

func TestClosedPortIsAnError(t *testing.T) {
	db := listen(t, func(net.Conn) {})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	db.Port = l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	both(t, t.Context(), db, "connection refused")
}

func TestWrongConfigurationNeedsNoServer(t *testing.T) {
	good := Config{Host: "fd00::1", Port: 5432, User: "u", Password: password, Name: "d", SSLMode: "disable"}
	for want, change := range map[string]func(*Config){
		"the database d at [fd00::1]:0 as user u: no such port": func(db *Config) { db.Port = 0 },
		"no such port": func(db *Config) { db.Port = 65536 },
		`sslmode "prefer" is none of disable, require, verify-ca and verify-full`: func(db *Config) { db.SSLMode = "prefer" },
		`sslmode "" is none of`: func(db *Config) { db.SSLMode = "" },
		"sslmode verify-full needs the certificate of a CA in PEM form":                      func(db *Config) { db.SSLMode = "verify-full" },
		"sslmode verify-ca needs the certificate of a CA in PEM form":                        func(db *Config) { db.SSLMode, db.CA = "verify-ca", "no PEM" },
		"cannot use the database d at [fd00::1]:5432 as user u: variables PG... of the envi": func(*Config) { t.Setenv("PGSERVICE", "none such") },
	} {
		db := good
		change(&db)
		both(t, t.Context(), db, want)
		t.Setenv("PGSERVICE", "")
	}
}

func TestNamesAreQuoted(t *testing.T) {
	require.Equal(t, `"relation-5"`, quote("relation-5"))
	require.Equal(t, `"a""; drop table ""x"`, quote(`a"; drop table "x`))
	require.Equal(t, `'it''s'`, literal("it's"))
}

func TestOtherErrorsStay(t *testing.T) {
	err := errors.New("something")
	require.Equal(t, err, reason(t.Context(), err))
	require.Equal(t, err, clean(err))
}
