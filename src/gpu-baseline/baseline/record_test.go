package baseline

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// noon is when the run began that these records report; it took ten seconds.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// passing is a clock that goes on while it is slept, and writes what the unit does then.
type passing struct {
	now  time.Time
	then func(now time.Time)
}

func (p *passing) Now() time.Time { return p.now }
func (p *passing) Sleep(d time.Duration) {
	p.now = p.now.Add(d)
	p.then(p.now)
}

// meterOf has a record, and a clock that shows the end of the run.
func meterOf(t *testing.T, record string) (*meter, *passing, *strings.Builder) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "record")
	require.NoError(t, os.WriteFile(file, []byte(record), 0o600))
	clock, log := &passing{noon.Add(10 * time.Second), func(time.Time) {}}, &strings.Builder{}
	return &meter{Host: host.Host{Clock: clock}, log: log, record: file}, clock, log
}

func (m *meter) verdict(t *testing.T) string {
	t.Helper()
	why, err := m.recorded(t.Context(), noon, noon.Add(10*time.Second))
	require.NoError(t, err)
	return why
}

func TestRecordOfABench(t *testing.T) {
	const fixed = `"level": "profile_standard", "looked": "2026-11-20T12:00:11Z", `
	invalid := func(from, to string) string {
		return `"invalid_spans": [{"from": "2026-11-20T` + from + `Z", "to": "2026-11-20T` + to + `Z", "reason": "it was throttled: ppt0"}]}`
	}
	for data, want := range map[string]string{
		`{"valid": true}`:  "",
		`{}`:               "",
		`{"valid": false}`: "no reason is given",
		`{"valid": false, "reason": "t\u001b[m"}`: `t\x1b[m`,
		`{"valid": true, "reason": "x", "y": []}`: "",

		`{"valid": false, "reason": "r", ` + fixed + `"invalid_spans": []}`:                                     "",
		`{"valid": false, "reason": "r", ` + fixed + `"looks": 3}`:                                              "r",
		`{"valid": false, "reason": "r", ` + fixed + invalid("11:59:58.000", "11:59:59.900"):                    "",
		`{"valid": false, "reason": "r", ` + fixed + invalid("11:59:59.000", "12:00:00.001"):                    "it was throttled: ppt0",
		`{"valid": false, "reason": "r", ` + fixed + invalid("12:00:09.999", "12:00:11.000"):                    "it was throttled: ppt0",
		`{"valid": false, "reason": "r", ` + fixed + invalid("12:00:10.000", "12:00:11.000"):                    "",
		`{"valid": false, "reason": "r", ` + fixed + invalid("11:00:00.000", "13:00:00.000"):                    "it was throttled: ppt0",
		`{"valid": false, "reason": "no gpu-fixed-clocks", "level": "", "looked": "", "invalid_spans": []}    `: "",
	} {
		m, _, _ := meterOf(t, data)
		require.Equal(t, want, m.verdict(t), data)
	}
	for _, data := range []string{"", "valid", `{"valid": "no"}`, `[]`} {
		m, _, _ := meterOf(t, data)
		_, err := m.recorded(t.Context(), noon, noon)
		require.ErrorContains(t, err, "cannot read the record GPU_FIXED_CLOCKS_RECORD: ", data)
	}
}

// Clocks that are not fixed are no fault of the run: another would have them as well.
func TestUnfixedClocksAreReportedOnce(t *testing.T) {
	m, _, log := meterOf(t, `{"valid": false, "reason": "this machine does not fix clocks", "level": ""}`)
	require.Empty(t, m.verdict(t)+m.verdict(t))
	require.Equal(t, "the runs are as the GPU's own clocks make them: this machine does not fix clocks\n", log.String())
}

// The unit is waited for until it has looked after the end of the run, but not for ever.
func TestLookAfterTheEndIsWaitedFor(t *testing.T) {
	const until = `{"valid": true, "reason": "", "level": "profile_standard", "invalid_spans": [], "looked": "`
	m, clock, _ := meterOf(t, until+`2026-11-20T12:00:09Z"}`)
	clock.then = func(now time.Time) {
		if now.Equal(noon.Add(13 * time.Second)) {
			require.NoError(t, os.WriteFile(m.record, []byte(until+`2026-11-20T12:00:12Z"}`), 0o600))
		}
	}
	require.Empty(t, m.verdict(t))
	require.Equal(t, noon.Add(13*time.Second), clock.now)
	for _, looked := range []string{"", "soon", "2026-11-20T12:00:09Z"} {
		m, clock, _ := meterOf(t, until+looked+`"}`)
		require.Equal(t, "the unit did not look at the GPU after the end", m.verdict(t))
		require.Equal(t, noon.Add(41*time.Second), clock.now)
	}
	m, _, _ = meterOf(t, until+`"}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := m.recorded(ctx, noon, noon.Add(10*time.Second))
	require.EqualError(t, err, "interrupted")
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"valid": false, "reason": "it was throttled"}`))
	f.Add([]byte(`{"valid": null, "reason": "\u202e"}`))
	f.Add([]byte(`{"level": "x", "looked": "2026-11-20T12:00:11Z", "invalid_spans": [{"from": "2026-11-20T12:00:00Z", "to": "2026-11-20T12:00:01Z", "reason": "\u001b"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRecord(data)
		if err != nil {
			require.Equal(t, visible(err.Error()), err.Error())
			return
		}
		why := r.against(noon, noon.Add(10*time.Second))
		require.Equal(t, visible(why), why)
		require.NotEmpty(t, r.reason())
	})
}
