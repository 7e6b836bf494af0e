package jobexporter

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

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

// readSecret reads a small file that only its owner can access. The owner must be root or
// the user of this process, because any other owner could change it.
func readSecret(path string) ([]byte, error) {
	// O_NONBLOCK, because a FIFO in its place must not block the program.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, pathless(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, pathless(err)
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	if mode := st.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("its mode is %#o, so others than its owner may use it; run: chmod 0600 %s", mode, path)
	}
	if owner := st.Sys().(*syscall.Stat_t).Uid; owner != 0 && int(owner) != os.Geteuid() {
		return nil, fmt.Errorf("it belongs to user %d, and this program runs as user %d", owner, os.Geteuid())
	}
	return readSome(f, maxFile)
}

// readCA reads a ca-file, which is public.
func readCA(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, pathless(err)
	}
	defer f.Close()
	return readSome(f, maxCA)
}

func readSome(f *os.File, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, pathless(err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("it has more than %d bytes", limit)
	}
	return data, nil
}

// pathless removes the path from an error, because the caller adds it.
func pathless(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
