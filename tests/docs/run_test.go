package docs

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
	"gopkg.in/yaml.v3"

	"concourse-ci-machine/internal/concourse/jobexporter"
	"concourse-ci-machine/internal/exporter"
	"concourse-ci-machine/internal/exporter/fleet"
	"concourse-ci-machine/internal/exporter/monitor"
	"concourse-ci-machine/internal/testutil/atctest"
	"concourse-ci-machine/internal/testutil/hosttest"
)

// checked are the programs whose commands other tests here hold to something:
// the charm's own files, texts and programs, the Makefile, or the program's help.
var checked = []string{"juju", "lxc", "make", "fly", "./dispatch", "dispatch", "gpukit", "go", "scripts/pass-gpu.sh", "scripts/mount-folder.sh", "scripts/share-storage.sh", "scripts/deploy-test.sh", "charmcraft"}

// tried are the programs whose commands TestCommandsRun runs, here and now.
var tried = []string{"curl", "jq", "promtool"}

// notRun are the commands of blocks that no test can run as they are, with the
// reason. A new one has to be put here, so that somebody has thought of it.
var notRun = map[string]string{
	// A newcomer's machine, before anything of this project is on it.
	"sudo snap install --classic concierge":                           "installs a program",
	"sudo concierge prepare":                                          "changes the machine; TestTutorialDeploysItsBundle has its file",
	"/opt/concourse-ci-machine/tools/gpu-baseline junit test-results": "in a task; tests/concourse runs it",
	// On a unit, or on an LXD host.
	"touch no-release": "an empty file",
	// docs/how-to/move-to-juju.md, whose commands tests/controller runs.
	"sudo concourse-ci-machine down": "needs a machine that runs a CI",
	`port=$(sed -n 's/^port = \([0-9]*\).*/\1/p' /etc/postgresql/*/concourse_*/postgresql.conf)`:                          "its database",
	`sudo -u postgres sh -c "umask 077 && pg_dump --format=custom --no-owner --port=$port concourse >~/concourse.dump"`: "its database",
	"systemctl stop concourse-server":   "a unit's service",
	"systemctl start concourse-server'": "a unit's service",
	`systemd-run --quiet --wait --pipe --property=EnvironmentFile=/var/lib/concourse/config.env sh -c "PGPASSWORD=\$CONCOURSE_POSTGRES_PASSWORD pg_restore --clean --if-exists --no-owner --single-transaction --host=\$CONCOURSE_POSTGRES_HOST --port=\$CONCOURSE_POSTGRES_PORT --username=\$CONCOURSE_POSTGRES_USER --dbname=\$CONCOURSE_POSTGRES_DATABASE /var/lib/postgresql/concourse.dump"`: "a unit's database",
	"git clone https://github.com/fourdollars/concourse-ci-machine": "fetches from the internet; TestClonesAreOfTheSource has the address",
	"cd concourse-ci-machine":                   "its folder",
	"git clone git@github.com:team/project.git": "a repository of the reader's",
	"cd project":                             "its folder",
	"git add benchmarks requirements-ci.txt": "in it; tests/pipelines runs the benchmark",
	`git commit -m "What CI needs"`:          "in it",
	"git push":                               "in it; tests/concourse pushes, and tags",
	"git tag v0.1.0":                         "in it",
	"git push origin v0.1.0":                 "in it",
	// Of a release.
	"git tag --annotate v1.0.0 --message 1.0.0": "a tag of this project",
	"git push origin v1.0.0":                    "starts the workflow release",
	"sudo snap install charmcraft --classic":    "installs a program",
	"touch concourse.tgz":                       "an empty file",
	"dispatch kubernetes manifest node-1 | kubectl apply --server-side --filename -":                        "wants a cluster; internal/kube/nodelabels has what it prints",
	"sudo install bin/gpu-device-plugin bin/dispatch /usr/local/bin/":                                       "root's folder",
	"dispatch kubernetes labels | sudo tee /etc/kubernetes/node-feature-discovery/features.d/concourse-gpu": "root's folder; internal/kube/nodelabels has what it prints",
	"sudo bin/gpu-device-plugin": "waits for a kubelet; tests/kubernetes runs it",
	"sudo systemctl disable --now concourse-pebble concourse-cdi-refresh.path concourse-cdi-refresh.timer": "stops services",
	"sudo rm -f /var/lib/concourse-worker/worker-config.env /var/lib/concourse/config.env":                 "takes a unit's files away",
	"sudo mkdir /srv/tools":                                                                                     "root's folder",
	"sudo install -m 755 gpu-proof /srv/tools/gpu-proof":                                                        "root's folder",
	"sudo cat /var/lib/concourse-charm/gpu-proof/0000:03:00.0.txt":                                              "a unit's file; internal/charm/watcher has its content",
	"concourse generate-key -t ssh -f worker_key":                                                               "Concourse's own; internal/charm/config reads what it writes",
	"sudo mkdir /srv/models":                                                                                    "root's folder",
	"sudo chmod 1777 /srv/cache_rw":                                                                             "root's folder",
	"sudo chown 1000 /srv/cache_rw":                                                                             "root's folder",
	"podman run --rm --device amd.com/gpu=0 rocm/rocm-terminal rocm-smi":                                        "tests/engines runs the same with an image of its own",
	"docker run --rm --device amd.com/gpu=all rocm/rocm-terminal rocm-smi":                                      "needs Docker 28.2 and a GPU",
	"docker run --rm --runtime amd -e AMD_VISIBLE_DEVICES=0 rocm/rocm-terminal rocm-smi":                        "tests/engines runs the same with an image of its own",
	"podman --runtime amd run --rm -e AMD_VISIBLE_DEVICES=0 rocm/rocm-terminal rocm-smi":                        "tests/engines runs the same with an image of its own",
	"nerdctl run --rm --runtime /usr/bin/runc-amd-wrapper -e GPU_COUNT=1 rocm/rocm-terminal rocm-smi":           "tests/engines runs the same with an image of its own",
	"sudo apt install ./concourse-ci-machine_amd64.deb":                                                         "installs a package; tests/packages does",
	"sudo concourse-ci-machine up":                                                                              "sets up this machine; tests/concourse does",
	"sudo concourse-ci-machine get-admin-password":                                                              "needs a machine with the CI; tests/concourse runs it",
	"sudo concourse-ci-machine status":                                                                          "needs a machine with the CI; tests/concourse runs it",
	"sudo concourse-ci-machine add-worker me@192.168.1.21":                                                      "needs two machines; tests/concourse joins one by a line",
	"sudo apt install ./gpukit_amd64.deb":                                                                       "installs a package; tests/packages does",
	"sudo dnf install ./gpukit_amd64.rpm":                                                                       "installs a package; tests/packages does, with rpm",
	"sudo apt install ./rocm-gpu-exporter_amd64.deb":                                                            "installs a package; tests/packages does",
	"sudo apt purge gpukit rocm-gpu-exporter":                                                                   "removes packages; tests/packages does",
	`sudo usermod -aG render,video "$USER"`:                                                                     "changes a user",
	"docker run --rm --runtime amd --gpus all rocm/rocm-terminal rocm-smi":                                      "needs Docker 28.3 and a GPU",
	"sudo ln -s /usr/bin/runc-amd-wrapper /usr/local/bin/amd-container-runtime":                                 "root's folder",
	"sudo systemctl restart docker":                                                                             "another program's service",
	"sudo systemctl restart containerd":                                                                         "another program's service",
	"sudo modprobe amdgpu":                                                                                      "loads a driver",
	"sudo apt-get install linux-modules-extra-$(uname -r)":                                                      "installs a package",
	"sudo nvidia-ctk cdi generate --format=json --output=/etc/cdi/nvidia.json":                                  "needs NVIDIA's tool and GPU; the text is the charm's own, see TestQuotedStatusesAreTheCodes",
	"sudo ctr --namespace k8s.io images import dist/images/concourse-gpu-node.tar":                              "the machine's containerd; tests/images imports it into its own",
	"kubectl apply --filename tools/images/gpu-node.yaml":                                                       "needs a cluster; tests/images reads the file",
	"scontrol update NodeName=node-1 State=DRAIN Reason=AMDGPUMemoryError":                                      "needs Slurm",
	"nvidia-smi --list-gpus":                                                                                    "needs NVIDIA's driver",
	"ls -l /dev/kfd /dev/dri":                                                                                   "needs a GPU",
	"sudo install fly /usr/local/bin/":                                                                          "root's folder",
	"cp src/prometheus_alert_rules/*.yaml /etc/prometheus/":                                                     "root's folder",
	"sha256sum concourse-8.2.5-linux-amd64.tgz":                                                                 "needs the release",
	"sudo /opt/concourse-ci-machine/runtime/runc wrapper-info":                                                  "the wrapper is tested in internal/oci and tests/container",
	"sudo PEBBLE=/var/lib/concourse-charm/pebble /opt/concourse-ci-machine/bin/pebble logs":                     "Pebble is tested in tests/pebble",
	"sudo PEBBLE=/var/lib/concourse-charm/pebble /opt/concourse-ci-machine/bin/pebble signal HUP rocm-exporter": "Pebble is tested in tests/pebble",
	"jq '{at, failure, stuck, gpus: (.gpus | length)}' /run/concourse-gpu-nvidia.json":                          "needs nvidia-smi; TestAnswerOfNVIDIASMIIsWritten has the file's fields",
	"/opt/concourse-ci-machine/bin/rocm-exporter --web.listen-address=:9443 --web.config.file=/etc/rocm-exporter/web.yml --usage.report=/run/concourse-gpu-usage.json": "a unit's program; TestExportersTakeTheWebConfigFile has its flags and file",
	"aws s3 sync s3://rocm-build/project/profiles/gfx90a ../profiles":                                                                                                  "needs a bucket",
	"gpu-baseline bisect v1.2.0..HEAD --profiles ../profiles --max-duration-pct 10 --dry-run -- sh -c true":                                                            "needs a project; src/gpu-baseline/baseline runs it",
	"cd terraform/examples/rocm": "a folder of the project",
	"watch -n 5 juju status":     "runs until it is ended; the command of juju is held to both clients",
	"tofu init":                  "fetches the provider; tests/terraform runs it",
	"tofu plan -var model_uuid=6a1f4d0e-3f2b-4c5d-8e9f-0a1b2c3d4e5f":  "asks a controller; tests/terraform plans the example without one",
	"tofu apply -var model_uuid=6a1f4d0e-3f2b-4c5d-8e9f-0a1b2c3d4e5f": "changes a controller",
	// Of programs that are tried otherwise.
	"bin/gpu-baseline --help":                                                                                   "a built program; src/gpu-baseline/baseline compares the flags with its page",
	"bin/rocm-exporter --web.listen-address=127.0.0.1:9401":                                                     "serves until it is stopped; tests/exporter runs it",
	"curl -fL -o fly 'http://10.0.0.10:8080/api/v1/cli?arch=amd64&platform=linux'":                              "needs a running web; scripts/deploy-test.sh does the same",
	"curl -fLO https://github.com/concourse/concourse/releases/download/v8.2.5/concourse-8.2.5-linux-amd64.tgz": "fetches from the internet",
	"promtool check config /etc/prometheus/prometheus.yml":                                                      "the page's own configuration is checked by TestPrometheusTakesTheConfiguration",
}

