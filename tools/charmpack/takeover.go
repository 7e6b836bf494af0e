package charmpack

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"gopkg.in/yaml.v3"
)

// predecessors are the endpoints of the Python charm, which had no resource. Some versions
// of Juju search the old charm for the endpoints and resources of the new one, and refuse
// all others.
var predecessors = map[string][]string{
	"provides": {"monitoring", "tsa"},
	"requires": {"flight", "postgresql", "vault-kv"},
	"peers":    {"peers"},
}

// metadataFile returns the charm's metadata.yaml.
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
	filter(doc.Content[0], func(key string, value *yaml.Node) bool {
		if had, ok := predecessors[key]; ok {
			filter(value, func(name string, _ *yaml.Node) bool { return slices.Contains(had, name) })
		}
		return key != "resources"
	})
	return yaml.Marshal(&doc)
}

// filter removes the keys of a mapping for which kept returns false.
func filter(mapping *yaml.Node, wanted func(key string, value *yaml.Node) bool) {
	var content []*yaml.Node
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if wanted(mapping.Content[i].Value, mapping.Content[i+1]) {
			content = append(content, mapping.Content[i:i+2]...)
		}
	}
	mapping.Content = content
}
