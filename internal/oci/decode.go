package oci

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"concourse-ci-machine/internal/base/rawjson"
	"concourse-ci-machine/internal/pool/clockpin"
	"concourse-ci-machine/internal/pool/lease"
)

// settings are a Config as the wrapper uses it.
type settings struct {
	Config
	env       []string // NAME=value, in place of Config.Env, in the order of the file
	rootfsEnv []rootfsEnv
}

// CheckConfig says what the wrapper would not take of a config file's content,
// for those who write one.
func CheckConfig(data []byte) error {
	_, err := decodeConfig(data)
	return err
}

// decodeConfig reads a config file's content, fills in the defaults and checks it.
func decodeConfig(data []byte) (*settings, error) {
	doc, err := rawjson.Parse(data)
	if err != nil {
		return nil, err
	}
	c := new(settings)
	var invalid []string
	err = fields(doc.Root(), func(key string, v rawjson.Value) (err error) {
		switch key {
		case "runtime":
			c.Runtime, err = text(v)
		case "containers":
			c.Containers, err = text(v)
		case "specs":
			c.Specs, err = texts(v)
		case "devices":
			c.Devices, err = texts(v)
		case "state":
			c.State, err = text(v)
		case "nodes":
			c.Nodes, err = text(v)
		case "visible":
			c.Visible, err = texts(v)
		case "env":
			c.env, invalid, err = pairs(v)
		case "rootfs_env":
			c.rootfsEnv, err = decodeRootfsEnv(v)
		case "folders":
			c.Folders, err = decodeFolders(v)
		case "tools":
			c.Tools, err = text(v)
		case "ca_certificates":
			c.CACertificates, err = text(v)
		case "leases":
			c.Leases, err = decodeLeases(v)
		case "withheld":
			c.Withheld, err = decodeWithheld(v)
		case "missing":
			c.Missing, err = text(v)
		default:
			err = errUnknownField
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(invalid) > 0 {
		return nil, fmt.Errorf("env: %q can't be set as an environment variable", invalid[0])
	}
	c.fill()
	if err := c.check(); err != nil {
		return nil, err
	}
	return c, nil
}

var errUnknownField = errors.New("this version of the wrapper does not know it")

// fields calls each for the members of an object, none of which may be twice.
func fields(v rawjson.Value, each func(string, rawjson.Value) error) error {
	if v.Kind() != rawjson.Object {
		return fmt.Errorf("it is %s, not an object", v.Kind())
	}
	var seen []string
	for key, member := range v.Members() {
		if slices.Contains(seen, key) {
			return fmt.Errorf("%q is there twice", key)
		}
		seen = append(seen, key)
		if err := each(key, member); err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
	}
	return nil
}

func decodeFolders(v rawjson.Value) (*Folders, error) {
	if v.None() {
		return nil, nil
	}
	var f Folders
	return &f, fields(v, func(key string, v rawjson.Value) (err error) {
		switch key {
		case "root":
			f.Root, err = text(v)
		case "containers":
			f.Containers, err = text(v)
		case "names":
			f.Names, err = texts(v)
		case "readonly":
			f.Readonly, err = text(v)
		default:
			err = errUnknownField
		}
		return err
	})
}

func text(v rawjson.Value) (string, error) { return v.Text(), v.As(rawjson.String) }

func texts(v rawjson.Value) (list []string, err error) {
	if err := v.As(rawjson.Array); err != nil {
		return nil, err
	}
	for e := range v.Elements() {
		if e.Kind() != rawjson.String {
			return nil, fmt.Errorf("one of them is %s, not a string", e.Kind())
		}
		list = append(list, e.Text())
	}
	return list, nil
}

// pairs are the members of an object of strings, each as NAME=value, and the
// names of those that no environment can have.
func pairs(v rawjson.Value) (list, invalid []string, err error) {
	if v.None() {
		return nil, nil, nil
	}
	err = fields(v, func(key string, v rawjson.Value) error {
		if v.Kind() != rawjson.String {
			return fmt.Errorf("it is %s, not a string", v.Kind())
		}
		if !isEnvName(key) || strings.IndexByte(v.Text(), 0) >= 0 {
			invalid = append(invalid, key)
		}
		list = append(list, key+"="+v.Text())
		return nil
	})
	return list, invalid, err
}

func (c *Config) fill() {
	standard := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	standard(&c.Containers, Tasks)
	standard(&c.State, defaultState)
	standard(&c.Nodes, DefaultNodes)
	if c.Folders != nil {
		standard(&c.Folders.Containers, Tasks)
		standard(&c.Folders.Readonly, Recursive)
	}
	if c.Leases != nil {
		standard(&c.Leases.Dir, lease.DefaultDir)
		if c.Leases.Bench != nil {
			standard(&c.Leases.Bench.Dir, clockpin.DefaultDir)
		}
	}
}

// check says what is wrong with a config whose defaults are filled in. Runtime
// may be empty, since the environment may name it.
func (c *Config) check() error {
	if err := whichContainers(c.Containers, Tasks, Asked, All); err != nil {
		return err
	}
	paths := [][2]string{{"state", c.State}, {"nodes", c.Nodes}}
	if c.Runtime != "" {
		paths = append(paths, [2]string{"runtime", c.Runtime})
	}
	for _, s := range c.Specs {
		paths = append(paths, [2]string{"specs", s})
	}
	if c.Tools != "" {
		paths = append(paths, [2]string{"tools", c.Tools})
	}
	if c.CACertificates != "" {
		paths = append(paths, [2]string{"ca_certificates", c.CACertificates})
	}
	if c.Folders != nil {
		paths = append(paths, [2]string{"folders: root", c.Folders.Root})
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
	for _, name := range c.Visible {
		if !isEnvName(name) {
			return fmt.Errorf("visible: %q is not a name of an environment variable", name)
		}
	}
	if err := c.Leases.check(c.Devices); err != nil {
		return err
	}
	if err := c.Withheld.check(); err != nil {
		return err
	}
	return c.Folders.check()
}

func whichContainers(s string, known ...string) error {
	if !slices.Contains(known, s) {
		return fmt.Errorf("containers: %q is not one of %s", s, strings.Join(known, ", "))
	}
	return nil
}

func (f *Folders) check() error {
	if f == nil {
		return nil
	}
	if err := whichContainers(f.Containers, Tasks, All); err != nil {
		return fmt.Errorf("folders: %w", err)
	}
	if f.Readonly != Recursive && f.Readonly != TopOnly {
		return fmt.Errorf("folders: readonly: %q is not one of %s, %s", f.Readonly, Recursive, TopOnly)
	}
	for _, name := range f.Names {
		if why := FolderNameProblem(name); why != "" {
			return fmt.Errorf("folders: names: %q %s", name, why)
		}
	}
	return nil
}

func isEnvName(s string) bool {
	return s != "" && (s[0] < '0' || s[0] > '9') && !strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	})
}

// decodeRuntime reads nothing but the real runc's path, and forgives all else:
// a call such as `delete --force` has to pass with a config that create refuses.
func decodeRuntime(data []byte) (string, error) {
	doc, err := rawjson.Parse(data)
	if err != nil {
		return "", err
	}
	return doc.Root().StringOf("runtime")
}
