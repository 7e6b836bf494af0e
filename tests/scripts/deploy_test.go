package scripts

import (
	"fmt"
	"os/exec"
	"regexp"
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

// kept is a world with a model that an earlier run kept.
func kept(t *testing.T) *world {
	w := newWorld(t)
	w.Cards, w.Profile = oneAMD, byCharm
	w.Model = "concourse-test-auto"
	w.Apps["concourse-ci"] = &application{Units: 2, Config: map[string]string{"mode": "auto", "version": "8.2.5"}}
	return w
}

// Three calls; the old retry helper ended with the first under set -e.
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

// What a step waits for may be a worker's tags, and what keeps it from having them a unit
// that reports it itself.
func TestAWaitReportsWhyAUnitIsBlocked(t *testing.T) {
	w := kept(t)
	w.Apps["concourse-ci"].Config["compute-runtime"] = "rocm"
	w.env = []string{"WAIT_SECONDS=0"}
	r := w.run(t, "deploy-test.sh", "--steps=tagged")
	require.Equal(t, 1, r.code, r.out)
	const why = "0 running workers without tags; concourse-ci/1 blocked: no AMD GPU passed through"
	require.Contains(t, r.err, "    not yet: "+why+"\n")
	require.Contains(t, r.err, "not after 0 s (WAIT_SECONDS); last: "+why+"\n")

	// If the wait is for that status, it is there once.
	r = w.run(t, "deploy-test.sh", "--steps=upgrade")
	require.Equal(t, 1, r.code, r.out)
	require.Contains(t, r.err, "    not yet: concourse-ci/1 blocked: no AMD GPU passed through\n")
}
