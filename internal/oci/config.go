package oci

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

// Where the wrapper looks when nothing else is said.
const (
	// DefaultConfig is the config file; the environment variable EnvConfig overrides it.
	DefaultConfig = "/etc/concourse-ci-machine/wrapper.json"
	// DefaultState holds markers of containers whose exec calls need a group.
	// Below /run, so that it goes with the containers at a reboot.
	DefaultState = "/run/concourse-ci-machine/wrapper"
	// DefaultNodes holds private device nodes. Below /dev, because /run is
	// mounted nodev and a node on it can't be opened.
	DefaultNodes = "/dev/.runc-amd"

	// EnvConfig names the config file in place of DefaultConfig.
	EnvConfig = "RUNC_AMD_CONFIG"
	// EnvRuntime names the real runc in place of Config.Runtime.
	EnvRuntime = "RUNC_AMD_RUNTIME"
)

// Values of Config.Containers.
const (
	// Tasks gives GPUs only to containers of Concourse task steps. Default.
	Tasks = "tasks"
	// All gives GPUs to every container that is created, checks and gets too.
	All = "all"
)

// Config is the wrapper's config file. The charm writes it by marshalling this
// type, so that both sides always agree on the names; a field that the wrapper
// does not know is an error, because it would be a setting silently ignored.
type Config struct {
	// Runtime is the absolute path of the real runc.
	Runtime string `json:"runtime"`
	// Containers is Tasks or All; empty means Tasks.
	Containers string `json:"containers,omitempty"`
	// Specs are absolute paths of the CDI spec files (JSON) that Devices are
	// looked up in, usually /etc/cdi/amd.json alone.
	Specs []string `json:"specs,omitempty"`
	// Devices are the full CDI names that tasks of this unit get, such as
	// amd.com/gpu=all or amd.com/gpu=GPU-1a2b3c. None is no error: tasks then
	// run without a GPU, and no spec file is read.
	Devices []string `json:"devices,omitempty"`
	// State is a directory for markers; empty means DefaultState.
	State string `json:"state,omitempty"`
	// Nodes is a directory for private device nodes; empty means DefaultNodes.
	// Its file system must not be mounted nodev.
	Nodes string `json:"nodes,omitempty"`
}

// DecodeConfig reads a config file's content, fills in the defaults and checks it.
func DecodeConfig(data []byte) (Config, error) {
	var c Config
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return Config{}, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); err != io.EOF {
		return Config{}, errors.New("more than one JSON value")
	}
	for _, f := range []struct {
		field    *string
		standard string
	}{{&c.Containers, Tasks}, {&c.State, DefaultState}, {&c.Nodes, DefaultNodes}} {
		if *f.field == "" {
			*f.field = f.standard
		}
	}
	return c, c.check()
}

// check says what is wrong with a config whose defaults are filled in. Runtime
// may be empty, since the environment may name it.
func (c Config) check() error {
	if c.Containers != Tasks && c.Containers != All {
		return fmt.Errorf("containers: %q is not one of %s, %s", c.Containers, Tasks, All)
	}
	paths := [][2]string{{"state", c.State}, {"nodes", c.Nodes}}
	if c.Runtime != "" {
		paths = append(paths, [2]string{"runtime", c.Runtime})
	}
	for _, s := range c.Specs {
		paths = append(paths, [2]string{"specs", s})
	}
	for _, p := range paths {
		if !filepath.IsAbs(p[1]) {
			return fmt.Errorf("%s: %q is not an absolute path", p[0], p[1])
		}
	}
	for _, d := range c.Devices {
		kind, name, ok := strings.Cut(d, "=")
		if !ok || name == "" || !strings.Contains(kind, "/") {
			return fmt.Errorf("devices: %q is not a CDI name such as amd.com/gpu=0", d)
		}
	}
	if len(c.Devices) > 0 && len(c.Specs) == 0 {
		return errors.New("devices are given but no specs to find them in")
	}
	return nil
}

// decodeRuntime reads nothing but the real runc's path, and forgives all else:
// a call such as `delete --force` has to pass with a config that create refuses.
func decodeRuntime(data []byte) (string, error) {
	var c struct {
		Runtime string `json:"runtime"`
	}
	err := json.NewDecoder(bytes.NewReader(data)).Decode(&c)
	return c.Runtime, err
}
