// Package garden reads the exit status of a task from Concourse's worker on this machine. It
// changes nothing there.
package garden

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/fourdollars/concourse-ci-machine/internal/base/httpclient"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// ErrNoExit reports that the worker answers and has no exit status of the container.
var ErrNoExit = errors.New("no exit status")

// ExitStatus returns the exit status of a container's process. The worker at the URL, ""
// for this machine's, sets this property when the process ends (Concourse, worker/runtime).
// A process that a signal ended has 128 and the signal's number: the worker does not keep
// the difference to exit 137.
func ExitStatus(ctx context.Context, worker, handle string) (int, error) {
	worker = cmp.Or(worker, fmt.Sprintf("http://127.0.0.1:%d", wellknown.ContainersPort))
	code, data, err := httpclient.Get(ctx, worker+"/containers/"+url.PathEscape(handle)+
		"/properties/garden.process-exit-status", 64<<10)
	switch {
	case err != nil:
		return 0, err
	case code != http.StatusOK:
		return 0, fmt.Errorf("%w: the worker answers %d", ErrNoExit, code)
	}
	var property struct{ Value string }
	if err := json.Unmarshal(data, &property); err != nil {
		return 0, err
	}
	status, err := strconv.Atoi(property.Value)
	if err != nil {
		return 0, fmt.Errorf("the worker answers with the exit status %q", property.Value)
	}
	return status, nil
}
