package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/login"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
)

// site has the servers of all workers and of Concourse, and the files of the program.
type site struct {
	servers           []*httptest.Server
	file, credentials string
	size              int // of a worker's answer
	asked             atomic.Int64
	workers           int
}

func newSite(dir string, workers, gpus int) (*site, error) {
	s := &site{file: filepath.Join(dir, "fleet.json"), credentials: filepath.Join(dir, "login.json"), workers: workers}
	var containers, list []map[string]any
	f := fleetfile.File{RequiredArchs: []string{"gfx942"}}
	for i := range workers {
		name := fmt.Sprintf("gpu-%d-0badcafe", i)
		list = append(list, map[string]any{"name": name, "state": "running", "platform": "linux",
			"tags": []string{"gpu", "gfx=gfx942"}})
		report := api.Report{Unit: fmt.Sprintf("gpu/%d", i), Host: name, Version: "v1.0.0", Time: time.Now()}
		for g := range gpus {
			handle := fmt.Sprintf("eb2a4fe8-e932-49c4-b519-%012x", i*gpus+g)
			report.GPUs = append(report.GPUs, busyGPU(g, handle))
			containers = append(containers, map[string]any{"id": handle, "worker_name": name,
				"pipeline_name": "rocm", "job_name": fmt.Sprintf("unit-%d", g), "build_name": fmt.Sprint(i),
				"build_id": i*gpus + g + 1, "step_name": "test"})
		}
		text, err := json.MarshalIndent(report, "", "  ")
		if err != nil {
			return nil, err
		}
		s.size = len(text)
		url := s.serve(func(w http.ResponseWriter, _ *http.Request) {
			s.asked.Add(1)
			w.Write(text)
		})
		f.Workers = append(f.Workers, fleetfile.Worker{Unit: report.Unit, Name: name, URL: url, Count: gpus})
	}
	answers := map[string]any{
		"/sky/issuer/token": map[string]any{"access_token": "t", "token_type": "bearer", "expires_in": 86400},
		"/api/v1/teams":     []any{map[string]any{"name": "main"}},
		"/api/v1/pipelines": []any{}, "/api/v1/jobs": []any{},
		"/api/v1/workers": list, "/api/v1/teams/main/containers": containers,
	}
	f.Concourse = s.serve(func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(answers[r.URL.Path])
	})
	metrics := strings.Repeat("concourse_other_metric{a=\"b\"} 1\n", 5000) +
		"concourse_steps_waiting{platform=\"linux\",teamName=\"main\",type=\"task\",workerTags=\"gpu_gfx=gfx942\"} 12\n"
	f.Metrics = []string{s.serve(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(metrics)) })}
	data, err := f.Marshal()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.file, data, 0o644); err != nil {
		return nil, err
	}
	data, err = login.Credentials{URL: f.Concourse, Username: "admin", Password: "x"}.Marshal()
	if err != nil {
		return nil, err
	}
	return s, os.WriteFile(s.credentials, data, 0o600)
}

func (s *site) serve(h http.HandlerFunc) string {
	server := httptest.NewServer(h)
	s.servers = append(s.servers, server)
	return server.URL
}

func (s *site) close() {
	for _, server := range s.servers {
		server.Close()
	}
}

// rounds returns the number of complete rounds of questions.
func (s *site) rounds() int { return int(s.asked.Load()) / s.workers }

// wait waits for that many rounds.
func (s *site) wait(rounds int) {
	for s.rounds() < rounds {
		time.Sleep(50 * time.Millisecond)
	}
}

// busyGPU returns a GPU with a lease, users and a full history.
func busyGPU(i int, handle string) api.Status {
	past := func(base float64) (out []*float64) {
		for k := range 90 {
			v := base + float64(k)/7
			out = append(out, &v)
		}
		return out
	}
	since, number := time.Now().Add(-time.Hour), 211.4375
	return api.Status{Index: i, Vendor: "amd", Name: "AMD Instinct MI300X OAM",
		UUID: fmt.Sprintf("GPU-2f90ab16c8e7%04x", i), PCI: fmt.Sprintf("0000:%02x:00.0", 3+i),
		GFX: "gfx942", Driver: "6.10.5", Up: true, Partitions: 1,
		Health: api.Health{State: health.Healthy, Score: &number, Codes: []int{},
			Reason: "nothing wrong with errors, temperature, throttling, links"},
		Temperature: &number, Power: &number, MemoryUsed: &number, MemoryTotal: &number, Activity: &number,
		Users: []api.User{{Container: handle, Processes: 2, Memory: map[string]float64{"vram": 13e9, "gtt": 3e7},
			Engines: map[string]float64{"gfx": 2521.5}, Busy: map[string]float64{"gfx": .83}}},
		View: pool.View{Lease: &pool.Lease{Held: true, Holder: pool.Holder{Container: handle, Since: &since}}},
		History: &api.History{Interval: 10, Last: time.Now(), Temperature: past(40), Power: past(200),
			Memory: past(54e9), Activity: past(.1)}}
}
