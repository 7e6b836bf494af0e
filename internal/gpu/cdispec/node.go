package cdispec

import (
	"fmt"

	"concourse-ci-machine/internal/base/rawjson"
)

// Node says which node of the host appears where. Numbers of 0 are not given.
// Mode, owner and permissions are not read: the wrapper's device policy sets them.
type Node struct {
	Path, HostPath string
	Major, Minor   uint64

	File string // the spec's, for messages
}

func (e *Edits) addNode(file string, v rawjson.Value) (err error) {
	n := Node{File: file}
	if n.Path, err = v.StringOf("path"); err != nil {
		return err
	}
	if n.HostPath, err = v.StringOf("hostPath"); err != nil {
		return err
	}
	if n.HostPath == "" {
		n.HostPath = n.Path
	}
	for _, p := range []string{n.Path, n.HostPath} {
		if !isCleanAbs(p) {
			return fmt.Errorf("path %q is not absolute and clean", p)
		}
	}
	kind, err := v.StringOf("type")
	if err != nil {
		return err
	}
	if kind != "" && kind != "c" && kind != "u" {
		return fmt.Errorf("%s has type %q, only c can be applied", n.Path, kind)
	}
	const limit = 1<<32 - 1
	if n.Major, err = v.NumberOf("major", limit); err != nil {
		return fmt.Errorf("%s: %w", n.Path, err)
	}
	if n.Minor, err = v.NumberOf("minor", limit); err != nil {
		return fmt.Errorf("%s: %w", n.Path, err)
	}
	for _, known := range e.Nodes {
		if known.Path == n.Path {
			return known.same(n)
		}
	}
	e.Nodes = append(e.Nodes, n)
	return nil
}

// same fails where a node of the same path is another one.
func (n Node) same(o Node) error {
	if n.HostPath != o.HostPath || n.Major != o.Major || n.Minor != o.Minor {
		return fmt.Errorf("it describes %s in two ways", o.Path)
	}
	return nil
}
