// Package config is the charm's options: one table that names each option,
// its type and default, and checks its value. Parse reports every problem at
// once. What an option does is not decided here.
package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Config is the charm's options after validation.
type Config struct {
	Mode           string // worker (web and auto are known, and refused for now)
	Version        string // "" or x.y.z
	ReleaseMirror  string
	ReleaseSHA256  string // "" or 64 lower-case hex digits
	LogLevel       string
	Tags           []string
	ComputeRuntime string // none, auto, cuda, rocm; enable-gpu is worked in
	GPUDeviceIDs   string // as written; internal/gpu.Select understands it
	HSAOverride    string // "", auto or 11.0.0
	TaskEnv        map[string]string
	Folders        []string // of /srv; nil with NoFolders unset means all
	NoFolders      bool
	FoldersFor     string // tasks, all
	Toolkit        string // auto, required, skip
	ToolkitVersion string
	ROCmBaseURL    string
	DCGMAliases    bool
	DNSProxy       bool
	DNSServers     []string
	DrainTimeout   time.Duration
	HTTPProxy      string // may hold a password: never logged
	HTTPSProxy     string // may hold a password: never logged
	NoProxy        string
}

// Problem is a value that an option can't have.
type Problem struct {
	Option string
	Text   string // without the option's name
}

func (p Problem) String() string { return p.Option + ": " + p.Text }

// Option is one row of the table. A test holds it against config.yaml.
type Option struct {
	Name    string
	Default any // string or bool
	// set checks the value and puts it into the config; its error is the
	// problem's text.
	set func(c *Config, v any) error
}

// Options returns the table, in the order of config.yaml.
func Options() []Option {
	return []Option{
		{"mode", "auto", text(func(c *Config, s string) error {
			c.Mode = s
			switch s {
			case "worker":
				return nil
			case "web", "auto":
				return fmt.Errorf("%q is not available in this version of the charm; set mode=worker", s)
			}
			return oneOf(s, "auto", "web", "worker")
		})},
		{"version", "", text(func(c *Config, s string) error { c.Version = s; return version(s) })},
		{"release-mirror", "", text(func(c *Config, s string) error {
			c.ReleaseMirror = strings.TrimRight(s, "/")
			return httpURL(s)
		})},
		{"release-sha256", "", text(func(c *Config, s string) error {
			c.ReleaseSHA256 = strings.ToLower(s)
			if s != "" && !sha256Form.MatchString(c.ReleaseSHA256) {
				return fmt.Errorf("%q is not a SHA-256: want the 64 hex digits that sha256sum prints", s)
			}
			return nil
		})},
		{"log-level", "info", text(func(c *Config, s string) error {
			c.LogLevel = s
			return oneOf(s, "debug", "info", "warn", "error", "fatal")
		})},
		{"tag", "", text(func(c *Config, s string) (err error) { c.Tags, err = list(s, tag); return err })},
		{"compute-runtime", "none", text(func(c *Config, s string) error {
			c.ComputeRuntime = s
			return oneOf(s, "none", "auto", "cuda", "rocm")
		})},
		{"enable-gpu", false, func(c *Config, v any) error {
			if on, err := boolean(v); err != nil {
				return err
			} else if on && c.ComputeRuntime == "none" {
				c.ComputeRuntime = "auto"
			}
			return nil
		}},
		{"gpu-device-ids", "all", text(func(c *Config, s string) error { c.GPUDeviceIDs = s; return nil })},
		{"hsa-override-gfx-version", "", text(func(c *Config, s string) error {
			c.HSAOverride = s
			if s != "" && s != "auto" && !versionForm.MatchString(s) {
				return fmt.Errorf("%q is not empty, auto or a version like 11.0.0", s)
			}
			return nil
		})},
		{"task-env", "", text(func(c *Config, s string) (err error) { c.TaskEnv, err = environment(s); return err })},
		{"srv-folders", "all", text(func(c *Config, s string) (err error) {
			if c.NoFolders = s == "none" || s == ""; c.NoFolders || s == "all" {
				return nil
			}
			c.Folders, err = list(s, folder)
			return err
		})},
		{"srv-folders-containers", "tasks", text(func(c *Config, s string) error {
			c.FoldersFor = s
			return oneOf(s, "tasks", "all")
		})},
		{"amd-container-toolkit", "auto", text(func(c *Config, s string) error {
			c.Toolkit = s
			return oneOf(s, "auto", "required", "skip")
		})},
		{"amd-container-toolkit-version", "1.2.0", text(func(c *Config, s string) error {
			c.ToolkitVersion = s
			if !versionForm.MatchString(s) {
				return fmt.Errorf("%q is not a version like 1.2.0", s)
			}
			return nil
		})},
		{"rocm-base-url", "", text(func(c *Config, s string) error {
			c.ROCmBaseURL = strings.TrimRight(s, "/")
			return httpURL(s)
		})},
		{"exporter-dcgm-aliases", false, func(c *Config, v any) (err error) { c.DCGMAliases, err = boolean(v); return err }},
		{"containerd-dns-proxy-enable", false, func(c *Config, v any) (err error) { c.DNSProxy, err = boolean(v); return err }},
		{"containerd-dns-server", "1.1.1.1,8.8.8.8", text(func(c *Config, s string) (err error) {
			c.DNSServers, err = list(s, address)
			return err
		})},
		{"worker-drain-timeout", "10m", text(func(c *Config, s string) (err error) {
			c.DrainTimeout, err = time.ParseDuration(s)
			if err != nil || c.DrainTimeout < 0 || c.DrainTimeout > 24*time.Hour {
				return fmt.Errorf("%q is not a time between 0s and 24h, such as 30s, 10m or 1h", s)
			}
			return nil
		})},
		{"http-proxy", "", text(func(c *Config, s string) error { c.HTTPProxy = s; return secretURL(s) })},
		{"https-proxy", "", text(func(c *Config, s string) error { c.HTTPSProxy = s; return secretURL(s) })},
		{"no-proxy", "", text(func(c *Config, s string) error {
			c.NoProxy = s
			if strings.ContainsAny(s, " \t\r\n\"'\\") {
				return fmt.Errorf("%q has white space, quotes or backslashes; want hosts with commas between them", s)
			}
			return nil
		})},
	}
}

