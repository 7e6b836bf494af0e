package driver

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// withEvidence returns a driver with two claims that have quarantined GPUs, and its log. Its API
// server answers with serve. A round is 11 seconds long.
func withEvidence(t *testing.T, serve http.HandlerFunc) (d *driver, log *bytes.Buffer, round func()) {
	t.Helper()
	r := hosttest.ManyGPUs(t, 2)
	d, log = started(t, r)
	now := hosttest.Now
	d.now = func() time.Time { return now }
	s := httptest.NewServer(serve)
	t.Cleanup(s.Close)
	d.client = kubernetes.NewForConfigOrDie(&rest.Config{Host: s.URL})
	var all []quarantine.GPU
	for i, name := range []string{gpu0, gpu1} {
		c := claimOfGPUs(types.UID(name), []string{device0, device1}[i])
		c.Name = fmt.Sprint("train-", i)
		require.NoError(t, prepared(t, d, c).Err)
		all = append(all, quarantine.GPU{Ref: quarantine.Ref{Name: name}, State: quarantine.Quarantined,
			QuarantinedBy: quarantine.ByHand, Since: now, QuarantinedSince: &now})
	}
	require.NoError(t, quarantine.RecordFile.Write(r, quarantine.Record{At: now, Policy: quarantine.Auto, GPUs: all}))
	return d, log, func() {
		now = now.Add(11 * time.Second)
		d.turn(t.Context())
		d.reportEvidence(t.Context())
	}
}

// Claims get GPUs without Events, so the first failure is only logged.
func TestClaimsGetGPUsWithoutEvents(t *testing.T) {
	d, log, round := withEvidence(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, r.URL.Path+" is forbidden", http.StatusForbidden)
	})
	for range 5 {
		round()
		require.Eventually(t, func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			return !d.sending
		}, time.Minute, time.Millisecond)
		require.Empty(t, d.Trouble())
	}
	require.Equal(t, 1, strings.Count(log.String(), "forbidden"), log.String())
	require.Empty(t, d.reported)
}

// A round does not wait for an API server that does not answer: systemd would end the driver.
func TestRoundsDoNotWaitForEvents(t *testing.T) {
	var requests atomic.Int32
	end := make(chan struct{})
	_, _, round := withEvidence(t, func(http.ResponseWriter, *http.Request) {
		requests.Add(1)
		<-end
	})
	t.Cleanup(func() { close(end) })
	for range 3 {
		round()
	}
	require.LessOrEqual(t, requests.Load(), int32(1))
}

// A claim of the same name that was made later has other pods.
func TestPodsOfALaterClaimGetNoEvent(t *testing.T) {
	var posted atomic.Int32
	d, _, round := withEvidence(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			posted.Add(1)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"uid":"later"},
			"status":{"reservedFor":[{"resource":"pods","name":"p","uid":"u"}]}}`)
	})
	round()
	require.Eventually(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return len(d.reported) == 2
	}, time.Minute, time.Millisecond)
	require.Zero(t, posted.Load())
}
