package concourse

import (
	"maps"
	"path"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// WorkerOptions holds the options of the charm that are one variable of the worker each. A
// field has the name of its option.
type WorkerOptions struct {
	ContainerdDNSProxyEnable bool
	ContainerdDNSServer      []string // not used with the proxy; empty: the machine's servers (D31)
}

// WorkerConfig holds the input of the worker's environment.
type WorkerConfig struct {
	WorkerOptions
	Name     string // see WorkerName
	WorkDir  string // see WorkFolder
	LogLevel string // debug, info, warn, error, fatal
	TSA      TSA
	Tags     []string
	Wrapped  bool // run containerd through Launcher, so that shims find Wrapper
	Proxy    resource.Proxies
	// MaxTasks is the number of tasks that the worker takes at once, or 0 for no limit.
	// Only a release that LimitsItself supports it.
	MaxTasks int
	Tracing  Tracing
	// CertsDir, in CertsFolders, is mounted as /etc/ssl/certs in checks, gets and puts. If
	// it is empty they keep their own.
	CertsDir string
}

const (
	// CertsFolders has the charm's folders of certificates. A CONCOURSE_CERTS_DIR outside
	// it belongs to the operator and stays.
	CertsFolders = "/opt/concourse-ci-machine/certs"
	certsDir     = "CONCOURSE_CERTS_DIR"
)

// workerVariables is the complete environment of the worker. An operator overrides a
// variable in OperatorEnvFile, which systemd reads later.
var workerVariables = envTable[WorkerConfig]{
	{"CONCOURSE_NAME", func(c WorkerConfig) string { return c.Name }},
	{"CONCOURSE_LOG_LEVEL", func(c WorkerConfig) string { return c.LogLevel }},
	{"CONCOURSE_TSA_HOST", func(c WorkerConfig) string { return strings.Join(c.TSA.Hosts, ",") }},
	{"CONCOURSE_TSA_PUBLIC_KEY", fixed[WorkerConfig](TSAHostKey)},
	{"CONCOURSE_TSA_WORKER_PRIVATE_KEY", fixed[WorkerConfig](WorkerKey)},
	{"CONCOURSE_WORK_DIR", func(c WorkerConfig) string { return c.WorkDir }},
	{"CONCOURSE_RESOURCE_TYPES", fixed[WorkerConfig](resourceTypes)},
	{"CONCOURSE_RUNTIME", fixed[WorkerConfig]("containerd")},
	{"CONCOURSE_BAGGAGECLAIM_DRIVER", fixed[WorkerConfig]("naive")},
	// Other machines reach the worker through the web's tunnel only.
	{"CONCOURSE_BIND_IP", fixed[WorkerConfig]("127.0.0.1")},
	{"CONCOURSE_BIND_PORT", fixed[WorkerConfig](number(wellknown.ContainersPort))},
	{"CONCOURSE_HEALTHCHECK_BIND_IP", fixed[WorkerConfig]("127.0.0.1")},
	{"CONCOURSE_HEALTHCHECK_BIND_PORT", fixed[WorkerConfig]("8888")},
	{"CONCOURSE_TAG", func(c WorkerConfig) string { return strings.Join(c.Tags, ",") }},
	{certsDir, func(c WorkerConfig) string { return c.CertsDir }},
	{"http_proxy", func(c WorkerConfig) string { return c.Proxy.HTTP }},
	{"https_proxy", func(c WorkerConfig) string { return c.Proxy.HTTPS }},
	{"no_proxy", func(c WorkerConfig) string { return c.Proxy.No }},
	{"CONCOURSE_CONTAINERD_BIN", func(c WorkerConfig) string { return when(c.Wrapped, Launcher) }},
	{"CONCOURSE_CONTAINERD_DNS_PROXY_ENABLE", func(c WorkerConfig) string {
		return when(c.ContainerdDNSProxyEnable, "true")
	}},
	{"CONCOURSE_CONTAINERD_DNS_SERVER", func(c WorkerConfig) string {
		return when(!c.ContainerdDNSProxyEnable, strings.Join(c.ContainerdDNSServer, ","))
	}},
	{workerLimitKey, func(c WorkerConfig) string { return number(c.MaxTasks) }},

	// Concourse has no WORKER_PROCS. A separate config or PATH would replace the release's.
	{"CONCOURSE_WORKER_PROCS", nil},
	{"CONCOURSE_CONTAINERD_CONFIG", nil},
	{"PATH", nil},
	{"HTTP_PROXY", nil},
	{"HTTPS_PROXY", nil},
	{"NO_PROXY", nil},
}

// Env returns the environment by variable, without empty values.
func (c WorkerConfig) Env() map[string]string {
	env := workerVariables.env(c)
	maps.Copy(env, tracingVariables.env(c.Tracing))
	return env
}

// File returns EnvFile with this configuration and the operator's lines of existing.
func (c WorkerConfig) File(existing []byte) (resource.File, error) {
	env, certs := c.Env(), EnvValues(existing)[certsDir]
	ownCerts := certs != "" && path.Dir(certs) != CertsFolders
	if ownCerts {
		delete(env, certsDir)
	}
	data, err := renderEnv(existing, env, func(key string) bool {
		return workerVariables.owns(key) && (key != certsDir || !ownCerts) || ownsTracing(existing, key)
	})
	return resource.File{Path: EnvFile, Data: data, Mode: 0o640}, err
}

// when returns value if condition is true, otherwise "".
func when(condition bool, value string) string {
	if condition {
		return value
	}
	return ""
}
