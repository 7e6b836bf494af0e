package recorder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/httpclient"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// exitTimeout bounds a request. A look waits for it.
const exitTimeout = 500 * time.Millisecond

// errNoExit reports that the worker answers and has no exit status of the container.
var errNoExit = errors.New("no exit status")

// fetchExit returns the exit status of a container's process. The worker sets this property
// when the process ends. A process that a signal ended has 128 and the signal's number: the
// worker does not keep the difference to exit 137.
func (r *Recorder) fetchExit(ctx context.Context, handle string) (*int, error) {
	worker := r.Worker
	if worker == "" {
		if !r.Root.Real() {
			return nil, errors.New("the worker is this machine's")
		}
		worker = fmt.Sprintf("http://127.0.0.1:%d", wellknown.ContainersPort)
	}
	ctx, cancel := context.WithTimeout(ctx, exitTimeout)
	defer cancel()
	const property = "/properties/garden.process-exit-status"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		worker+"/containers/"+url.PathEscape(handle)+property, nil)
	if err != nil {
		return nil, err
	}
	resp, err := httpclient.Local().Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: the worker answers %d", errNoExit, resp.StatusCode)
	}
	var answer struct{ Value string }
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&answer); err != nil {
		return nil, err
	}
	status, err := strconv.Atoi(answer.Value)
	if err != nil {
		return nil, fmt.Errorf("the worker answers with the exit status %q", answer.Value)
	}
	return &status, nil
}
