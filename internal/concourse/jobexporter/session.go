package jobexporter

import (
	"bytes"
	"context"
	"io"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter/login"
)

// session holds the client of a credentials file. It is for one goroutine.
type session struct {
	path   string
	now    func() time.Time
	file   []byte // the client's credentials file
	ca     []byte
	client *client
}

func (s *session) drop() {
	if s.client != nil {
		s.client.close()
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
		return fail(resultCredentials, "cannot use credentials file %s: %w", s.path, err)
	}
	var ca []byte
	if c.CAFile != "" {
		if ca, err = readCA(c.CAFile); err != nil {
			s.drop()
			return fail(resultCredentials, "cannot use ca-file %s: %w", c.CAFile, err)
		}
	}
	if s.client != nil && bytes.Equal(data, s.file) && bytes.Equal(ca, s.ca) {
		return nil
	}
	s.drop()
	if s.client, err = newClient(c, ca, s.now); err != nil {
		s.client = nil
		return &failure{resultCredentials, err}
	}
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
	resp, err := r.client.get(ctx, path)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
