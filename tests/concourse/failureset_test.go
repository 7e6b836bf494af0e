//go:build e2e

package concourse

import "github.com/fourdollars/concourse-ci-machine/internal/flight/verdict"

// The right kinds of what a task did to itself.
var (
	justTask = []verdict.Kind{verdict.Task}
	openTask = []verdict.Kind{verdict.Task, verdict.Unknown}
	// The machine of the tests can be so busy that a task gets too little CPU.
	openAtWork = []verdict.Kind{verdict.Task, verdict.Neighbour, verdict.Machine, verdict.Unknown}
)

// ownFailures are of the task itself, and need no GPU. The image has busybox only. Most last for
// more than five seconds: a shorter one can have missed memory of a GPU unseen.
func ownFailures() []failure {
	return []failure{
		{name: "assertion", right: justTask, script: "sleep 6; echo FAILED: two is not three; exit 1"},
		{name: "assertion-at-once", right: openTask, script: "echo FAILED: two is not three; exit 1"},
		{name: "timeout-idle", right: justTask, timeout: "30s", script: "sleep 1000"},
		{name: "timeout-at-work", right: openAtWork, timeout: "30s",
			script: "while :; do seq 20000 >/dev/null; sleep .2; done"},
		{name: "fly-abort", right: justTask, abort: true, script: "touch /srv/out_rw/NAME; sleep 1000"},
		{name: "no-command", right: justTask, path: "/no/such/command"},
		{name: "exit-126", right: justTask, script: "sleep 6; echo true >f; ./f; exit $?"},
		{name: "exit-127", right: justTask, script: "sleep 6; no-such-program; exit $?"},
		{name: "no-interpreter", right: justTask,
			script: `sleep 6; printf '#!/no/such/python\n' >f; chmod +x f; ./f; exit $?`},
		{name: "syntax-error", right: justTask, script: "sleep 6; sh -c 'if'; exit $?"},
		{name: "abort-134", right: justTask, script: "sleep 6; kill -ABRT $$"},
		{name: "segfault-139", right: justTask, script: "sleep 6; kill -SEGV $$"},
		{name: "illegal-132", right: justTask, script: "sleep 6; kill -ILL $$"},
		{name: "floating-136", right: justTask, script: "sleep 6; kill -FPE $$"},
		{name: "kill-9", right: justTask, script: "sleep 6; kill -9 $$"},
		{name: "own-sigterm", right: justTask, script: "sleep 6; kill -TERM $$"},
		{name: "broken-pipe", right: justTask, script: "sleep 6; kill -PIPE $$"},
		{name: "own-timeout", right: justTask, script: "timeout 8 sleep 100; exit $?"},
		{name: "exit-124", right: justTask, script: "sleep 8; exit 124"},
		{name: "own-memory-limit", right: justTask, script: "sleep 6; ulimit -v 30000; tail /dev/zero; exit $?"},
		{name: "too-many-files", right: justTask,
			script: "sleep 6; ulimit -n 4; cat 3</dev/null 4</dev/null 5</dev/null; exit $?"},
		{name: "read-only-file", right: justTask, script: "sleep 6; echo x >/proc/version; exit $?"},
		{name: "full-device", right: justTask, script: "sleep 6; echo x >/dev/full || exit 1"},
		{name: "own-name-server", right: justTask,
			script: "for i in 1 2; do nslookup registry.example 203.0.113.53; done; exit 1"},
		// Nobody can tell a server that is away from one that never was.
		{name: "no-answer", right: []verdict.Kind{verdict.Machine, verdict.Unknown, verdict.Task},
			script: "for i in 1 2; do nc -w 20 203.0.113.80 80 </dev/null; done; exit 1"},
		{name: "much-output", right: justTask, script: "sleep 6; seq 100000; exit 1"},
	}
}

// workerKilled is the failure in which the worker's processes are killed under the task.
const workerKilled = "worker-killed"

// lastFailures change what else runs on the worker. Its disk for volumes has 1 GiB.
func lastFailures() []failure {
	return []failure{
		{name: workerKilled, right: []verdict.Kind{verdict.Concourse, verdict.Unknown}, timeout: "90s",
			script: "touch /srv/out_rw/NAME; sleep 1000"},
		{name: "own-full-disk", right: justTask, script: "dd if=/dev/zero of=x bs=1M; sleep 7; exit 1"},
	}
}
