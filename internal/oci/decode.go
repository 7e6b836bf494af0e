package oci

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"concourse-ci-machine/internal/base/rawjson"
	"concourse-ci-machine/internal/pool/clockpin"
)

// settings holds a Config in the form that the wrapper uses.
type settings struct {
	Config
	env       []string // NAME=value, replaces Config.Env, in the order of the file
	rootfsEnv []rootfsEnv
}

// CheckConfig returns the error that the wrapper would report for a config file's content.
// It is for programs that write one.
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
	err = eachField(doc.Root(), func(key string, v rawjson.Value) (err error) {
		switch key {
		case "runtime":
			c.Runtime, err = decodeString(v)
		case "containers":
			c.Containers, err = decodeString(v)
		case "specs":
			c.Specs, err = decodeStrings(v)
		case "devices":
			c.Devices, err = decodeStrings(v)
		case "state":
			c.State, err = decodeString(v)
		case "nodes":
			c.Nodes, err = decodeString(v)
		case "visible":
			c.Visible, err = decodeStrings(v)
		case "env":
			c.env, invalid, err = decodePairs(v)
		case "rootfs_env":
			c.rootfsEnv, err = decodeRootfsEnv(v)
		case "folders":
			c.Folders, err = decodeFolders(v)
		case "tools":
			c.Tools, err = decodeString(v)
		case "ca_certificates":
			c.CACertificates, err = decodeString(v)
		case "leases":
			c.Leases, err = decodeLeases(v)
		case "withheld":
			c.Quarantine, err = decodeQuarantine(v)
		case "missing":
			c.Missing, err = decodeString(v)
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
	c.setDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	return c, nil
}

var errUnknownField = errors.New("this version of the wrapper does not know it")

// eachField calls each for the members of an object and refuses a name that occurs twice.
func eachField(v rawjson.Value, each func(string, rawjson.Value) error) error {
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
	return &f, eachField(v, func(key string, v rawjson.Value) (err error) {
		switch key {
		case "root":
			f.Root, err = decodeString(v)
		case "containers":
			f.Containers, err = decodeString(v)
		case "names":
			f.Names, err = decodeStrings(v)
		case "readonly":
			f.Readonly, err = decodeString(v)
		default:
			err = errUnknownField
		}
		return err
	})
}

func decodeString(v rawjson.Value) (string, error) { return v.Text(), v.As(rawjson.String) }

func decodeStrings(v rawjson.Value) (list []string, err error) {
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

// decodePairs returns the members of an object of strings as NAME=value, and the names that
// cannot be environment variables.
func decodePairs(v rawjson.Value) (list, invalid []string, err error) {
	if v.None() {
		return nil, nil, nil
	}
	err = eachField(v, func(key string, v rawjson.Value) error {
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

// decodeRuntime reads only the real runc's path and ignores all other problems, because a
// call such as `delete --force` must pass with a config that create refuses.
func decodeRuntime(data []byte) (string, error) {
	doc, err := rawjson.Parse(data)
	if err != nil {
		return "", err
	}
	return doc.Root().StringOf("runtime")
}

func decodeBench(v rawjson.Value) (*Bench, error) {
	if v.None() {
		return nil, nil
	}
	var b Bench
	return &b, eachField(v, func(key string, v rawjson.Value) (err error) {
		switch key {
		case "dir":
			b.Dir, err = decodeString(v)
		case "gpus":
			b.GPUs, err = decodeBenchGPUs(v)
		default:
			err = errUnknownField
		}
		return err
	})
}

func decodeBenchGPUs(v rawjson.Value) ([]BenchGPU, error) {
	return decodeObjects(v, func(g *BenchGPU, key string, v rawjson.Value) (err error) {
		switch key {
		case "name":
			g.Name, err = decodeString(v)
		case "sysfs":
			g.Sysfs, err = decodeString(v)
		case "level":
			g.Level = clockpin.Level(v.Text())
			err = v.As(rawjson.String)
		default:
			err = errUnknownField
		}
		return err
	})
}

func decodeLeases(v rawjson.Value) (*Leases, error) {
	if v.None() {
		return nil, nil
	}
	var l Leases
	return &l, eachField(v, func(key string, v rawjson.Value) (err error) {
		switch key {
		case "dir":
			l.Dir, err = decodeString(v)
		case "gpus":
			l.GPUs, err = decodeLeasedGPUs(v)
		case "links":
			l.Links, err = decodeMatrix(v)
		case "bench":
			l.Bench, err = decodeBench(v)
		default:
			err = errUnknownField
		}
		return err
	})
}

func decodeMatrix(v rawjson.Value) (rows [][]int, err error) {
	if err := v.As(rawjson.Array); err != nil {
		return nil, err
	}
	for r := range v.Elements() {
		if r.Kind() != rawjson.Array {
			return nil, fmt.Errorf("row %d: it is %s, not a list", len(rows), r.Kind())
		}
		row := make([]int, 0, r.Len())
		for e := range r.Elements() {
			n, err := e.Whole(MaxLink)
			if err != nil {
				return nil, fmt.Errorf("row %d: %w", len(rows), err)
			}
			row = append(row, int(n))
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func decodeLeasedGPUs(v rawjson.Value) ([]LeasedGPU, error) {
	return decodeObjects(v, func(g *LeasedGPU, key string, v rawjson.Value) (err error) {
		switch key {
		case "name":
			g.Name, err = decodeString(v)
		case "nodes":
			g.Nodes, err = decodeStrings(v)
		default:
			err = errUnknownField
		}
		return err
	})
}

// decodeObjects decodes a list of objects, member by member.
func decodeObjects[T any](v rawjson.Value, member func(of *T, key string, v rawjson.Value) error) (list []T,
	err error) {
	if err := v.As(rawjson.Array); err != nil {
		return nil, err
	}
	for e := range v.Elements() {
		var one T
		if err := eachField(e, func(key string, v rawjson.Value) error { return member(&one, key, v) }); err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}

func decodeQuarantine(v rawjson.Value) (*Quarantine, error) {
	if v.None() {
		return nil, nil
	}
	var h Quarantine
	return &h, eachField(v, func(key string, v rawjson.Value) (err error) {
		switch key {
		case "file":
			h.File, err = decodeString(v)
		case "gpus":
			h.GPUs, err = decodeLeasedGPUs(v)
		default:
			err = errUnknownField
		}
		return err
	})
}
