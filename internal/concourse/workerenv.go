package concourse

import (
	"slices"
	"strings"

	"concourse-ci-machine/internal/agreed"
	"concourse-ci-machine/internal/resource"
)

// WorkerConfig is what the worker's environment is made of.
type WorkerConfig struct {
	Name       string // see WorkerName
	WorkDir    string // see WorkFolder
	LogLevel   string // debug, info, warn, error, fatal
	TSA        TSA
	Tags       []string
	Wrapped    bool // run containerd through Launcher, so that shims find Wrapper
	DNSProxy   bool
	DNSServers []string // not used with DNSProxy; none: the machine's own (D31)
	Proxy      resource.Proxies
	// MaxTasks is how many tasks the worker takes at once, 0: any number. A
	// release that LimitsItself knows it.
	MaxTasks int
}

// Env is the environment, by variable. Nothing that is empty is in it.
func (c WorkerConfig) Env() map[string]string {
	env := map[string]string{
		"CONCOURSE_NAME":                   c.Name,
		"CONCOURSE_LOG_LEVEL":              c.LogLevel,
		"CONCOURSE_TSA_HOST":               c.TSA.Host,
		"CONCOURSE_TSA_PUBLIC_KEY":         TSAHostKey,
		"CONCOURSE_TSA_WORKER_PRIVATE_KEY": WorkerKey,
		"CONCOURSE_WORK_DIR":               c.WorkDir,
		"CONCOURSE_RESOURCE_TYPES":         resourceTypes,
		"CONCOURSE_RUNTIME":                "containerd",
		"CONCOURSE_BAGGAGECLAIM_DRIVER":    "naive",
		// Other machines reach the worker through the web's tunnel only.
		"CONCOURSE_BIND_IP":                     "127.0.0.1",
		"CONCOURSE_BIND_PORT":                   number(agreed.ContainersPort),
		"CONCOURSE_HEALTHCHECK_BIND_IP":         "127.0.0.1",
		"CONCOURSE_HEALTHCHECK_BIND_PORT":       "8888",
		"CONCOURSE_TAG":                         strings.Join(c.Tags, ","),
		"http_proxy":                            c.Proxy.HTTP,
		"https_proxy":                           c.Proxy.HTTPS,
		"no_proxy":                              c.Proxy.No,
		"CONCOURSE_CONTAINERD_DNS_SERVER":       strings.Join(c.DNSServers, ","),
		"CONCOURSE_CONTAINERD_BIN":              "",
		workerLimitKey:                          number(c.MaxTasks),
		"CONCOURSE_CONTAINERD_DNS_PROXY_ENABLE": "",
	}
	if c.DNSProxy {
		env["CONCOURSE_CONTAINERD_DNS_PROXY_ENABLE"] = "true"
		delete(env, "CONCOURSE_CONTAINERD_DNS_SERVER")
	}
	if c.Wrapped {
		env["CONCOURSE_CONTAINERD_BIN"] = Launcher
	}
	for key, value := range env {
		if value == "" {
			delete(env, key)
		}
	}
	return env
}

// File is EnvFile with this configuration; existing is what is there now.
func (c WorkerConfig) File(existing []byte) (resource.File, error) {
	data, err := renderEnv(existing, c.Env(), workerOwns)
	return resource.File{Path: EnvFile, Data: data, Mode: 0o640}, err
}

// retiredKeys are those that the predecessor wrote and that have no use any more:
// Concourse knows no WORKER_PROCS, and a config of our own or a PATH would replace
// what the release brings.
func retiredKeys() []string {
	return []string{"CONCOURSE_WORKER_PROCS", "CONCOURSE_CONTAINERD_CONFIG", "PATH", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}
}

// workerOwns reports whether this charm or its predecessor ever wrote the key. An
// operator overrides one of these in OperatorEnvFile, which is read later.
func workerOwns(key string) bool {
	if slices.Contains(retiredKeys(), key) {
		return true
	}
	full := WorkerConfig{Name: "x", WorkDir: "x", LogLevel: "x", TSA: TSA{Host: "x"}, Tags: []string{"x"}, Wrapped: true,
		DNSServers: []string{"x"}, Proxy: resource.Proxies{HTTP: "x", HTTPS: "x", No: "x"}, MaxTasks: 1}
	if _, ok := full.Env()[key]; ok {
		return true
	}
	full.DNSProxy = true
	_, ok := full.Env()[key]
	return ok
}
