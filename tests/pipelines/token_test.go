package pipelines

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A resource that has a key of the pipeline runs an image which the operator named, or one
// of Concourse's own: a tag of anybody otherwise's can be moved.
func TestKeysGoToNoImageOfOthers(t *testing.T) {
	key := regexp.MustCompile(`(?i)token|password|key`)
	for _, path := range files(t, "*.yml") {
		var p struct {
			Types []struct {
				Name   string
				Source map[string]any
			} `yaml:"resource_types"`
			Resources []struct {
				Name, Type string
				Source     map[string]any
			}
		}
		read(t, path, &p)
		images := map[string]string{}
		for _, rt := range p.Types {
			images[rt.Name], _ = rt.Source["repository"].(string)
		}
		for _, r := range p.Resources {
			image, foreign := images[r.Type]
			for field, value := range r.Source {
				if text, ok := value.(string); foreign && ok && key.MatchString(field) && strings.HasPrefix(text, "((") {
					require.Regexp(t, `^\(\(.*\)\)$`, image, "%s: %s has %s", filepath.Base(path), r.Name, field)
				}
			}
		}
	}
}
