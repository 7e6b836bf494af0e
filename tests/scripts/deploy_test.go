package scripts

import (
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// table is the summary: each step's result.
func table(out string) map[string]string {
	_, rows, _ := strings.Cut(out, "step           result    seconds\n")
	results := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(\S+) +(passed|skipped|FAILED|not-run) +(\d+|-)$`).FindAllStringSubmatch(rows, -1) {
		results[m[1]] = m[2]
	}
	return results
}

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

// kept is a world with a model that an earlier run kept.
func kept(t *testing.T) *world {
	w := newWorld(t)
	w.Cards, w.Profile = oneAMD, byCharm
	w.Model = "concourse-test-auto"
	w.Apps["concourse-ci"] = &application{Units: 2, Config: map[string]string{"mode": "auto", "version": "8.2.5"}}
	return w
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

// Three calls, where the retry helper of old ended with the first under set -e.
func TestD61WhatFailsForAMomentIsTriedThreeTimes(t *testing.T) {
	for failures, code := range map[int]int{0: 0, 2: 0, 3: 1} {
		w := kept(t)
		w.Fail["juju run get-admin-password"] = failures
		r := w.run(t, "deploy-test.sh", "--steps=tagged")
		require.Equal(t, code, r.code, r.out+r.err)
		require.Len(t, r.called("juju run"), min(failures+1, 3))
		require.Equal(t, failures, strings.Count(r.err, "juju run failed with exit status 1 (try "))
	}
	// The way of the steps: their own `set -e` holds in what they call.
	w := kept(t)
	w.Fail["juju config"] = 1
	r := w.run(t, "deploy-test.sh", "--steps=tagged")
	require.Equal(t, 1, r.code)
	require.Equal(t, map[string]string{"tagged": "FAILED"}, table(r.out))
	require.Empty(t, r.called("fly --target deploy-test workers"), "nothing runs after what failed")

	t.Run("also where nothing asks for the result", func(t *testing.T) {
		for failures, want := range map[int]int{0: 1, 1: 2, 2: 3, 3: 3, 9: 3} {
			c := exec.Command("bash", "-c", `set -euo pipefail; note() { :; }; POLL_SECONDS=0 DRY=; source ../../scripts/deploy-test/run.sh
				n=0; flaky() { n=$((n + 1)); echo try; return $((n <= $1 ? 7 : 0)); }; retry 3 flaky $1; echo done`, "bash", fmt.Sprint(failures))
			out, _ := c.Output()
			require.Equal(t, want, strings.Count(string(out), "try"))
			require.Equal(t, failures < 3, strings.Contains(string(out), "done"))
			require.Equal(t, map[bool]int{true: 0, false: 7}[failures < 3], c.ProcessState.ExitCode(), "the last try's")
		}
	})
}

// The run looks at every call and all output for the secrets; here they are
// shown to have been used, by the steps that have any.
func TestD42SecretsAreNeverPrintedNorArguments(t *testing.T) {
	w := kept(t)
	r := w.run(t, "deploy-test.sh", "--steps=config,vault", "--skip-cleanup")
	require.Zero(t, r.code, r.out+r.err)
	require.True(t, w.Unsealed && w.VaultData)
	require.NotEmpty(t, r.called("juju run --model concourse-test-auto --format=json concourse-ci/leader get-admin-password"))
	var login []string
	for _, c := range r.called("curl") {
		if strings.Contains(c, "/sky/issuer/token") {
			login = append(login, c)
		}
	}
	require.NotEmpty(t, login)
	require.Regexp(t, `--data-urlencode password@/\S+/password `, login[0])
	key := r.called("juju add-secret --model concourse-test-auto deploy-test-key encryption-key#file=/")
	require.Len(t, key, 1)
	require.Empty(t, r.called("fly --target deploy-test login"))
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

// What a step waits for may be a worker's tags, and what keeps it from having
// them a unit that says so itself.
func TestAWaitTellsWhyAUnitIsBlocked(t *testing.T) {
	w := kept(t)
	w.Apps["concourse-ci"].Config["compute-runtime"] = "rocm"
	w.env = []string{"WAIT_SECONDS=0"}
	r := w.run(t, "deploy-test.sh", "--steps=tagged")
	require.Equal(t, 1, r.code, r.out)
	const why = "0 running workers without tags; concourse-ci/1 blocked: no AMD GPU passed through"
	require.Contains(t, r.err, "    not yet: "+why+"\n")
	require.Contains(t, r.err, "not after 0 s (WAIT_SECONDS); last: "+why+"\n")

	// Where the wait is for that status, it stands there once.
	r = w.run(t, "deploy-test.sh", "--steps=upgrade")
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.err, "    not yet: concourse-ci/1 blocked: no AMD GPU passed through\n")
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
