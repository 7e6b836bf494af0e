//go:build e2e

package scripts

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAllSteps(t *testing.T) {
	for mode, workers := range map[string]string{"auto": "concourse-ci", "web+worker": "worker"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Cards, w.Profile = oneAMD, byCharm
			r := w.run(t, "deploy-test.sh", "--mode="+mode, "--charm=/dev/null", "--charm=../../README.md")
			require.Zero(t, r.code, r.out+r.err)
			want := map[string]string{}
			for _, step := range allSteps {
				want[step] = "passed"
			}
			require.Equal(t, want, table(r.out), r.out)
			require.Empty(t, w.Model, "the model is gone")
			require.Len(t, r.called("fly --target deploy-test execute"), 9)
			require.Len(t, r.called("lxc config device add "), 4, "two folders, two GPUs")
			for _, devices := range w.Devices {
				require.Empty(t, devices, "given back")
			}
			require.NotEmpty(t, r.called("juju deploy --model concourse-test-"+strings.Replace(mode, "+", "-", 1)+" ../../README.md "+strings.TrimSuffix(workers, "er")), r.calls)
		})
	}
}

func TestAFailingTaskFailsItsStep(t *testing.T) {
	for step, task := range map[string]string{"verify": "hello.yml", "mounts": "mounts.yml", "tagged": "hello.yml", "rocm": "verify-rocm-tools.yml",
		"cuda": "verify-gpu-cuda.yml", "upgrade": "hello.yml", "scale-out": "hello.yml"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w := kept(t)
			w.FailTask = task
			r := w.run(t, "deploy-test.sh", "--steps="+step+",config")
			require.Equal(t, 1, r.code, r.out+r.err)
			require.Equal(t, map[string]string{step: "FAILED", "config": "not-run"}, table(r.out), r.out)
			require.Contains(t, r.out, "The step "+step+" failed.\n")
			require.Contains(t, r.err, "error: the task "+task+" failed; its output is above")
			require.Equal(t, "concourse-test-auto", w.Model, "a model that this run did not make stays")
			for name, d := range w.Devices["juju-4f2a10-1"] {
				require.NotEqual(t, "disk", d["type"], "%s would keep the container from starting: its folder is gone", name)
			}
		})
	}
}

func TestTheModel(t *testing.T) {
	charm := "--charm=../../README.md"
	t.Run("is removed when a step fails", func(t *testing.T) {
		w := newWorld(t)
		w.FailTask = "hello.yml"
		r := w.run(t, "deploy-test.sh", charm, "--steps=deploy,verify,destroy")
		require.Equal(t, 1, r.code)
		require.Equal(t, map[string]string{"deploy": "passed", "verify": "FAILED", "destroy": "not-run"}, table(r.out))
		require.Empty(t, w.Model)
	})
	t.Run("is removed when it can't be filled", func(t *testing.T) {
		w := newWorld(t)
		w.Fail["juju deploy"] = 1
		r := w.run(t, "deploy-test.sh", charm, "--steps=deploy")
		require.Equal(t, 1, r.code)
		require.Empty(t, w.Model)
	})
	t.Run("is kept with --skip-cleanup, with the command that removes it", func(t *testing.T) {
		w := newWorld(t)
		r := w.run(t, "deploy-test.sh", charm, "--skip-cleanup", "--steps=deploy,destroy")
		require.Zero(t, r.code, r.err)
		require.Equal(t, map[string]string{"deploy": "passed", "destroy": "skipped"}, table(r.out))
		require.Contains(t, r.out, "The model concourse-test-auto is kept; remove it: juju destroy-model --no-prompt --destroy-storage --force concourse-test-auto\n")
		require.Equal(t, "concourse-test-auto", w.Model)
	})
	t.Run("is not the user's current one, which stays what it was", func(t *testing.T) {
		for _, args := range []string{"--steps=deploy", "--steps=deploy,destroy", "--steps=deploy --skip-cleanup"} {
			w := newWorld(t)
			w.Current = "mine"
			r := w.run(t, "deploy-test.sh", append(strings.Fields(args), charm)...)
			require.Zero(t, r.code, r.err)
			require.Equal(t, "mine", w.Current, args)
		}
	})
	t.Run("of another run is not touched", func(t *testing.T) {
		w := kept(t)
		r := w.run(t, "deploy-test.sh", charm)
		require.Equal(t, 1, r.code)
		require.Contains(t, r.err, "the model concourse-test-auto is there already; remove it: juju destroy-model")
		require.Equal(t, "concourse-test-auto", w.Model)
		require.Empty(t, r.called("juju deploy"))
	})
	t.Run("that can't be removed is named", func(t *testing.T) {
		w := newWorld(t)
		w.Fail["juju destroy-model"] = 1
		r := w.run(t, "deploy-test.sh", charm, "--steps=deploy")
		require.Equal(t, 1, r.code, r.out+r.err)
		require.Contains(t, r.err, "the model concourse-test-auto could not be removed; run: juju destroy-model")
	})
	t.Run("is not made without a charm", func(t *testing.T) {
		w := newWorld(t)
		r := w.run(t, "deploy-test.sh", "--charm=none.charm")
		require.Equal(t, 1, r.code)
		require.Contains(t, r.err, "there is no charm at none.charm; run: make charm, or give --charm=FILE or --channel=NAME")
		require.Empty(t, r.calls)
	})
}

