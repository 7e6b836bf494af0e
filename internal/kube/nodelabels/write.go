package nodelabels

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"gopkg.in/yaml.v3"
)

// Node Feature Discovery's worker reads each file of Dir (its source "local").
const (
	Parent = "/etc/kubernetes/node-feature-discovery" // there where somebody set it up
	Dir    = Parent + "/features.d"
	File   = Dir + "/concourse-gpu"
)

// Lines are labels as Node Feature Discovery reads them, by name. It puts its own prefix
// before a name without one, and with its gate DisableAutoPrefix refuses that; so the
// prefix is there already. Without a comment, which 0.13 takes for a label.
func Lines(labels map[string]string) []byte {
	labels = maps.Clone(labels)
	if v, is := labels[anyGPU]; is {
		delete(labels, anyGPU)
		labels[anyGPUNFD] = v
	}
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&b, "%s=%s\n", name, labels[name])
	}
	return b.Bytes()
}

// nodeName is what Kubernetes names nodes by: a DNS subdomain of RFC 1123.
var nodeName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// Manifest is a node with these labels and nothing else, for kubectl apply --server-side,
// which adds them to the node and takes back those that a later manifest has no more.
func Manifest(node string, labels map[string]string) ([]byte, error) {
	if !nodeName.MatchString(node) || len(node) > 253 {
		return nil, fmt.Errorf("cannot label node %q: no node can have that name; kubectl get nodes has the names", node)
	}
	type metadata struct {
		Name   string            `yaml:"name"`
		Labels map[string]string `yaml:"labels"`
	}
	return yaml.Marshal(struct {
		APIVersion string   `yaml:"apiVersion"`
		Kind       string   `yaml:"kind"`
		Metadata   metadata `yaml:"metadata"`
	}{"v1", "Node", metadata{node, labels}})
}
