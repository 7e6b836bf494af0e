// Package roletest has helpers for tests of workers, webs and the pipeline. It contains no
// test.
package roletest

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/amd"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/config"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/nvidia"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
	"github.com/fourdollars/concourse-ci-machine/internal/oci/wrapperfile"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// TSAKey is an invented public key.
const TSAKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHQ1Jq1s2cKQ0n3H8mDqk5m0vJqv5u0yF2n8mY6mJ2rD"

// Config returns the configuration of a worker with the given options.
func Config(t *testing.T, set map[string]any) config.Config {
	t.Helper()
	raw := map[string]any{"mode": "worker"}
	maps.Copy(raw, set)
	c, problems := config.Parse(raw, nil)
	require.Empty(t, problems)
	return c
}

// WebSecrets are keys like a leader's, generated once because that takes time.
var WebSecrets = sync.OnceValue(func() concourse.WebSecrets {
	s, err := concourse.NewWebSecrets()
	if err != nil {
		panic(err) // only if the machine has no randomness
	}
	return s
})

// GPUWorker returns the report of a unit with that many AMD GPUs. Without an option all
// tasks share them.
func GPUWorker(unit string, gpus int, options ...func(*relation.WorkerGPUs)) model.Worker {
	w := model.Worker{Unit: unit, Key: "ssh-ed25519 AAAA " + unit, Name: strings.ReplaceAll(unit, "/", "-"),
		GPUs: relation.WorkerGPUs{Runtime: "rocm", Count: gpus,
			Archs: []relation.ArchCount{{Arch: "gfx942", GPUs: gpus}}}}
	for _, o := range options {
		o(&w.GPUs)
	}
	return w
}

// Exclusive is an option of GPUWorker: no two tasks use a GPU at the same time.
func Exclusive(g *relation.WorkerGPUs) { g.Exclusive = true }

// Limited is Exclusive on a worker that limits its tasks itself.
func Limited(g *relation.WorkerGPUs) { g.Exclusive, g.Limited = true, true }

// Reporting returns the worker with a report of each GPU, valid since a time. GPUs in out
// are quarantined. If the worker leases GPUs, those in held are leased.
func Reporting(w model.Worker, since time.Time, out, held []int) model.Worker {
	w.GPUs.Since = since
	var archs []string
	for _, a := range w.GPUs.Archs {
		archs = append(archs, slices.Repeat([]string{a.Arch}, a.GPUs)...)
	}
	for i := range w.GPUs.Count {
		g := fleetfile.GPU{Index: i, Model: "AMD Instinct", Service: "in_service"}
		if i < len(archs) {
			g.GFX = archs[i]
		}
		if slices.Contains(out, i) {
			g.Service = "quarantined"
		}
		if leased := slices.Contains(held, i); w.GPUs.Exclusive {
			g.Leased = &leased
		}
		w.GPUs.Each = append(w.GPUs.Each, g)
	}
	return w
}

// FullUnit returns a unit with all that the charm installs for both vendors, and an
// operator's own files.
func FullUnit(t *testing.T) (host.Host, *hosttest.Runner) {
	r := hosttest.NewRunner(t)
	h := host.Host{Root: hosttest.Host(t, "both-passed"), Runner: r, Clock: hosttest.Clock{T: hosttest.Now}}
	for _, path := range append(amd.ToolkitFiles(), nvidia.Files()...) {
		hosttest.Put(t, h.Root, path, "the charm's")
	}
	hosttest.Put(t, h.Root, cdi.Path, `{"devices":[{"name":"0000:03:00.0"}]}`)
	hosttest.Put(t, h.Root, nvidia.Path, `{"annotations":{"concourse-ci-machine/from":"x"},"kind":"nvidia.com/gpu","devices":[{"name":"0"}]}`)
	hosttest.Put(t, h.Root, resource.OwnedFile, `{"packages":["`+amd.ToolkitPackage+`","`+nvidia.Package+`"]}`)
	hosttest.Put(t, h.Root, "/var/lib/dpkg/status",
		"Package: "+amd.ToolkitPackage+"\nStatus: install ok installed\nVersion: 1.2.0\n\nPackage: "+nvidia.Package+
			"\nStatus: install ok installed\nVersion: 1.17.8-1\n\nPackage: rocm-smi-lib\nStatus: install ok "+
			"installed\nVersion: 7\n\n")
	r.On("apt-get remove", func(c host.Command) (string, error) {
		if c.ReadOnly {
			return "Remv " + c.Argv[len(c.Argv)-1] + " [1]\n", nil
		}
		return "", nil
	})
	for _, path := range Operators {
		hosttest.Put(t, h.Root, path, "mine")
	}
	return h, r
}

// Operators are files of an operator.
var Operators = []string{"/etc/cdi/other.json", "/etc/apt/sources.list.d/rocm.list", "/etc/apt/keyrings/rocm.gpg",
	"/etc/udev/rules.d/70-amdgpu.rules",
	"/etc/modprobe.d/amdgpu.conf", "/etc/apt/sources.list.d/nvidia-container-toolkit.list"}

// Changes returns the steps of resources that concern files and packages.
func Changes(t *testing.T, h host.Host, rs []plan.Resource) plan.Plan {
	t.Helper()
	p, err := plan.Diff(context.Background(), h, rs...)
	require.NoError(t, err)
	return p
}

// Ops returns the steps of a plan, one in each line.
func Ops(p plan.Plan) string {
	var all []string
	for _, s := range p {
		all = append(all, s.Op)
	}
	return strings.Join(all, "\n")
}

// DriverHost returns a fixture machine of package amd.
func DriverHost(t *testing.T, name string) host.Root {
	t.Helper()
	r := hosttest.Root(t, filepath.Join(hosttest.Source(), "internal/charm/amd/testdata", name))
	hosttest.Put(t, r, "/etc/os-release", "ID=ubuntu\nVERSION_CODENAME=noble\n")
	hosttest.Put(t, r, "/etc/hostname", "rocm-0\n")
	if name == "lxd" {
		hosttest.Put(t, r, "/run/systemd/container", "lxc\n")
	}
	return r
}

// DriverCommands answers the queries about the machine's kernel.
func DriverCommands(t *testing.T) *hosttest.Runner {
	return hosttest.NewMachine(t).Answer("modinfo",
		"version:        6.10.5\nsrcversion:     8B3A9B7E5866E52F63B9ACC\n").
		Answer("apt-cache policy", "  Candidate: 6.8.0-52.53\n")
}

// DecodeWrapper decodes a marshalled configuration. The wrapper's own tests show that it
// reads the same.
func DecodeWrapper(data string) (c oci.Config, err error) {
	if err := oci.CheckConfig([]byte(data)); err != nil {
		return c, err
	}
	return wrapperfile.File.Decode([]byte(data))
}
