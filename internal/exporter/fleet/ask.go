package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/httpclient"
	"github.com/fourdollars/concourse-ci-machine/internal/base/jsonlist"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
)

const (
	// parallel is the number of workers that are asked at once. So 100 workers that do not
	// answer take 4 rounds of api.Timeout.
	parallel = 25
)

// asker asks workers for their GPUs, and webs for their waiting steps.
type asker struct{ http *http.Client }

// newAsker returns an asker that uses no proxy, follows no redirect and does not compress,
// because workers are on the network of the web.
func newAsker() *asker {
	return &asker{httpclient.New(httpclient.Options{
		Connect: 2 * time.Second, Timeout: api.Timeout, Idle: 1000, Raw: true})}
}

// get passes the body of an answer to read.
func (a *asker) get(ctx context.Context, url string, read func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return errors.New("its address is not a URL")
	}
	resp, err := a.http.Do(req)
	switch {
	case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
		return errors.New("no answer in time")
	case err != nil:
		return errors.New("no connection")
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		switch err := read(resp.Body); {
		case errors.Is(err, context.DeadlineExceeded) || isTimeout(err):
			return errors.New("no answer in time")
		case errors.Is(err, jsonlist.ErrRead):
			return jsonlist.ErrRead
		default:
			return err
		}
	default:
		return fmt.Errorf("it answers %d", resp.StatusCode)
	}
}

// each asks all URLs, some of them at once, and passes the body of answer i to read. The
// errors are in the order of the URLs.
func (a *asker) each(ctx context.Context, urls []string, read func(i int, body io.Reader) error) []error {
	errs := make([]error, len(urls))
	var all sync.WaitGroup
	turn := make(chan struct{}, parallel)
	for i, url := range urls {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			errs[i] = a.get(ctx, url, func(r io.Reader) error { return read(i, r) })
		})
	}
	all.Wait()
	return errs
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// answer holds the answer of one worker's exporter.
type answer struct {
	gpus []gpu
	err  error
}

// silentLast returns the indices of workers with GPUs. Workers that did not answer before
// come last, so that they delay no others.
func silentLast(workers []fleetfile.Worker, before map[string]seen) []int {
	var answered, silent []int
	for i, w := range workers {
		switch {
		case !w.Watched():
		case before[w.URL].err != nil:
			silent = append(silent, i)
		default:
			answered = append(answered, i)
		}
	}
	return append(answered, silent...)
}

// gpus asks all workers with GPUs, and returns their answers in the order of workers.
func (a *asker) gpus(ctx context.Context, workers []fleetfile.Worker, before map[string]seen) []answer {
	out := make([]answer, len(workers))
	order := silentLast(workers, before)
	var urls []string
	for _, i := range order {
		urls = append(urls, workers[i].URL+"/api/v1/gpus")
	}
	errs := a.each(ctx, urls, func(i int, body io.Reader) (err error) {
		out[order[i]].gpus, err = decode(body)
		return err
	})
	for i, err := range errs {
		out[order[i]].err = err
	}
	return out
}

// waiting returns the steps that wait on all webs. Without an answer of each web the result
// is an error, because a sum without one web would look complete.
func (a *asker) waiting(ctx context.Context, urls []string) (map[group]int, error) {
	all := map[group]int{}
	if len(urls) == 0 {
		return nil, errors.New("no web has metrics")
	}
	for _, url := range urls {
		err := a.get(ctx, url, func(r io.Reader) error {
			one, err := decodeWaiting(r)
			for g, n := range maps.All(one) {
				all[g] += n
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
