// Package fleetfile has the file with which a web names its workers to the fleet page. The
// charm writes the file and the program concourse-exporter reads it. The package never asks
// a worker.
package fleetfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// File lists the workers of a web and the settings of the fleet page.
type File struct {
	// Concourse is the URL of the web for users, for links to builds.
	Concourse string `json:"concourse"`
	// Metrics has the URLs of Concourse's own metrics on all webs. Each web counts only its
	// own waiting steps.
	Metrics []string `json:"metrics"`
	// RequiredArchs is the option required-archs.
	RequiredArchs []string `json:"required-archs"`
	// HideNames hides the names of teams, pipelines, jobs and steps.
	HideNames bool `json:"hide-names"`
	// Page is the URL of the fleet page for users, "" if it is unknown.
	Page    string   `json:"page,omitempty"`
	Workers []Worker `json:"workers"`
}

// Worker describes a worker as its unit publishes it.
type Worker struct {
	Unit string `json:"unit"` // "gpu/0"
	Name string `json:"name"` // at the web, "" if the unit publishes none
	// URL of its exporter, which has /api/v1/verdicts, and for GPUs the status page and
	// /api/v1/gpus. "" if the worker has no address.
	URL       string     `json:"url"`
	Count     int        `json:"count"`     // of its GPUs
	GPUs      []GPU      `json:"gpus"`      // nil if the unit publishes only their number
	Published *time.Time `json:"published"` // first time with this value of GPUs
}

// Watched reports whether the worker has GPUs to ask for.
func (w Worker) Watched() bool { return w.URL != "" && w.Count > 0 }

// GPU describes one GPU, or one partition, as its unit publishes it.
type GPU struct {
	Index   int    `json:"index"` // number in the option gpu-device-ids
	GFX     string `json:"gfx,omitempty"`
	Model   string `json:"model,omitempty"`
	Service string `json:"service,omitempty"` // see quarantine.State; "" if the GPU is not watched
	// Leased is nil in the File, because it changes with each task, if tasks share the GPU, or
	// if it is unknown.
	Leased *bool `json:"leased,omitempty"`
}

// Quarantined reports whether new tasks cannot use the GPU.
func (g GPU) Quarantined() bool { return g.Service != "" && g.Service != string(quarantine.InService) }

// Free reports whether a task can lease the GPU.
func (g GPU) Free() bool { return !g.Quarantined() && g.Leased != nil && !*g.Leased }

// Bounds of the file. A site of 1,000 workers with 64 partitions has about 6 MB.
const (
	MaxSize    = 16 << 20
	maxWorkers = 10_000
	maxGPUs    = 1024 // of one worker
	maxMetrics = 100
)

// Marshal returns the content of the file. Equal files give equal content. It fails if Parse
// would.
func (f File) Marshal() ([]byte, error) {
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("cannot write the list of workers: %w", err)
	}
	data, err := json.MarshalIndent(f, "", " ")
	return append(data, '\n'), err
}

// Parse parses the content of the file.
func Parse(data []byte) (File, error) {
	var f File
	if len(data) > MaxSize {
		return f, fmt.Errorf("it has more than %d bytes", MaxSize)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return File{}, fmt.Errorf("it is not the JSON of a list of workers: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return File{}, errors.New("data follows the first JSON value")
	}
	return f, f.check()
}

func (f File) check() error {
	if len(f.Workers) > maxWorkers || len(f.Metrics) > maxMetrics {
		return fmt.Errorf("it has more than %d workers or %d webs", maxWorkers, maxMetrics)
	}
	for _, u := range append(slices.Clone(f.Metrics), f.Concourse, f.Page) {
		if err := checkURL(u); u != "" && err != nil {
			return err
		}
	}
	for _, w := range f.Workers {
		switch {
		case w.Unit == "":
			return errors.New("a worker has no unit")
		case w.Count < 0 || w.Count > maxGPUs || len(w.GPUs) > maxGPUs:
			return fmt.Errorf("%.100q has more than %d GPUs", w.Unit, maxGPUs)
		}
		if err := checkURL(w.URL); w.URL != "" && err != nil {
			return err
		}
	}
	return nil
}

// checkURL returns an error for a URL that could have a password or lead a link elsewhere.
func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%.100q is not a URL such as http://10.0.0.11:9401", s)
	}
	return nil
}