func TestGPUSteps(t *testing.T) {
	tests := []struct {
		name, args, want, note string
		cards                  []map[string]any
	}{
		{name: "without a GPU is skipped", args: "--steps=rocm", want: "skipped", note: "this host has no amd GPU", cards: oneAMD[1:]},
		{name: "with another vendor's address is skipped", args: "--steps=cuda --pci=03:00.0", want: "skipped", note: "is not one of the nvidia GPUs", cards: oneAMD},
		{name: "with another vendor's id is skipped", args: "--steps=rocm --gpu-id=0", want: "skipped", note: "is not one of the amd GPUs", cards: oneAMD},
		{name: "guesses not which of several", args: "--steps=rocm", want: "FAILED", note: "this host has 2 amd GPUs; choose one with --pci:", cards: twoAMD},
		{name: "takes an id's address", args: "--steps=rocm --gpu-id=2", want: "passed", note: "", cards: twoAMD},
		{name: "takes an address", args: "--steps=rocm --pci=0000:83:00.0", want: "passed", note: "", cards: twoAMD},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := kept(t)
			w.Cards = tt.cards
			r := w.run(t, "deploy-test.sh", strings.Fields(tt.args)...)
			require.Equal(t, []string{tt.want}, slices.Collect(maps.Values(table(r.out))), r.out+r.err)
			require.Contains(t, r.err, tt.note)
			if tt.want == "passed" {
				require.NotEmpty(t, r.called("lxc config device add juju-4f2a10-1 gpu0 gpu pci=0000:83:00.0 gid=44"))
			}
		})
	}
}

func TestDeployTestWithSharedStorage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Cards, w.Profile = oneAMD, byCharm
	r := w.run(t, "deploy-test.sh", "--shared-storage", "lxc", "--mode", "web+worker", "--charm", "../../README.md", "--steps", "deploy,verify-marker,pytorch,scale-out,config,destroy")
	require.Zero(t, r.code, r.out+r.err)
	require.Equal(t, map[string]string{"deploy": "passed", "verify-marker": "passed", "pytorch": "passed", "scale-out": "passed", "config": "passed", "destroy": "passed"}, table(r.out))
	require.Contains(t, r.out, "wait until all units wait for their storage\n")
	require.Len(t, r.called("lxc config device add"), 4, "the web, the worker, the GPU and the worker that came later")
	require.Contains(t, strings.Join(r.called("fly"), "\n"), "benchmark-matmul.yml --tag gpu --tag compute-runtime=rocm --var repository=rocm/pytorch --var image-tag=latest")
	require.Empty(t, w.Model)
}