// shown are lines of blocks that are no commands: what is printed, and YAML.
var shown = regexp.MustCompile(`^\S+/\d+\*?\s+(active|blocked|waiting)\s|^params: \{`)

// A command that no test checks, runs or knows of is found here.
func TestEveryCommandOfABlockIsKnown(t *testing.T) {
	used := map[string]bool{}
	for page, md := range pages(t) {
		for _, line := range blockLines(md) {
			if shown.MatchString(line) {
				continue
			}
			if _, ok := notRun[line]; ok {
				used[line] = true
				continue
			}
			for _, argv := range simple(line) {
				known := slices.Contains(checked, argv[0]) || slices.Contains(tried, argv[0]) || argv[0] == "grep" && len(simple(line)) > 1
				assert.True(t, known, "%s: %s: nothing checks this command: run it in a test, or put it into notRun with the reason", page, line)
			}
		}
	}
	for line := range notRun {
		assert.True(t, used[line], "no page has this command any more: %s", line)
	}
}

// servers are the exporters as pages address them: those of GPUs on a fixture
// host with an AMD GPU, that of jobs at a web of the tests.
func servers(t *testing.T) *strings.Replacer {
	t.Helper()
	root := hosttest.Host(t, "amd")
	gpus := httptest.NewServer(exporter.Handler(&exporter.Source{Root: root, Version: "test", Monitor: monitor.New(root, monitor.All(root), monitor.Options{})}, exporter.MetricOptions{}))
	web := atctest.New(t)
	web.Set((*atctest.Server).Site)
	login := filepath.Join(t.TempDir(), "credentials.json")
	require.NoError(t, os.WriteFile(login, fmt.Appendf(nil, `{"url": %q, "username": "admin", "password": "s3 cr&t"}`, web.URL), 0o600))
	p := jobexporter.NewPoller(jobexporter.Options{CredentialsFile: login, Timeout: time.Minute, Keep: time.Hour, Now: time.Now, Logs: log.New(t.Output(), "", 0)})
	require.NoError(t, p.Poll(t.Context()))
	mux := jobexporter.Handler(p, false)
	page := fleet.New()
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	page.Flags(flags)
	require.NoError(t, flags.Parse([]string{"--fleet.file=" + filepath.Join(t.TempDir(), "fleet.json")}))
	page.Start(t.Context(), jobexporter.Surroundings{Site: p.Site, Get: jobexporter.NewGet(login, time.Now), Show: p.Show, Every: time.Minute, Version: "test", Logs: log.New(io.Discard, "", 0)}, mux)
	jobs := httptest.NewServer(mux)
	t.Cleanup(func() { gpus.Close(); jobs.Close() })
	return strings.NewReplacer("http://10.0.0.11:9401", gpus.URL, "http://127.0.0.1:9401", gpus.URL, "http://10.0.0.10:9358", jobs.URL)
}

