package charmpack

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"gopkg.in/yaml.v3"
)

// predecessors are the endpoints of the Python charm, which had no resource.
// A Juju that looks the endpoints and resources of a new charm up in the old one
// refuses every other.
var predecessors = map[string][]string{
	"provides": {"monitoring", "tsa"},
	"requires": {"flight", "postgresql", "vault-kv"},
	"peers":    {"peers"},
}

// metadataFile is metadata.yaml as the charm has it.
func (s Source) metadataFile() ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(s.Root, "metadata.yaml"))
	if err != nil || !s.Takeover {
		return data, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) != 1 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("metadata.yaml is not a mapping")
	}
	keep(doc.Content[0], func(key string, value *yaml.Node) bool {
		if had, ok := predecessors[key]; ok {
			keep(value, func(name string, _ *yaml.Node) bool { return slices.Contains(had, name) })
		}
		return key != "resources"
	})
	return yaml.Marshal(&doc)
}

// keep takes the keys of a mapping away that are not to be kept.
func keep(mapping *yaml.Node, kept func(key string, value *yaml.Node) bool) {
	var left []*yaml.Node
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if kept(mapping.Content[i].Value, mapping.Content[i+1]) {
			left = append(left, mapping.Content[i:i+2]...)
		}
	}
	mapping.Content = left
}
