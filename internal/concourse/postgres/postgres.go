// Package postgres checks whether a PostgreSQL server accepts the web's user, and restores
// privileges that this user has lost on Concourse's tables. It never creates, changes or
// reads a table. It reads nothing from the environment, and no error has a password in it.
package postgres

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Each connection and its work must end within these times, whatever the caller's context.
const (
	connectTime = 10 * time.Second
	workTime    = 60 * time.Second
)

// Config describes a database and its user.
type Config struct {
	Host     string // a name or an address; IPv6 without brackets
	Port     int
	User     string
	Password string
	Name     string // of the database
	SSLMode  string // disable, require, verify-ca or verify-full, as in Concourse
	CA       string // PEM; required by the two that verify
}

func (db Config) place() string {
	return fmt.Sprintf("the database %s at %s as user %s", db.Name,
		net.JoinHostPort(db.Host, strconv.Itoa(db.Port)), db.User)
}

// Ping logs in and checks that the server accepts writes. An error names the part that
// fails: the connection, TLS, the login or the database.
func Ping(ctx context.Context, db Config) error {
	return connected(ctx, db, func(ctx context.Context, c conn) error {
		row, err := c.one(ctx, "select pg_catalog.pg_is_in_recovery()")
		if err != nil {
			return fmt.Errorf("cannot use %s: %w", db.place(), err)
		}
		if row[0] == "t" {
			return fmt.Errorf("cannot use %s: that server is a replica, which takes no writes", db.place())
		}
		return nil
	})
}

// connected runs do with a connection, and closes it.
func connected(ctx context.Context, db Config, do func(context.Context, conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, workTime)
	defer cancel()
	c, err := connect(ctx, db)
	if err != nil {
		return err
	}
	defer c.close()
	return do(ctx, c)
}

type conn struct{ *pgconn.PgConn }

func connect(ctx context.Context, db Config) (conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	if db.Port < 1 || db.Port > 65535 {
		return conn{}, fmt.Errorf("cannot use %s: no such port", db.place())
	}
	encryption, err := db.tls()
	if err != nil {
		return conn{}, fmt.Errorf("cannot use %s: %w", db.place(), err)
	}
	// Only the parser returns a configuration, and it reads variables such as PGHOST. So
	// all fields that identify the server are set afterwards, and the password does not go
	// through the parser.
	c, err := pgconn.ParseConfig("host=localhost sslmode=disable target_session_attrs=any")
	if err != nil {
		return conn{}, fmt.Errorf("cannot use %s: variables PG... of the environment are in the way", db.place())
	}
	c.Host, c.Port, c.User, c.Password, c.Database = db.Host, uint16(db.Port), db.User, db.Password, db.Name
	c.TLSConfig, c.SSLNegotiation, c.Fallbacks, c.KerberosSrvName, c.KerberosSpn = encryption, "", nil, "", ""
	// No other parameters, because a PgBouncer in between refuses those that it can't keep.
	c.RuntimeParams = map[string]string{"application_name": "concourse-ci-machine"}
	p, err := pgconn.ConnectConfig(ctx, c)
	if err != nil {
		return conn{}, fmt.Errorf("cannot reach %s: %w", db.place(), reason(ctx, err))
	}
	return conn{p}, nil
}

// reason shortens the error of a connection. The driver's text repeats the address for each
// attempt.
func reason(ctx context.Context, err error) error {
	var refused *pgconn.PgError
	var name x509.HostnameError
	var authority x509.UnknownAuthorityError
	var network *net.OpError
	switch {
	case errors.As(err, &refused) && refused.Code == "28P01":
		return errors.New("the server refuses the password")
	case errors.As(err, &refused):
		return fmt.Errorf("%s (SQLSTATE %s)", refused.Message, refused.Code)
	case errors.As(err, &name):
		return fmt.Errorf("the server's certificate is another host's: %w", name)
	case errors.As(err, &authority):
		return errors.New("the server's certificate is not signed by the CA that the relation gave")
	case ctx.Err() != nil:
		return errors.New("no answer in time")
	case errors.As(err, &network):
		return network
	}
	if inner, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return inner.Unwrap()
	}
	return err
}

func (c conn) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	c.Close(ctx) // the server's answer no longer matters
}

// query runs one statement. Its rows are text, with "" for null.
func (c conn) query(ctx context.Context, sql string, args ...string) ([][]string, error) {
	values := make([][]byte, len(args))
	for i, a := range args {
		values[i] = []byte(a)
	}
	result := c.ExecParams(ctx, sql, values, nil, nil, nil).Read()
	if result.Err != nil {
		return nil, clean(result.Err)
	}
	rows := make([][]string, len(result.Rows))
	for i, row := range result.Rows {
		for _, cell := range row {
			rows[i] = append(rows[i], string(cell))
		}
	}
	return rows, nil
}

// one returns the only row of a statement.
func (c conn) one(ctx context.Context, sql string) ([]string, error) {
	rows, err := c.query(ctx, sql)
	if err != nil {
		return nil, err
	}
	if len(rows) != 1 || len(rows[0]) == 0 {
		return nil, errors.New("it does not answer as PostgreSQL does")
	}
	return rows[0], nil
}

// clean returns an error without the driver's prefix.
func clean(err error) error {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return fmt.Errorf("%s (SQLSTATE %s)", refused.Message, refused.Code)
	}
	return err
}

// tls returns the configuration for an sslmode, as in libpq.
func (db Config) tls() (*tls.Config, error) {
	switch db.SSLMode {
	case "disable":
		return nil, nil
	case "require":
		return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, nil
	case "verify-ca", "verify-full":
	default:
		return nil, fmt.Errorf("sslmode %.40q is none of disable, require, verify-ca and verify-full", db.SSLMode)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(db.CA)) {
		return nil, fmt.Errorf("sslmode %s needs the certificate of a CA in PEM form", db.SSLMode)
	}
	if db.SSLMode == "verify-full" {
		return &tls.Config{RootCAs: roots, ServerName: db.Host, MinVersion: tls.VersionTLS12}, nil
	}
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12,
		VerifyConnection: func(s tls.ConnectionState) error {
			// Only the name is not verified.
			between := x509.NewCertPool()
			for _, c := range s.PeerCertificates[1:] {
				between.AddCert(c)
			}
			_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
			return err
		}}, nil
}
