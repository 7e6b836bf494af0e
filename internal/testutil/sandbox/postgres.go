package sandbox

import (
	"net"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Postgres simulates a database server. It accepts every login, is not a replica and is
// empty, so all other queries have empty answers. Tests of the charm with a real server
// need an installed PostgreSQL.
type Postgres struct {
	listener net.Listener
	refuse   atomic.Bool
}

// Refuse makes the server refuse every password, or accept it again.
func (p *Postgres) Refuse(refuse bool) { p.refuse.Store(refuse) }

// NewPostgres serves on a free port of 127.0.0.1.
func NewPostgres() (*Postgres, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Postgres{listener: l}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go p.answer(conn)
		}
	}()
	return p, nil
}

// Address returns host:port.
func (p *Postgres) Address() string { return p.listener.Addr().String() }

// Close stops the server.
func (p *Postgres) Close() error { return p.listener.Close() }

func (p *Postgres) answer(conn net.Conn) {
	defer conn.Close()
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	ready := &pgproto3.ReadyForQuery{TxStatus: 'I'}
	recovery := false // the query asks whether the server is a replica
	if p.refuse.Load() {
		b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "password authentication failed"})
		b.Flush() // an error means that the client has left
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	b.Send(ready)
	for b.Flush() == nil {
		msg, err := b.Receive()
		if err != nil {
			return
		}
		switch msg := msg.(type) {
		case *pgproto3.Query:
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 0")})
			b.Send(ready)
		case *pgproto3.Parse:
			recovery = strings.Contains(msg.Query, "pg_is_in_recovery")
			b.Send(&pgproto3.ParseComplete{})
		case *pgproto3.Bind:
			b.Send(&pgproto3.BindComplete{})
		case *pgproto3.Describe:
			if recovery {
				b.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("pg_is_in_recovery"), DataTypeOID: 16, DataTypeSize: 1, TypeModifier: -1}}})
				continue
			}
			b.Send(&pgproto3.NoData{})
		case *pgproto3.Execute:
			if recovery {
				b.Send(&pgproto3.DataRow{Values: [][]byte{[]byte("f")}})
			}
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 0")})
		case *pgproto3.Sync:
			b.Send(ready)
		case *pgproto3.Terminate:
			return
		}
	}
}
