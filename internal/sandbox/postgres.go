package sandbox

import (
	"net"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Postgres stands in for a database server that lets everybody in and in which
// nothing is: every query has an empty answer. What the charm does to a real
// one is shown where PostgreSQL can be installed.
type Postgres struct{ listener net.Listener }

// NewPostgres serves on a free port of 127.0.0.1.
func NewPostgres() (*Postgres, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answerQueries(conn)
		}
	}()
	return &Postgres{l}, nil
}

// Address is host:port.
func (p *Postgres) Address() string { return p.listener.Addr().String() }

// Close ends it.
func (p *Postgres) Close() error { return p.listener.Close() }

func answerQueries(conn net.Conn) {
	defer conn.Close()
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	ready := &pgproto3.ReadyForQuery{TxStatus: 'I'}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: 1})
	b.Send(ready)
	for b.Flush() == nil {
		msg, err := b.Receive()
		if err != nil {
			return
		}
		switch msg.(type) {
		case *pgproto3.Query:
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 0")})
			b.Send(ready)
		case *pgproto3.Parse:
			b.Send(&pgproto3.ParseComplete{})
		case *pgproto3.Bind:
			b.Send(&pgproto3.BindComplete{})
		case *pgproto3.Describe:
			b.Send(&pgproto3.NoData{})
		case *pgproto3.Execute:
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SELECT 0")})
		case *pgproto3.Sync:
			b.Send(ready)
		case *pgproto3.Terminate:
			return
		}
	}
}