// shell runs a line in the project's folder. A program that is not here is a
// reason to skip, not to pass.
func shell(t *testing.T, line string) string {
	t.Helper()
	for _, argv := range simple(line) {
		if _, err := exec.LookPath(argv[0]); err != nil && !strings.Contains(argv[0], "/") {
			t.Skipf("%s is not installed", argv[0])
		}
	}
	c := exec.CommandContext(t.Context(), "bash", "-o", "pipefail", "-c", line)
	c.Dir, c.Env = root, append(os.Environ(), "no_proxy=127.0.0.1", "NO_PROXY=127.0.0.1")
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	require.NoError(t, err, "%s\n%s%s", line, out.String(), errs.String())
	return out.String()
}

// What runs without Juju, LXD and a GPU is run as it stands on the page.
func TestCommandsRun(t *testing.T) {
	here := servers(t)
	ran := 0
	for page, md := range pages(t) {
		for _, line := range blockLines(md) {
			commands := simple(line)
			if _, not := notRun[line]; not || len(commands) == 0 || !slices.Contains(tried, commands[0][0]) {
				continue
			}
			ran++
			t.Run(page+" "+line, func(t *testing.T) {
				out := shell(t, here.Replace(line))
				require.NotEmpty(t, out)
				if strings.Contains(line, "jq ") {
					require.NotContains(t, out, ": null", "there is nothing of such a name")
				}
			})
		}
	}
	require.Greater(t, ran, 5)
}

