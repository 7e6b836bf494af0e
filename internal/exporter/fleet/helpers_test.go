package fleet

import (
	"encoding/json"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

const workerURL = "http://10.0.0.11:9401"

// reportOf returns the report of one worker that answered.
func reportOf(gpus []gpu) Report {
	return observed{at: hosttest.Now, file: fleetfile.File{Workers: []fleetfile.Worker{{Unit: "gpu/0", Name: "gpu-0", URL: workerURL, Count: len(gpus)}}},
		answers: map[string]seen{workerURL: {gpus: gpus, at: hosttest.Now}}}.report()
}

func pageOf(t testing.TB, r Report) string {
	t.Helper()
	w := httptest.NewRecorder()
	Page(func() *Report { return &r }, func() time.Time { return hosttest.Now }).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	require.Equal(t, 200, w.Code, w.Body.String())
	return w.Body.String()
}

// bed is a fleet with its own file, Concourse and clock.
type bed struct {
	*Fleet
	site Site
	time time.Time
	path string
	mux  *http.ServeMux
	logs hosttest.Buffer
}

// Site shortens the tests.
type Site = jobexporter.Site

func newBed(t *testing.T) *bed { return bedIn(t, "") }

// bedIn is a fleet that keeps its histories in a folder.
func bedIn(t *testing.T, folder string) *bed {
	t.Helper()
	b := &bed{Fleet: New(), time: hosttest.Now, path: filepath.Join(t.TempDir(), "fleet.json"), mux: http.NewServeMux()}
	b.Fleet.path, b.now = b.path, func() time.Time { return b.time }
	b.prepare(jobexporter.Surroundings{Site: func() Site { return b.site }, Every: 30 * time.Second, Version: "v1.2.3", Folder: folder, Logs: log.New(&b.logs, "", 0)}, b.mux)
	return b
}

func (b *bed) write(t *testing.T, f fleetfile.File) {
	t.Helper()
	data, err := f.Marshal()
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(b.path, data, 0o644))
}

// get returns the answer at a path.
func (b *bed) get(t *testing.T, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	b.mux.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w
}

// report decodes the JSON of the API.
func (b *bed) report(t *testing.T) (r Report) {
	t.Helper()
	w := b.get(t, "/api/v1/fleet")
	require.Equal(t, 200, w.Code)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &r))
	return r
}
