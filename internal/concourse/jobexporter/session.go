package jobexporter

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/webclient"
)

// session holds the client of a credentials file. It is for one goroutine.
type session struct {
	path   string
	now    func() time.Time
	file   []byte // the client's credentials file
	ca     []byte
	client *webclient.Client
}

func (s *session) drop() {
	if s.client != nil {
		s.client.Close()
		s.client = nil
	}
}

// load reads the credentials file, and creates a new client if the file or its ca-file
// changed. It compares the contents, because comparing times could miss a change. Without a
// valid file there is no client, because old credentials must not be used.
func (s *session) load() error {
	data, err := readSecret(s.path)
	var c login.Credentials
	if err == nil {
		c, err = login.Parse(data)
	}
	if err != nil {
		s.drop()
		return fmt.Errorf("cannot use credentials file %s: %w", s.path, err)
	}
	var ca []byte
	if c.CAFile != "" {
		if ca, err = readCA(c.CAFile); err != nil {
			s.drop()
			return fmt.Errorf("cannot use ca-file %s: %w", c.CAFile, err)
		}
	}
	if s.client != nil && bytes.Equal(data, s.file) && bytes.Equal(ca, s.ca) {
		return nil
	}
	s.drop()
	trust := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName}
	if c.CAFile != "" { // trust only its authorities, not the machine's
		if trust.RootCAs = x509.NewCertPool(); !trust.RootCAs.AppendCertsFromPEM(ca) {
			return fmt.Errorf("cannot use ca-file %s: it has no PEM certificate", c.CAFile)
		}
	}
	s.client = webclient.New(c, trust, s.now)
	s.file, s.ca = data, ca
	return nil
}

// NewGet returns a Get with the user of a credentials file. It sends no request.
func NewGet(credentials string, now func() time.Time) Get {
	return (&reader{session{path: credentials, now: now}}).get
}

// reader reads Concourse's API for pages, beside the Poller and with a separate login. It
// is for one goroutine.
type reader struct{ session }

// get requests a path and returns the body, which the caller bounds and closes.
func (r *reader) get(ctx context.Context, path string) (io.ReadCloser, error) {
	if err := r.load(); err != nil {
		return nil, err
	}
	return r.client.Open(ctx, webclient.Request{Path: path})
}
