package loki

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	unitLog = "/var/log/juju/unit-rocm-worker-0.log"
	refused = `{"timestamp":"2026-08-01T11:59:00.000000000Z","level":"error","source":"worker","message":"worker.garden.garden-server.create.failed","data":{"error":"new task: failed to create shim task: OCI runtime create failed: runc-amd-wrapper: %s","request":{"Handle":"6f2b"},"session":"1.2.7"}}`
)

// cases are real forms: amdgpu_device.c, amdgpu_job.c and gmc_v9_0.c to gmc_v12_0.c of the
// kernel (its later releases write "amdgpu: " once), Juju's runhook.go, the wrapper's refuse
// as the worker's garden server logs it, and Concourse's lager lines of atc/engine and
// atc/creds/vault.
var cases = []struct {
	alert, file  string
	fire, silent []string
	times        int // how many it takes
	labels       map[string]string
}{{
	alert: "AMDGPUResetFailed", file: syslog,
	fire: []string{
		"amdgpu 0000:03:00.0: amdgpu: GPU Recovery Failed: -110",
		"amdgpu 0000:03:00.0: amdgpu: GPU reset end with ret = -62",
		"amdgpu 0000:03:00.0: GPU reset end with ret = -62",
		"amdgpu 0000:03:00.0: [drm] GPU recovery disabled.",
		"amdgpu 0000:03:00.0: amdgpu: Mode2 reset failed!",
		"amdgpu 0000:03:00.0: amdgpu: GPU reset(2) failed",
		"amdgpu 0000:03:00.0: [drm] *ERROR* PSP resume failed",
	},
	silent: []string{
		"amdgpu 0000:03:00.0: amdgpu: GPU reset begin!",
		"amdgpu 0000:03:00.0: amdgpu: GPU reset(1) succeeded!",
		"amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=17, emitted seq=19",
		`watching for "GPU Recovery Failed" and "GPU reset end with ret ="`,
	},
	labels: map[string]string{"pci_bus_id": "0000:03:00.0", "instance": "juju-0"},
}, {
	alert: "AMDGPUPageFault", file: syslog,
	fire: []string{
		"amdgpu 0000:03:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:12 pasid:32773, for process rocm-bandwidth- pid 8285 thread rocm-bandwidth- pid 8285)",
		"amdgpu 0000:03:00.0: amdgpu: [gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:3 pasid:32771)",
		"amdgpu 0000:03:00.0: amdgpu: [mmhub0] retry page fault (src_id:0 ring:0 vmid:3 pasid:32771)",
		"amdgpu 0000:03:00.0: [gfxhub] page fault (src_id:0 ring:88 vmid:6 pasid:32809)",
		"amdgpu 0000:03:00.0: GPU fault detected: 146 0x0480880c",
	},
	silent: []string{
		"amdgpu 0000:03:00.0: amdgpu:   in page starting at address 0x00007f0000000000 from client 10",
		"DMAR: [DMA Read] Request device [03:00.0] page fault (src_id: 1)",
		"python3[11]: segfault at 10 ip 00007f2338eba517 sp 00007ffe298400c0 error 4 in libc.so.6",
	},
	labels: map[string]string{"pci_bus_id": "0000:03:00.0", "instance": "juju-0"},
}, {
	alert: "ConcourseTaskRefused", file: syslog,
	fire: []string{
		fmt.Sprintf(refused, `cannot give the task the GPUs of AMD_VISIBLE_DEVICES=\"7\": there is none of that number`),
		fmt.Sprintf(refused, "cannot read /etc/cdi/amd.json: no such file or directory"),
	},
	silent: []string{
		fmt.Sprintf(refused, "cannot lease 1 GPU: 0 of 1 are free; 0 (GPU-0123456789abcdef) is held by the task of container 6f2b"),
		strings.Replace(fmt.Sprintf(refused, ""), "runc-amd-wrapper: ", "runc: cannot allocate memory", 1),
		"runc-amd-wrapper 1.0.0",
	},
	labels: map[string]string{"instance": "juju-0"},
}, {
	alert: "ConcoursePanicked", file: syslog,
	fire: []string{
		`{"timestamp":"2026-08-01T11:59:00.000000000Z","level":"error","source":"atc","message":"atc.tracker.track.panic-in-engine-build-step-run","data":{"build":"12","error":"panic in running build plan 12: runtime error: invalid memory address or nil pointer dereference","session":"26.1"}}`,
		`{"timestamp":"2026-08-01T11:59:00.000000000Z","level":"error","source":"atc","message":"atc.scheduler.panic-in-scheduler-run","data":{"error":"panic in scheduling job 3: x","session":"17"}}`,
	},
	silent: []string{
		`{"timestamp":"2026-08-01T11:59:00.000000000Z","level":"info","source":"atc","message":"atc.tracker.track.finished","data":{"build":"12","job":"panic-in-","session":"26.1"}}`,
		"a task says: panic-in-engine-build-step-run",
	},
	labels: map[string]string{"instance": "juju-0"},
}, {
	alert: "ConcourseVaultLoginFailing", file: syslog, times: 3,
	fire: []string{
		`{"timestamp":"2026-08-01T11:59:00.000000000Z","level":"error","source":"atc","message":"atc.credential-manager.login.failed","data":{"error":"Error making API request.\n\nURL: PUT https://10.0.0.8:8200/v1/auth/approle/login\nCode: 400. Errors:\n\n* invalid role or secret ID","name":"vault","session":"4.1"}}`,
		`{"timestamp":"2026-08-01T11:59:00.000000000Z","level":"error","source":"atc","message":"atc.credential-manager.login.vault-login-auth-missing","data":{"error":"unexpected vault login response","name":"vault","session":"4.1"}}`,
	},
	silent: []string{
		`{"timestamp":"2026-08-01T11:59:00.000000000Z","level":"info","source":"atc","message":"atc.credential-manager.login.succeeded","data":{"lease-duration":3600,"name":"vault","session":"4.1"}}`,
		`{"timestamp":"2026-08-01T11:59:00.000000000Z","level":"error","source":"atc","message":"atc.credential-manager.renew.failed","data":{"error":"x","name":"vault","session":"4.2"}}`,
	},
	labels: map[string]string{"instance": "juju-0"},
}, {
	alert: "ConcourseHookFailed", file: unitLog,
	fire: []string{
		`2026-08-01 11:59:00 ERROR juju.worker.uniter.operation runhook.go:180 hook "config-changed" (via hook dispatching script: dispatch) failed: exit status 1`,
		`2026-08-01 11:59:00 ERROR juju.worker.uniter.operation hook "config-changed" (via hook dispatching script: dispatch) failed: signal: terminated`,
	},
	silent: []string{
		`2026-08-01 11:59:00 INFO juju.worker.uniter.operation runhook.go:186 ran "config-changed" hook (via hook dispatching script: dispatch)`,
		`2026-08-01 11:59:00 INFO unit.rocm-worker/0.juju-log server.go:411 said: hook "config-changed" (via hook dispatching script: dispatch) failed: x`,
	},
	labels: map[string]string{"hook": "config-changed", "instance": "juju-0"},
}}

