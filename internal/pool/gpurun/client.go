package gpurun

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
)

// Client requests GPUs from the lease service.
type Client struct {
	Socket string
	Limit  time.Duration     // of the wait; negative for none
	Waits  func(text string) // called with why the request waits, every minute
}

// End reports the exit status of the command and closes the connection.
func (h *Held) End(status int) {
	if data, err := json.Marshal(Status{&status}); err == nil {
		_, _ = h.Write(append(data, '\n')) // a service that ended does not need it
	}
	h.Close()
}

// Explain returns the record of the run that this process is part of, see Request.Explain.
func (c Client) Explain(run string, json bool) (string, error) {
	w := &wait{Client: c, began: time.Now()}
	conn, err := w.dial()
	if err != nil {
		return "", err
	}
	if _, lost, err := w.request(conn, Request{Version: version, Explain: run, JSON: json}); lost || err != nil {
		return "", cmp.Or(err, errors.New("cannot explain "+run+": the lease service ended; repeat it"))
	}
	return w.explained, nil
}

// restart is how long a client of a service that ended waits for the next one, and how long
// the next one accepts times that clients have waited before.
const restart = 10 * time.Second

// maxReply bounds an answer of the service.
const maxReply = 1 << 20

// Held is a lease of this process. Its connection shows the service that the process lives.
type Held struct {
	Grant
	net.Conn
}

// Lease waits for the GPUs of a request. If the service is restarted, it asks again and
// keeps its place.
func (c Client) Lease(r Request) (*Held, error) {
	r.Version, r.NoWait = version, c.Limit == 0
	w := &wait{Client: c, began: time.Now()}
	for {
		conn, err := w.dial()
		if err != nil {
			return nil, err
		}
		r.Waited = time.Since(w.began).Milliseconds()
		h, lost, err := w.request(conn, r)
		if h != nil || !lost {
			return h, err
		}
		w.lost = time.Now()
		time.Sleep(retry / 5)
	}
}

// wait holds one wait for GPUs, with several services if they are restarted.
type wait struct {
	Client
	began, lost time.Time
	why         string
	explained   string
}

// dial connects to the service. After one has ended it waits for the next.
func (w *wait) dial() (net.Conn, error) {
	for {
		conn, err := net.Dial("unix", w.Socket)
		switch {
		case err == nil:
			return conn, nil
		case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
			return nil, fmt.Errorf("cannot lease GPUs: you may not use %s; run: sudo usermod -aG render $USER, then "+
				"log in again", w.Socket)
		case !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.EAGAIN):
			return nil, fmt.Errorf("cannot lease GPUs: %w", err)
		case !errors.Is(err, unix.EAGAIN) && (w.lost.IsZero() || time.Since(w.lost) > restart):
			return nil, errors.New("cannot lease GPUs: the lease service is not running; run: sudo systemctl start " +
				"gpukit-run.socket")
		case w.Limit >= 0 && time.Since(w.began) > w.Limit:
			return nil, w.timeout()
		}
		time.Sleep(retry / 5)
	}
}

func (w *wait) timeout() error {
	if w.why == "" {
		w.why = "cannot lease GPUs: none became free"
	}
	return fmt.Errorf("%s; waited %s", w.why, units.Duration(w.Limit))
}

// request sends a request and reads answers until the last one. lost reports that the
// service ended before.
func (w *wait) request(conn net.Conn, r Request) (h *Held, lost bool, err error) {
	defer func() {
		if h == nil {
			conn.Close()
		}
	}()
	if w.Limit > 0 {
		_ = conn.SetReadDeadline(w.began.Add(w.Limit))
	}
	data, err := json.Marshal(r)
	if err != nil {
		return nil, false, err
	}
	if _, err := conn.Write(append(data, '\n')); err != nil {
		return nil, true, nil
	}
	lines := bufio.NewScanner(conn)
	lines.Buffer(nil, maxReply)
	for lines.Scan() {
		var reply Reply
		if err := json.Unmarshal(lines.Bytes(), &reply); err != nil {
			return nil, false, fmt.Errorf("cannot read the answer of the lease service: %w", err)
		}
		switch {
		case reply.Granted != nil:
			_ = conn.SetReadDeadline(time.Time{})
			return &Held{*reply.Granted, conn}, false, nil
		case reply.Explained != "":
			w.explained = reply.Explained
			return nil, false, nil
		case reply.Refused != "":
			return nil, false, errors.New(reply.Refused)
		}
		w.why = reply.Waiting
		w.Waits(reply.Waiting)
	}
	if errors.Is(lines.Err(), os.ErrDeadlineExceeded) {
		return nil, false, w.timeout()
	}
	return nil, true, nil
}