// promtool exits with 3 if it has remarks. Dashboards of the Python charm use these names.
func TestPromtoolAcceptsTheMetrics(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not installed")
	}
	known := regexp.MustCompile(`^(rocm_memory|concourse_jobs|concourse_pipelines)_total non-counter metrics should not have "_total" suffix$`)
	here := servers(t)
	for _, url := range []string{"http://10.0.0.11:9401/metrics", "http://10.0.0.10:9358/metrics"} {
		resp, err := http.Get(here.Replace(url))
		require.NoError(t, err)
		c := exec.CommandContext(t.Context(), "promtool", "check", "metrics")
		var remarks bytes.Buffer
		c.Stdin, c.Stderr = resp.Body, &remarks
		err = c.Run()
		resp.Body.Close()
		if err != nil {
			require.Equal(t, 3, c.ProcessState.ExitCode(), "%s: %s", url, remarks.String())
		}
		for remark := range strings.Lines(remarks.String()) {
			require.Regexp(t, known, strings.TrimSpace(remark), url)
		}
	}
}

func TestURLsOfTheExportersAnswer(t *testing.T) {
	here, n := servers(t), 0
	path := regexp.MustCompile(`http://(?:10\.0\.0\.1[01]|127\.0\.0\.1):(?:9401|9358)[\w/-]*`)
	for page, md := range pages(t) {
		for _, url := range path.FindAllString(md, -1) {
			n++
			url := strings.Replace(url, "127.0.0.1:9358", "10.0.0.10:9358", 1)
			resp, err := http.Get(here.Replace(url))
			require.NoError(t, err, "%s: %s", page, url)
			resp.Body.Close()
			assert.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", page, url)
		}
	}
	require.Positive(t, n)
}