// forms are a line as the journal hands it on, and as rsyslog writes it.
func forms(file, line string) []string {
	if file != syslog {
		return []string{line}
	}
	return []string{line, "2026-08-01T11:59:00.123456+00:00 juju-0 kernel: [  203.051575] " + line, "Aug  1 11:59:00 juju-0 concourse[812]: " + line}
}

// eachLine runs a case's lines through each agent's streams, and gives what did not do as
// the case reports.
func eachLine(t *testing.T, text string) (wrong []string) {
	t.Helper()
	tested := map[string]bool{}
	for _, agent := range []string{"grafana-agent", "opentelemetry-collector"} {
		rules := evaluated(t, text, agent)
		for _, c := range cases {
			tested[c.alert] = true
			r := rules[c.alert]
			times := max(1, c.times)
			for _, stream := range streams(agent, c.file) {
				note := func(ok bool, what, line string) {
					if !ok {
						wrong = append(wrong, fmt.Sprintf("%s %s of %s: %s", c.alert, what, stream["job"], line))
					}
				}
				for _, line := range c.fire {
					for _, form := range forms(c.file, line) {
						lines := make([]string, times)
						for i := range lines {
							lines[i] = form + strings.Repeat(" ", i)
						}
						got := fires(t, r, stream, time.Minute, lines...)
						note(len(got) == 1, "is silent", form)
						if len(got) == 1 {
							for name, value := range c.labels {
								note(got[0].Metric.Get(name) == value, "lacks "+name, form)
							}
						}
						note(len(fires(t, r, stream, 9*time.Minute, lines...)) == 1, "forgets", form)
						note(len(fires(t, r, stream, 11*time.Minute, lines...)) == 0, "does not end", form)
						note(len(fires(t, r, stream, time.Minute, lines[1:]...)) == 0, "hurries", form)
					}
				}
				for _, line := range c.silent {
					for _, form := range forms(c.file, line) {
						lines := make([]string, 9)
						for i := range lines {
							lines[i] = form + strings.Repeat(" ", i)
						}
						note(len(fires(t, r, stream, time.Minute, lines...)) == 0, "fires", form)
					}
				}
			}
		}
		for name := range rules {
			require.True(t, tested[name], "%s has no case", name)
		}
	}
	return wrong
}

