package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/jsonlist"
	"github.com/fourdollars/concourse-ci-machine/internal/base/sanitize"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/health"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
)

// Bounds on a worker's answer. 64 partitions with their histories and containers have about
// 1 MB.
const (
	maxAnswer = 8 << 20 // bytes
	maxGPUs   = 1024
	maxUsers  = 64  // of one GPU that are looked at
	maxText   = 300 // characters of a reason
	maxName   = 128 // characters of any other text
	maxNumber = 1 << 53
)

// gpu holds the part of an api.Status that the page shows.
type gpu struct {
	Index      int      `json:"index"`
	Vendor     string   `json:"vendor"`
	Name       string   `json:"name"`
	PCI        string   `json:"pci_bus_id"`
	GFX        string   `json:"gfx"`
	Health     judgment `json:"health"`
	Partition  int      `json:"partition"`
	Partitions int      `json:"partitions"`

	Temperature    *float64 `json:"temperature_celsius"`
	Power          *float64 `json:"power_watts"`
	MemoryUsed     *float64 `json:"memory_used_bytes"`
	MemoryTotal    *float64 `json:"memory_total_bytes"`
	Activity       *float64 `json:"activity_ratio"`
	SocketActivity *float64 `json:"socket_activity_ratio"`

	Users users `json:"users"`
	pool.View
}

type judgment struct {
	State  health.State `json:"state"`
	Reason string       `json:"reason"`
}

type user struct {
	Container string `json:"container"`
	Processes int    `json:"processes"`
}

// users keeps the first maxUsers users of a GPU.
type users []user

// UnmarshalJSON implements json.Unmarshaler.
func (u *users) UnmarshalJSON(data []byte) (err error) {
	*u, err = jsonlist.First[user](data, maxUsers)
	return err
}

var pciAddress = regexp.MustCompile(`^[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$`)

// decode decodes a worker's answer at /api/v1/gpus. Another program may answer there, so all
// texts of the result are printable and short, and all numbers are plausible. One invalid
// GPU invalidates the answer.
func decode(r io.Reader) ([]gpu, error) {
	gpus := []gpu{}
	err := jsonlist.ReadMember(r, maxAnswer, "gpus", func(d *json.Decoder) error {
		if len(gpus) == maxGPUs {
			return fmt.Errorf("it has more than %d GPUs", maxGPUs)
		}
		var g gpu
		if d.Decode(&g) != nil {
			return jsonlist.ErrForm
		}
		if err := g.clean(); err != nil {
			return fmt.Errorf("GPU %d has %w", len(gpus), err)
		}
		gpus = append(gpus, g)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("its answer is not a list of GPUs: %w", err)
	}
	return gpus, nil
}

// clean checks a GPU and makes its texts printable.
func (g *gpu) clean() error {
	switch {
	case g.Index < 0 || g.Index >= maxGPUs || g.Partition < 0 || g.Partition >= maxGPUs ||
		g.Partitions < 0 || g.Partitions > maxGPUs:
		return errors.New("an impossible number")
	case !pciAddress.MatchString(g.PCI):
		return errors.New("no PCI address")
	case !slices.Contains(api.States, g.Health.State):
		return errors.New("an unknown state of health")
	}
	for _, n := range []**float64{&g.Temperature, &g.Power, &g.MemoryUsed, &g.MemoryTotal, &g.Activity,
		&g.SocketActivity} {
		if *n != nil && (**n < -maxNumber || **n > maxNumber) {
			*n = nil
		}
	}
	for _, ratio := range []*float64{g.Activity, g.SocketActivity} {
		if ratio != nil {
			*ratio = min(max(*ratio, 0), 1)
		}
	}
	if g.Power != nil {
		*g.Power = min(max(*g.Power, 0), 1e5)
	}
	g.Partitions = max(1, g.Partitions)
	for _, s := range []*string{&g.Vendor, &g.Name, &g.GFX} {
		*s = name(*s)
	}
	g.Health.Reason = sanitize.Line(g.Health.Reason, maxText)
	for i := range g.Users {
		g.Users[i].Container = name(g.Users[i].Container)
	}
	if l := g.Lease; l != nil {
		for _, s := range []*string{&l.Container, &l.Title, &l.Pod, &l.Namespace, &l.Doubt} {
			*s = name(*s)
		}
		if l.Since != nil && !plausible(*l.Since) {
			return errors.New("a lease of an impossible time")
		}
		l.Kind, l.Clocks, l.Last = "", "", nil // not shown
	}
	if s := g.Service; s != nil {
		known := []quarantine.State{quarantine.InService, quarantine.Quarantined, quarantine.OnProbation}
		if !slices.Contains(known, s.State) || !plausible(s.Since) {
			return errors.New("an unknown state of service")
		}
		if s.By != quarantine.ByHand && s.By != quarantine.ByHealth {
			s.By = ""
		}
		s.Why = sanitize.Line(s.Why, maxText)
	}
	return nil
}

func name(s string) string { return sanitize.Line(strings.TrimSpace(s), maxName) }

// plausible reports whether a clock can show the time, so that it can be written as JSON.
func plausible(t time.Time) bool { return t.Year() >= 2000 && t.Year() < 9000 }