// Parse reads what config-get gave. Options without a value have their
// default. The Config is complete only if there are no problems.
func Parse(raw map[string]any) (Config, []Problem) {
	var c Config
	var problems []Problem
	for _, o := range Options() {
		v, ok := raw[o.Name]
		if !ok || v == nil {
			v = o.Default
		}
		if err := o.set(&c, v); err != nil {
			problems = append(problems, Problem{o.Name, err.Error()})
		}
	}
	return c, problems
}

var (
	versionForm = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`)
	sha256Form  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	tagForm     = regexp.MustCompile(`^[^\s,"'\\$%[:cntrl:]]+$`)
)

func text(set func(*Config, string) error) func(*Config, any) error {
	return func(c *Config, v any) error {
		s, ok := v.(string)
		if !ok {
			return fmt.Errorf("%v is not text", v)
		}
		return set(c, strings.TrimSpace(s))
	}
}

func boolean(v any) (bool, error) {
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("%v is not true or false", v)
	}
	return b, nil
}

func oneOf(s string, legal ...string) error {
	for _, l := range legal {
		if s == l {
			return nil
		}
	}
	return fmt.Errorf("%q is not one of %s", s, strings.Join(legal, ", "))
}

func version(s string) error {
	switch {
	case s == "" || versionForm.MatchString(s):
		return nil
	case strings.HasPrefix(s, "v") && versionForm.MatchString(s[1:]):
		return fmt.Errorf("%q has a leading v; write %s", s, s[1:])
	}
	return fmt.Errorf("%q is not a version like 8.2.5; leave it empty for the web's own version", s)
}

// list splits at commas and checks every part; "" is no parts.
func list(s string, check func(string) error) ([]string, error) {
	if s == "" {
		return nil, nil
	}
	var out []string
	for part := range strings.SplitSeq(s, ",") {
		part = strings.TrimSpace(part)
		if err := check(part); err != nil {
			return nil, err
		}
		out = append(out, part)
	}
	return out, nil
}

func tag(s string) error {
	if !tagForm.MatchString(s) {
		return fmt.Errorf("%q is not a tag: want words with commas between them, without white space or quotes", s)
	}
	return nil
}

func address(s string) error {
	if _, err := netip.ParseAddr(s); err != nil {
		return fmt.Errorf("%q is not an IP address; want addresses with commas between them", s)
	}
	return nil
}

func httpURL(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("%q is not an http or https URL", s)
	}
	return nil
}

// secretURL is httpURL for a value that may hold a password: its problem
// does not repeat the value (statuses and logs are read by many).
func secretURL(s string) error {
	if httpURL(s) != nil || strings.ContainsAny(s, " \t\r\n\"'\\") {
		return fmt.Errorf("the value is not a URL like http://proxy.example:3128")
	}
	return nil
}
