package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/cdi"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// at runs a command line on a machine that the test uses further.
func at(root host.Root, words ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Main(wellknown.Dispatch, append([]string{"dispatch"}, words...), func(name string) string {
		return map[string]string{"CHARM_ROOT": string(root)}[name]
	}, &out, &errs)
	return code, out.String(), errs.String()
}

// The complete output of three commands on each fixture host.
func TestGPUsOfEachHostHaveCDINames(t *testing.T) {
	for _, name := range hosttest.HostNames() {
		root := hosttest.Host(t, name)
		var all strings.Builder
		for _, line := range []string{"cdi list", "cdi list --json", "cdi generate --output -", "cdi generate", "cdi generate", "cdi validate", "cdi validate --json"} {
			code, out, errs := at(root, strings.Fields(line)...)
			all.WriteString("$ dispatch " + line + "\n" + out)
			if errs != "" {
				all.WriteString("on stderr: " + errs)
			}
			if code != 0 {
				all.WriteString("exit " + string(rune('0'+code)) + "\n")
			}
			if strings.HasSuffix(line, "--json") && out != "" {
				require.True(t, json.Valid([]byte(out)), line)
			}
		}
		hosttest.Golden(t, filepath.Join("testdata", "cdi", name+".txt"), all.String())
	}
}

// CDI allows both formats, and the parser accepts the output.
func TestDescriptionIsValidAsJSONAndYAML(t *testing.T) {
	root := hosttest.Host(t, "mi210x4")
	for _, file := range []string{"/run/cdi/amd.yaml", "/run/cdi/x.json", "/srv/any"} {
		code, out, errs := at(root, "cdi", "generate", "--output="+file)
		require.Zero(t, code, errs)
		require.Equal(t, "1/1 write "+file+" (missing)\n", out)
		code, out, errs = at(root, "cdi", "validate", file)
		require.Zero(t, code, errs)
		require.Equal(t, "Validating CDI spec: "+file+"\nCDI spec is valid\n", out)
	}
	code, out, _ := at(root, "cdi", "generate", "--output=/run/cdi/y.yaml", "--dry-run")
	require.Zero(t, code)
	require.Equal(t, "1/1 write /run/cdi/y.yaml (missing)\n", out)
	require.False(t, root.Exists("/run/cdi/y.yaml"))
	yaml, err := root.ReadText("/run/cdi/amd.yaml")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(yaml, "cdiVersion: "), yaml)
	_, printed, _ := at(root, "cdi", "generate", "--output", "-", "--format", "yaml")
	require.Equal(t, yaml, strings.TrimSpace(printed))
}

// On a unit the command and the charm write the same file.
func TestGeneratedDescriptionEqualsTheUnits(t *testing.T) {
	for _, name := range []string{"amd", "mi210x4", "mi300x-cpx"} {
		root := hosttest.Host(t, name)
		code, _, errs := at(root, "cdi", "generate")
		require.Zero(t, code, errs)
		inv, err := gpu.Discover(root)
		require.NoError(t, err)
		of, _, err := cdi.Resource(inv.GPUsOf(gpu.AMD), inv.KFD)
		require.NoError(t, err)
		p, err := of.Diff(context.Background(), hosttest.RealAt(root))
		require.NoError(t, err)
		require.Empty(t, p, name)
	}
}

// The file of AMD's tool has /dev/kfd in each device and no names by unique id or slot.
const ofAMD = `{"cdiVersion":"0.6.0","kind":"amd.com/gpu","containerEdits":{},"devices":[
 {"name":"0","containerEdits":{"deviceNodes":[
  {"path":"/dev/dri/card0","type":"c","major":226,"fileMode":432,"permissions":"rwm","uid":0,"gid":44},
  {"path":"/dev/dri/renderD128","type":"c","major":226,"minor":128,"fileMode":432,"permissions":"rwm","uid":0,"gid":44},
  {"path":"/dev/kfd","type":"c","major":235,"fileMode":432,"permissions":"rwm","uid":0,"gid":44}]}},
 {"name":"all","containerEdits":{"deviceNodes":[
  {"path":"/dev/dri/card0","type":"c","major":226,"fileMode":432,"permissions":"rwm","uid":0,"gid":44},
  {"path":"/dev/dri/renderD128","type":"c","major":226,"minor":128,"fileMode":432,"permissions":"rwm","uid":0,"gid":44},
  {"path":"/dev/kfd","type":"c","major":235,"fileMode":432,"permissions":"rwm","uid":0,"gid":44},
  {"path":"/dev/kfd","type":"c","major":235,"fileMode":432,"permissions":"rwm","uid":0,"gid":44}]}}]}`

