package oci

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/oci/rawjson"
)

// Leases make GPUs exclusive: a container that gets GPUs leases each of them
// (internal/lease), and gets only those. How many, and which, its environment
// says: CountVariable and the variables of Config.Visible. A container that gets
// none leases none, so with Config.Containers Tasks checks and gets never wait
// for a GPU; with All each container leases, the checks and gets too, and a
// worker with one GPU then runs one container at a time.
//
// Each entry of Config.Devices has to be one GPU, and no GPU may be there twice.
// Turning leases off or on concerns containers that are created afterwards: one
// that was created without keeps its GPUs unleased, so tasks should have ended
// before they are turned on.
type Leases struct {
	// Dir is the absolute path of their directory; empty means lease.DefaultDir.
	Dir string `json:"dir,omitempty"`
	// WaitSeconds is how long a create waits for GPUs that others hold, 0 to
	// MaxWaitSeconds. With 0 it is refused at once.
	WaitSeconds int `json:"wait_seconds,omitempty"`
	// Links[i][j] tells how well the GPUs i and j of Config.Devices are joined, 0
	// to MaxLink; see lease.Leases. Empty: not known.
	Links [][]int `json:"links,omitempty"`
}

const (
	// CountVariable is the environment variable by which a task says how many
	// GPUs it wants, where they are leased. Not set: one.
	CountVariable = "GPU_COUNT"
	// MaxWaitSeconds is a day. No client of containerd waits that long.
	MaxWaitSeconds = 24 * 60 * 60
	// MaxLink bounds an entry of Leases.Links.
	MaxLink = 1000
)

func (l *Leases) wait() time.Duration { return time.Duration(l.WaitSeconds) * time.Second }

func decodeLeases(v rawjson.Value) (*Leases, error) {
	if v.None() {
		return nil, nil
	}
	var l Leases
	return &l, fields(v, func(key string, v rawjson.Value) (err error) {
		switch key {
		case "dir":
			l.Dir, err = text(v)
		case "wait_seconds":
			l.WaitSeconds, err = number(v, MaxWaitSeconds)
		case "links":
			l.Links, err = matrix(v)
		default:
			err = errUnknownField
		}
		return err
	})
}

func number(v rawjson.Value, limit uint64) (int, error) {
	if err := v.As(rawjson.Number); err != nil || v.None() {
		return 0, err
	}
	n, err := v.Whole(limit)
	return int(n), err
}

func matrix(v rawjson.Value) (rows [][]int, err error) {
	if err := v.As(rawjson.Array); err != nil {
		return nil, err
	}
	rows = slices.Grow(rows, v.Len())
	for r := range v.Elements() {
		if r.Kind() != rawjson.Array {
			return nil, fmt.Errorf("row %d: it is %s, not a list", len(rows), r.Kind())
		}
		row := make([]int, 0, r.Len())
		for e := range r.Elements() {
			n, err := e.Whole(MaxLink)
			if err != nil {
				return nil, fmt.Errorf("row %d: %w", len(rows), err)
			}
			row = append(row, int(n))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (l *Leases) check(devices []string) error {
	if l == nil {
		return nil
	}
	if !filepath.IsAbs(l.Dir) {
		return fmt.Errorf("leases: dir: %q is not an absolute path", l.Dir)
	}
	names := leaseNames(devices)
	for i, d := range devices {
		_, name, _ := strings.Cut(d, "=")
		if name == allDevices {
			return fmt.Errorf("leases: %q stands for several GPUs, and a lease is of one; name each in devices", d)
		}
		if slices.Contains(names[:i], names[i]) {
			return fmt.Errorf("leases: two of devices have the name %q", names[i])
		}
	}
	if n := len(l.Links); n > 0 && n != len(devices) {
		return fmt.Errorf("leases: links: there are %d rows for %d devices", n, len(devices))
	}
	for i, row := range l.Links {
		if len(row) != len(devices) {
			return fmt.Errorf("leases: links: row %d has %d entries for %d devices", i, len(row), len(devices))
		}
	}
	return nil
}

// leaseNames are the devices' names as files can have them. A CDI name has
// letters, digits, "_", "-", "." and ":" (CDI SPEC.md).
func leaseNames(devices []string) []string {
	names := make([]string, len(devices))
	for i, d := range devices {
		_, name, _ := strings.Cut(d, "=")
		names[i] = fileName(name)
	}
	return names
}

func fileName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}