// The scripts say themselves which flags they take. deploy-test.sh shows what it
// would do; pass-gpu.sh asks Juju and LXD first, so tests/scripts runs it.
func TestScriptsTakeTheirFlags(t *testing.T) {
	flag := regexp.MustCompile(`(?m)^  (--[a-z-]+)`)
	for _, c := range commands(t, "scripts/pass-gpu.sh", "scripts/deploy-test.sh") {
		help := shell(t, c.argv[0]+" --help")
		var known []string
		for _, m := range flag.FindAllStringSubmatch(help, -1) {
			known = append(known, m[1])
		}
		for _, word := range c.argv[1:] {
			if name, _, _ := strings.Cut(word, "="); strings.HasPrefix(name, "-") {
				assert.Contains(t, known, name, "%s: %s", c.page, c.line)
			}
		}
		if c.argv[0] == "scripts/deploy-test.sh" && !c.span {
			require.Contains(t, shell(t, strings.Join(append(c.argv, "--dry-run"), " ")), "step", c.line)
		}
	}
}

func TestPrometheusTakesTheConfiguration(t *testing.T) {
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not installed")
	}
	config := ""
	for _, m := range fenced.FindAllStringSubmatch(readFile(t, "docs/how-to/monitoring.md"), -1) {
		if strings.Contains(m[2], "scrape_configs:") {
			config = m[2]
		}
	}
	require.NotEmpty(t, config)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o644))
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(root, "src/prometheus_alert_rules"))))
	out, err := exec.Command("promtool", "check", "config", filepath.Join(dir, "prometheus.yml")).CombinedOutput()
	require.NoError(t, err, string(out))
	entries, err := os.ReadDir(filepath.Join(root, "src/prometheus_alert_rules"))
	require.NoError(t, err)
	for _, e := range entries {
		require.Contains(t, config, "  - "+e.Name()+"\n", "it has no such rules")
	}
	// One alert finds the exporter by the name of its job.
	job := regexp.MustCompile(`up\{job=~"([^"]+)"\}`).FindStringSubmatch(readFile(t, "src/prometheus_alert_rules/amd-alerts.yaml"))
	require.NotNil(t, job)
	require.Regexp(t, `job_name: `+job[1]+`\n`, config)
}

func TestExportersTakeTheWebConfigFile(t *testing.T) {
	md := readFile(t, "docs/how-to/monitoring.md")
	_, text, ok := strings.Cut(md, "```yaml\ntls_server_config:")
	require.True(t, ok)
	text, _, _ = strings.Cut("tls_server_config:"+text, "```")
	var config web.Config
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	require.NoError(t, d.Decode(&config))
	require.True(t, config.TLSConfig.IsEnabled())
	require.NotEmpty(t, config.Users)
	for _, hash := range config.Users {
		_, err := bcrypt.Cost([]byte(hash))
		require.NoError(t, err)
	}
	help := readFile(t, "internal/exporter/testdata/help.txt")
	for _, m := range regexp.MustCompile(`(?m)^    /opt/.*/rocm-exporter (.*)$`).FindAllStringSubmatch(md, -1) {
		for flag := range strings.FieldsSeq(m[1]) {
			name, _, _ := strings.Cut(flag, "=")
			require.Contains(t, help, "\n  "+name+"=")
		}
	}
}

// The example of gpu-proof is a script that a shell reads.
func TestExampleOfGPUProofIsAScript(t *testing.T) {
	_, script, ok := strings.Cut(readFile(t, "docs/how-to/withheld-gpu.md"), "```text\n#!/bin/sh\n")
	require.True(t, ok)
	script, _, _ = strings.Cut(script, "```")
	c := exec.CommandContext(t.Context(), "sh", "-n")
	c.Stdin = strings.NewReader(script)
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
}
