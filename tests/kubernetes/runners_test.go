//go:build kubernetes

package kubernetes

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

const runnersPage = "../../docs/how-to/kubernetes-runners.md"

var fence = regexp.MustCompile("(?s)```([a-z]+)\n(.*?)```")

// runnersBlocks returns the blocks of the page in one language.
func runnersBlocks(t *testing.T, language string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(runnersPage)
	require.NoError(t, err)
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		if m[1] == language {
			blocks = append(blocks, m[2])
		}
	}
	return blocks
}

// checked creates an object without keeping it, and returns what the API server makes of it.
func checked(t *testing.T, path string, object any) string {
	t.Helper()
	data, err := yaml.Marshal(object)
	require.NoError(t, err)
	status, answer, err := call(http.MethodPost, path+"?dryRun=All&fieldValidation=Strict", string(data))
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, status, answer)
	return answer
}

func podOf(name string, spec any) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name}, "spec": spec}
}

// runsThePod creates a pod, which finds the GPU 0 from this container.
func runsThePod(t *testing.T, name, container string, spec any) {
	t.Helper()
	checked(t, pods, podOf(name, spec))
	data, err := yaml.Marshal(podOf(name, spec))
	require.NoError(t, err)
	t.Cleanup(func() { end(t, name) })
	apply(t, string(data))
	require.Equal(t, nodes(0), openedBy(t, name, container))
	end(t, name)
}

// githubsRunner: the pod template of the scale set runs, in the place of the runner the
// probe; and with a claim the API server takes it.
func githubsRunner(t *testing.T) {
	unit(t, 1)
	blocks := runnersBlocks(t, "yaml")
	require.Len(t, blocks, 2)
	var values struct{ Template struct{ Spec map[string]any } }
	require.NoError(t, yaml.Unmarshal([]byte(blocks[0]), &values))
	runsThePod(t, "scale-set", "runner", values.Template.Spec)

	var claims map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(blocks[1]), &claims))
	checked(t, "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates", claims)
	text, err := os.ReadFile(runnersPage)
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^    (resourceClaims: .*)$`).FindStringSubmatch(string(text))
	require.NotEmpty(t, line)
	claimed := strings.Replace(blocks[0], "          limits:\n            amd.com/gpu: 1", "          claims: [{name: gpu}]", 1) + "    " + line[1] + "\n"
	require.Contains(t, string(text), "`claims: [{name: gpu}]`")
	require.NoError(t, yaml.Unmarshal([]byte(claimed), &values))
	answer := checked(t, pods, podOf("claimed", values.Template.Spec))
	require.Contains(t, answer, `"resourceClaimTemplateName":"one-gpu"`)
	require.NotContains(t, answer, resource)
}

// gitlabsJob: the patch of the page gives the build's container of a job's pod its GPU. The
// API server merges it, as GitLab's runner does by the same rules.
func gitlabsJob(t *testing.T) {
	unit(t, 1)
	blocks := runnersBlocks(t, "toml")
	require.Len(t, blocks, 1)
	var config struct {
		Runners []struct {
			Kubernetes struct {
				PodSpec []struct {
					Patch     string
					PatchType string `toml:"patch_type"`
				} `toml:"pod_spec"`
			}
		}
	}
	require.NoError(t, toml.Unmarshal([]byte(blocks[0]), &config))
	patches := config.Runners[0].Kubernetes.PodSpec
	require.Len(t, patches, 1)
	require.Equal(t, "strategic", patches[0].PatchType)

	const templates = "/api/v1/namespaces/default/podtemplates"
	status, answer, err := call(http.MethodPost, templates, `{apiVersion: v1, kind: PodTemplate, metadata: {name: job}, `+
		`template: {spec: {containers: [{name: build, image: busybox}, {name: helper, image: busybox}]}}}`)
	require.NoError(t, err)
	require.Equal(t, http.StatusCreated, status, answer)
	t.Cleanup(func() {
		_, answer, err := call(http.MethodDelete, templates+"/job", "")
		require.NoError(t, err, answer)
	})
	var spec map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(patches[0].Patch), &spec))
	patch, err := json.Marshal(map[string]any{"template": map[string]any{"spec": spec}})
	require.NoError(t, err)
	status, answer, err = send(http.MethodPatch, templates+"/job", "application/strategic-merge-patch+json", string(patch))
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, answer)
	var merged struct{ Template struct{ Spec map[string]any } }
	require.NoError(t, json.Unmarshal([]byte(answer), &merged))
	require.Len(t, merged.Template.Spec["containers"], 2, answer)
	runsThePod(t, "job", "build", merged.Template.Spec)
}