func TestRulesFireOnTheirLinesAndOnNoOthers(t *testing.T) {
	require.Empty(t, eachLine(t, shipped(t)))
}

// A machine has other charms' units, and an agent's application runs beside several.
func TestHooksOfOthersReportThemselves(t *testing.T) {
	r := evaluated(t, shipped(t), "grafana-agent")["ConcourseHookFailed"]
	hook := cases[len(cases)-1].fire[0]
	for file, fired := range map[string]int{
		unitLog:                                    1,
		"/var/log/juju/unit-rocm-worker-11.log":    1,
		"/var/log/juju/unit-rocm-worker-b-0.log":   0,
		"/var/log/juju/unit-old-rocm-worker-0.log": 0,
		"/var/log/juju/unit-grafana-agent-0.log":   0,
		syslog:                                     0,
	} {
		require.Len(t, fires(t, r, streams("grafana-agent", file)[0], time.Minute, hook), fired, file)
	}
}

// What the library's own topology would do to rules on a machine's logs.
func TestRuleThatNamesItsApplicationNeverFires(t *testing.T) {
	text := strings.ReplaceAll(shipped(t), "category: amd", "category: amd\n          juju_application: rocm-worker")
	r := evaluated(t, text, "grafana-agent")["AMDGPUPageFault"]
	require.Empty(t, fires(t, r, streams("grafana-agent", syslog)[0], time.Minute, cases[1].fire[0]))
}

// Each line is a fault that such rules could have; the cases must see it.
func TestFaultsInTheRulesAreNoticed(t *testing.T) {
	text := shipped(t)
	for fault, with := range map[string]string{
		`\*ERROR\* )*(?:PSP resume failed`:        `\*ERROR\* )+(?:PSP resume failed`,
		`(?:PSP resume failed|`:                   `(?:`,
		`\[.*?\] no-retry page fault \(src_id:|`:  ``,
		` != " are free"`:                         ``,
		`"message":"[^"]*\.panic-in-[a-z-]+"`:     `panic-in-`,
		`>= 3`:                                    `> 0`,
		`"level":"error".*"message"`:              `"message"`,
		` ERROR juju\.worker\.uniter\.operation `: ``,
	} {
		require.Equal(t, 1, strings.Count(text, fault), fault)
		require.NotEmpty(t, eachLine(t, strings.Replace(text, fault, with, 1)), fault)
	}
	for _, alert := range cases {
		at := strings.Index(text, "alert: "+alert.alert)
		for window, with := range map[string]string{"[10m]": "[5m]"} {
			require.NotEmpty(t, eachLine(t, text[:at]+strings.Replace(text[at:], window, with, 1)), alert.alert)
		}
	}
}
