package docs

import (
	"bytes"

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
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/concourse/jobexporter"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/fleet"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/monitor"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/atctest"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// checked are the programs whose commands other tests here hold to something:
// the charm's own files, texts and programs, the Makefile, or the program's help.
var checked = []string{"juju", "lxc", "make", "fly", "./dispatch", "dispatch", "gpukit", "go", "scripts/pass-gpu.sh", "scripts/mount-folder.sh", "scripts/share-storage.sh", "scripts/deploy-test.sh", "charmcraft"}

// tried matches the commands that TestCommandsRun runs, here and now.
var tried = regexp.MustCompile(`^(curl -s|promtool check rules) `)

// notRun are the commands of blocks that no test can run as they are, with the reason. A
// new one must be put here, so that someone has thought of it.
var notRun = map[string]string{
	// Of a release.
	"git tag --annotate v1.0.0 --message 1.0.0":                                    "a tag of this project",
	"install -D -m 644 metadata.yaml tools/charmpack/testdata/released/1.0.0.yaml": "changes this tree",
	"git push origin v1.0.0":                                                       "starts the workflow release",
	"sudo snap install charmcraft --classic":                                       "installs a program",
	"touch concourse.tgz":                                                          "an empty file",
	"sudo bin/gpu-device-plugin":                                                   "waits for a kubelet; tests/kubernetes runs it",
	"scontrol update NodeName=node-1 State=DRAIN Reason=AMDGPUMemoryError":         "needs Slurm",
	"sudo /opt/concourse-ci-machine/runtime/runc wrapper-info":                     "the wrapper is tested in internal/oci and tests/container",
	// Of programs that are tried otherwise.
	"bin/gpu-baseline --help":                                     "a built program; src/gpu-baseline/baseline compares the flags with its page",
	"bin/rocm-exporter serve --web.listen-address=127.0.0.1:9401": "serves until it is stopped; tests/exporter runs it",
}

// shown are lines of blocks that are no commands: what is printed, and YAML.
var shown = regexp.MustCompile(`^\S+/\d+\*?\s+(active|blocked|waiting)\s|^params: \{`)

// A command that no test checks, runs or knows of is found here. Commands of the tutorials
// and the how-to pages are run by tests/journeys, or have their reason on the page.
func TestEveryCommandOfABlockIsKnown(t *testing.T) {
	used := map[string]bool{}
	for page, md := range pages(t) {
		if page == "README.md" || strings.HasPrefix(page, "docs/tutorial/") || strings.HasPrefix(page, "docs/how-to/") {
			continue
		}
		for _, line := range blockLines(md) {
			if shown.MatchString(line) {
				continue
			}
			if _, ok := notRun[line]; ok {
				used[line] = true
				continue
			}
			for _, argv := range simple(line) {
				known := slices.Contains(checked, argv[0]) || tried.MatchString(line) || argv[0] == "grep" && len(simple(line)) > 1
				assert.True(t, known, "%s: %s: nothing checks this command: run it in a test, or put it into notRun with the reason", page, line)
			}
		}
	}
	for line := range notRun {
		assert.True(t, used[line], "no page has this command any more: %s", line)
	}
}

// servers are the exporters as pages address them: of GPUs on a fixture host with an AMD
// GPU, of jobs at a web of the tests.
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
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
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

// What runs without Juju, LXD and a GPU is run as it is on the page.
func TestCommandsRun(t *testing.T) {
	here := servers(t)
	ran := 0
	for page, md := range pages(t) {
		for _, line := range blockLines(md) {
			if !tried.MatchString(line) {
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
	require.GreaterOrEqual(t, ran, 5)
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

// The scripts print which flags they take. deploy-test.sh shows what it would
// do; pass-gpu.sh asks Juju and LXD first, so tests/scripts runs it.
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
	md := readFile(t, "docs/how-to/protect-metrics.md")
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
	help := readFile(t, "internal/exporter/testdata/serve.txt")
	for _, m := range regexp.MustCompile(`(?m)^    /opt/.*/rocm-exporter serve (.*)$`).FindAllStringSubmatch(md, -1) {
		for flag := range strings.FieldsSeq(m[1]) {
			name, _, _ := strings.Cut(flag, "=")
			require.Contains(t, help, "\n  "+name+"=")
		}
	}
}

// The example of gpu-health-check is a script that a shell reads.
func TestExampleOfGPUHealthCheckIsAScript(t *testing.T) {
	_, script, ok := strings.Cut(readFile(t, "docs/how-to/quarantined-gpu.md"), "```text\n#!/bin/sh\n")
	require.True(t, ok)
	script, _, _ = strings.Cut(script, "```")
	c := exec.CommandContext(t.Context(), "sh", "-n")
	c.Stdin = strings.NewReader(script)
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
}
