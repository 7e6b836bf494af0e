package usagereport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/httpclient"
)

const (
	timeout   = 30 * time.Second // of one query
	maxAnswer = 16 << 20         // bytes
)

// sample holds one series of an answer.
type sample struct {
	Metric map[string]string `json:"metric"`
	Value  value             `json:"value"`
}

func (s sample) key() key { return key{s.Metric["team"], s.Metric["pipeline"], s.Metric["job_name"]} }

// key identifies a row: a pipeline, or one of its jobs.
type key struct{ team, pipeline, job string }

// number returns the value, or 0 if it is not a number, so that it does not change a sum.
func (s sample) number() float64 {
	n := float64(s.Value)
	if math.IsNaN(n) || math.IsInf(n, 0) || n < 0 {
		return 0
	}
	return n
}

// value decodes Prometheus' [time, "number"].
type value float64

func (v *value) UnmarshalJSON(data []byte) error {
	var pair []any
	if err := json.Unmarshal(data, &pair); err != nil || len(pair) != 2 {
		return errors.New("a value is not a pair of a time and a number")
	}
	text, _ := pair[1].(string)
	n, err := strconv.ParseFloat(text, 64)
	*v = value(n)
	return err
}

// query runs an instant query of Prometheus' HTTP API.
func query(ctx context.Context, prometheus, expr string, at time.Time) ([]sample, error) {
	q := url.Values{"query": {expr}, "time": {strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, prometheus+"/api/v1/query?"+q.Encode(), nil)
	if err != nil {
		return nil, fmt.Errorf("cannot ask %s: %w", prometheus, err)
	}
	client := httpclient.New(httpclient.Options{
		Proxy: http.ProxyFromEnvironment, Redirect: httpclient.Follow, Timeout: timeout})
	resp, err := client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the query
		}
		return nil, fmt.Errorf("cannot reach %s: %w; is prometheus-url right?", prometheus, err)
	}
	defer resp.Body.Close()
	got, err := decode(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case resp.StatusCode != http.StatusOK && err == nil:
		err = errors.New(resp.Status)
	case resp.StatusCode != http.StatusOK:
		err = fmt.Errorf("%s: %w", resp.Status, err)
	}
	if err != nil {
		return nil, fmt.Errorf(
			"cannot use the answer of %s: %w; check that prometheus-url is a Prometheus", prometheus, err,
		)
	}
	return got, nil
}

// decode decodes the answer to an instant query.
func decode(r io.Reader) ([]sample, error) {
	var answer struct {
		Status, Error string
		Data          struct {
			Type   string   `json:"resultType"`
			Result []sample `json:"result"`
		}
	}
	if err := json.NewDecoder(r).Decode(&answer); err != nil {
		return nil, errors.New("it is not an answer to a query")
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("it reports %.200q", answer.Error)
	}
	if answer.Data.Type != "vector" {
		return nil, errors.New("it is not a vector")
	}
	return answer.Data.Result, nil
}
