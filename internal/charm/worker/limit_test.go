package worker

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet/fleetfile"
	"github.com/fourdollars/concourse-ci-machine/internal/pool"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func TestEachGPUIsPublishedToTheWeb(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		host string
		set  map[string]any
		age  time.Duration // of what is known of leases
		want []fleetfile.GPU
	}{
		"leased": {"mi210x4", exclusive("gpu-device-ids", "0,1,3"), time.Minute, []fleetfile.GPU{
			{Index: 0, GFX: "gfx90a", Model: "AMD INSTINCT MI210", Service: "in_service", Leased: &yes},
			{Index: 1, GFX: "gfx90a", Model: "AMD INSTINCT MI210", Service: "quarantined", Leased: &no},
			{Index: 3, GFX: "gfx90a", Model: "AMD INSTINCT MI210", Service: "in_service"}}},
		"nothing recent is known of leases": {"mi210x4", exclusive("gpu-device-ids", "0"), 10 * time.Minute, []fleetfile.GPU{
			{Index: 0, GFX: "gfx90a", Model: "AMD INSTINCT MI210", Service: "in_service"}}},
		"shared": {"mi210x4", map[string]any{"compute-runtime": "rocm", "gpu-device-ids": "1"}, time.Minute, []fleetfile.GPU{
			{Index: 1, GFX: "gfx90a", Model: "AMD INSTINCT MI210", Service: "quarantined"}}},
		"NVIDIA's":       {"nvidia-only", map[string]any{"compute-runtime": "cuda"}, time.Minute, []fleetfile.GPU{{Index: 0, Model: "NVIDIA GeForce RTX 4090"}}},
		"tasks get none": {"mi210x4", map[string]any{"compute-runtime": "none"}, time.Minute, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := hosttest.Host(t, c.host)
			at := hosttest.Now.Add(-c.age)
			report, err := json.Marshal(pool.Report{At: at, GPUs: []pool.ReportedLease{{Name: slotsOf[0], Lease: pool.Lease{Held: true}}, {Name: slotsOf[1]}}})
			require.NoError(t, err)
			hosttest.Put(t, r, pool.ReportFile, string(report))
			o := observed(t, r, c.set)
			o.NVIDIA = []string{"0"}
			o.observeLeases(host.Host{Root: r, Clock: hosttest.Clock{T: hosttest.Now}})
			quarantined(&o, 1)
			require.Equal(t, c.want, Desire(o, nil).GPUs.Each)
		})
	}
}
