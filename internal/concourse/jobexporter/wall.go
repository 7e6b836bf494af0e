package jobexporter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/metricsserver"
	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/webclient"
)

const (
	wallPath = "/api/v1/wall"
	// wallLife is the shortest time after which Concourse removes the text by itself, if
	// this program no longer runs.
	wallLife    = 10 * time.Minute
	maxWallText = 200 // characters of another text in a message
)

// wall is Concourse's JSON of its wall. Message is "" for none. TTL is in nanoseconds, and 0
// for a text that never expires.
type wall struct {
	Message string        `json:"message"`
	TTL     time.Duration `json:"TTL"`
}

// wallRecord holds the texts that may be on the wall because of this program: the current
// one, and the one that is about to replace it.
type wallRecord struct {
	Messages []string `json:"messages"`
}

// record returns the file of the wall's texts. A damaged file has none, and a text on the
// wall is then left alone until it expires.
func (p *Poller) record() statefile.File[wallRecord] {
	return statefile.File[wallRecord]{Path: filepath.Join(p.o.StateFolder, "wall.json"), Mode: 0o600, Disposable: true}
}

// keepWall puts the wanted text on the wall, or removes it. It replaces and removes only
// texts in the record, which gets each text before the wall does. So a program that was
// killed at any point finds its own text again. It returns a line for people.
//
// Concourse has no way to compare and replace at once. A text that another user sets
// between the two requests is lost.
func (p *Poller) keepWall(ctx context.Context) (string, error) {
	want, known := "", false
	if p.o.Wall != nil {
		want, known = p.o.Wall()
	}
	switch {
	case !known:
		return "the text for Concourse's wall is unknown", nil
	case p.o.StateFolder == "" && want == "":
		return "", nil
	case p.o.StateFolder == "":
		return "", errors.New("cannot write on Concourse's wall: --state.folder is missing")
	}
	root := host.Root("/")
	own, err := p.record().Read(root)
	if err != nil {
		return "", err
	}
	const none = "Concourse's wall has no text about GPUs"
	if want == "" && len(own.Messages) == 0 {
		return none, nil
	}
	var now wall
	if err := p.client.Call(ctx, webclient.Request{Path: wallPath}, &now); err != nil {
		return "", err
	}
	mine := slices.Contains(own.Messages, now.Message)
	shown := "Concourse's wall has: " + want
	switch {
	case want == "" && mine:
		if err := p.client.Call(ctx, webclient.Request{Method: http.MethodDelete, Path: wallPath}, nil); err != nil {
			return "", err
		}
		fallthrough
	case want == "":
		return none, p.record().Write(root, wallRecord{})
	case !mine && now.Message == want: // another web of this Concourse wrote it
		return shown, nil
	case !mine && now.Message != "":
		return "", fmt.Errorf("another text is on Concourse's wall and stays: %s; remove it: fly clear-wall",
			sanitize.Line(now.Message, maxWallText))
	case now.Message == want && now.TTL > p.o.WallLife/2:
		return shown, nil
	}
	next := wallRecord{Messages: []string{want}}
	if mine && now.Message != want {
		next.Messages = append(next.Messages, now.Message)
	}
	if err := p.record().Write(root, next); err != nil {
		return "", err
	}
	put := webclient.Request{Method: http.MethodPut, Path: wallPath, Body: wall{want, p.o.WallLife}}
	return shown, p.client.Call(ctx, put, nil)
}

// noteWall keeps the result for WriteWall, and logs a new problem.
func (p *Poller) noteWall(text string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && (p.wallErr == nil || p.wallErr.Error() != err.Error()) {
		p.o.Logs.Print(err)
	}
	p.wallText, p.wallErr = text, err
}

// writeWall answers with the state of the wall: 200 if it is as it should be, otherwise 503
// with the reason.
func (p *Poller) writeWall(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.wallErr != nil:
		text := p.wallErr.Error()
		if e, ok := errors.AsType[*webclient.CallError](p.wallErr); ok {
			text = "cannot change Concourse's wall: " + reasons[e.Kind] + "; see the exporter's log"
		}
		metricsserver.WriteText(w, http.StatusServiceUnavailable, text+".\n")
	default:
		metricsserver.WriteText(w, http.StatusOK, p.wallText+".\n")
	}
}