func TestFileOfAMDsToolIsComparedByContent(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"as the machine":   {"", "", ""},
		"another number":   {`"minor":128`, `"minor":129`, "amd.com/gpu=0: /dev/dri/renderD128 is 226:129, on the machine 226:128\n"},
		"a dead node":      {`"major":235`, `"major":0`, "amd.com/gpu=all: /dev/kfd is 0:0, on the machine 235:0\n"},
		"another GPU":      {`"name":"0"`, `"name":"1"`, "amd.com/gpu=0 is missing\namd.com/gpu=1: the machine has no such GPU\n"},
		"another name":     {`/dev/dri/card0`, `/dev/dri/card7`, "amd.com/gpu=0: /dev/dri/card0 is missing\namd.com/gpu=0: /dev/dri/card7 is not the machine's\n"},
		"another mode":     {`"fileMode":432`, `"fileMode":438`, ""},
		"another group":    {`"gid":44`, `"gid":992`, ""},
		"another host's":   {`"path":"/dev/kfd"`, `"path":"/dev/kfd","hostPath":"/dev/null"`, "amd.com/gpu=0: /dev/kfd is /dev/null of the host\n"},
		"of another maker": {`amd.com/gpu`, `example.com/gpu`, "it describes example.com/gpu, not amd.com/gpu\n"},
		"only by id":       {`"name":"0"`, `"name":"GPU-1"`, "amd.com/gpu=GPU-1: the machine has no such GPU\n"},
	} {
		root := hosttest.Host(t, "amd")
		hosttest.Put(t, root, cdi.Path, strings.ReplaceAll(ofAMD, c.old, c.new))
		code, out, errs := at(root, "cdi", "validate")
		require.Contains(t, out, c.want, name)
		if c.want == "" {
			require.Zero(t, code, errs)
			continue
		}
		require.Equal(t, 1, code, name)
		require.Equal(t, "/etc/cdi/amd.json is not what this machine has; run: dispatch cdi generate --output /etc/cdi/amd.json\n", errs, name)

		code, out, errs = at(root, "cdi", "generate")
		require.Zero(t, code, errs)
		require.Equal(t, "1/2 move /etc/cdi/amd.json to /etc/cdi/amd.json.before-concourse (it is not the charm's)\n2/2 write /etc/cdi/amd.json (content differs)\n", out)
	}
}

func TestUnreadableDescriptionIsNamed(t *testing.T) {
	for content, want := range map[string]string{
		"":                       "cannot decode /etc/cdi/amd.json: ",
		"[]":                     "cannot decode /etc/cdi/amd.json: ",
		"null":                   "cannot decode /etc/cdi/amd.json: it is empty\n",
		`{"cdiVersion":"9.9.9"}`: "cannot decode /etc/cdi/amd.json: ",
		`{"cdiVersion":"0.6.0","kind":"amd.com/gpu","devices":[{"name":"0","containerEdits":{"deviceNodes":[null]}}]}`: "a device node is null\n",
	} {
		root := hosttest.Host(t, "amd")
		hosttest.Put(t, root, cdi.Path, content)
		code, out, errs := at(root, "cdi", "validate", "--json")
		require.Equal(t, 1, code, content)
		require.Empty(t, out)
		require.Contains(t, errs, want)
	}
	code, _, errs := at(hosttest.Host(t, "amd"), "cdi", "validate", "/nowhere/x.json")
	require.Equal(t, 1, code)
	require.Equal(t, "cannot read /nowhere/x.json: the file is missing; dispatch cdi generate --output /nowhere/x.json makes it\n", errs)
}

// All programs leave the GPU of the processor beside a card to those who name it.
func TestIntegratedGPUBesideACardIsNamedWithItsReason(t *testing.T) {
	root := hosttest.Host(t, "mi210x4")
	hosttest.AddIntegrated(t, root)
	var all strings.Builder
	for _, line := range []string{"gpu list", "kubernetes labels", "cdi list", "cdi generate"} {
		code, out, errs := at(root, strings.Fields(line)...)
		require.Zero(t, code, line+errs)
		all.WriteString("$ dispatch " + line + "\n" + out)
		if errs != "" {
			all.WriteString("on stderr: " + errs)
		}
	}
	require.NotContains(t, all.String(), "amd.com/gpu.device-id.164e")
	hosttest.Golden(t, filepath.Join("testdata", "integrated.txt"), all.String())

	hosttest.Put(t, root, model.FactsFile, `{"unit": "rocm-worker/0", "role": "worker", "config": {"compute-runtime": "rocm"}}`)
	_, out, _ := at(root, "gpu", "list")
	require.Contains(t, strings.Join(strings.Fields(out), " "), "tasks get it only if gpu-device-ids names it: "+
		"juju config rocm-worker gpu-device-ids=0,1,2,3,4")
	hosttest.Put(t, root, model.FactsFile, `{"unit": "rocm-worker/0", "role": "worker", "config": {"compute-runtime": "rocm", "gpu-device-ids": "0-1"}}`)
	_, out, _ = at(root, "gpu", "list")
	require.NotContains(t, out, "gpu-device-ids")
}
