//go:build kubernetes

package kubernetes

import (
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

const (
	chart = "../../tools/images/chart"
	// release is the name of the chart's installation.
	release = "concourse-gpu-node"
)

// helm runs Helm against the cluster.
func helm(t *testing.T, words ...string) string {
	t.Helper()
	words = append(words, "--namespace=kube-system", "--kubeconfig="+filepath.Join(dir, "cluster/kubeconfig"))
	c := exec.Command(program("helm", "helm"), words...)
	c.Env = []string{"HOME=" + dir, "PATH=/usr/bin:/bin"}
	out, err := c.CombinedOutput()
	require.NoError(t, err, "helm %s\n%s", strings.Join(words, " "), out)
	return string(out)
}

// collections are the paths of the chart's kinds.
var collections = map[string]string{
	"DaemonSet":          daemonSets,
	"ServiceAccount":     "/api/v1/namespaces/kube-system/serviceaccounts",
	"ClusterRole":        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
	"ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
	"DeviceClass":        "/apis/resource.k8s.io/v1/deviceclasses",

	"ValidatingAdmissionPolicy":        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
	"ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
}

type container struct {
	Image           string
	Command         []string
	SecurityContext struct {
		Privileged               bool
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
	} `yaml:"securityContext"`
}

// rendered is an object of the chart.
type rendered struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Template struct {
			Spec struct {
				InitContainers []container `yaml:"initContainers"`
				Containers     []container
			}
		}
	}
}

// The API server takes what Helm renders with each driver and each value changed, field by
// field. No container is privileged, and all have one image.
func chartIsValid(t *testing.T) {
	helm(t, "lint", "--strict", chart)
	for _, c := range []struct {
		values   string
		kinds    []string
		programs []string
		flags    string
	}{
		{"driver=deviceplugin", []string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DaemonSet"}, []string{"/gpukit", "/gpu-device-plugin", "/rocm-exporter"},
			"--devices=auto --replicas=1 --resource-naming-strategy=single --shared-gpus=all"},
		{"devicePlugin.replicas=4,devicePlugin.sharedGpus=0\\,2,exporter.enabled=false,labels.enabled=false,kubeletDir=/srv/kubelet," +
			"imagePullSecrets[0].name=s,affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].key=gpu," +
			"affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator=Exists",
			[]string{"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DaemonSet"}, []string{"/gpu-device-plugin"}, "--kubelet-dir=/srv/kubelet --devices=auto --replicas=4 --resource-naming-strategy=single --shared-gpus=0,2"},
		{"driver=dra,dra.evict=true", []string{"ServiceAccount", "DeviceClass", "ClusterRole", "ClusterRoleBinding",
			"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "DaemonSet"},
			[]string{"/gpukit", "/gpu-dra-driver", "/rocm-exporter"}, "--evict=true --replicas=1 --shared-gpus=all"},
		{"driver=dra,dra.replicas=3,dra.sharedGpus=0", []string{"ServiceAccount", "DeviceClass", "DeviceClass", "ClusterRole", "ClusterRoleBinding",
			"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "DaemonSet"},
			[]string{"/gpukit", "/gpu-dra-driver", "/rocm-exporter"}, "--evict=false --replicas=3 --shared-gpus=0"},
	} {
		helm(t, "lint", "--strict", "--set="+c.values, chart)
		kinds := []string{}
		for text := range strings.SplitSeq(helm(t, "template", release, chart, "--set="+c.values), "\n---\n") {
			var o rendered
			require.NoError(t, yaml.Unmarshal([]byte(text), &o), text)
			path := collections[o.Kind]
			require.NotEmpty(t, path, text)
			status, answer, err := send(http.MethodPatch, path+"/"+o.Metadata.Name+"?fieldManager=tests&dryRun=All&fieldValidation=Strict",
				"application/apply-patch+yaml", text)
			require.NoError(t, err)
			require.Equal(t, http.StatusCreated, status, answer)
			kinds = append(kinds, o.Kind)
			spec, programs, flags := o.Spec.Template.Spec, []string{}, ""
			for _, one := range append(spec.InitContainers, spec.Containers...) {
				require.Equal(t, nodeImage, one.Image)
				require.False(t, one.SecurityContext.Privileged)
				require.False(t, *one.SecurityContext.AllowPrivilegeEscalation)
				programs = append(programs, one.Command[0])
				flags += strings.Join(one.Command[1:], " ") + " "
			}
			if o.Kind == "DaemonSet" {
				require.Equal(t, c.programs, programs)
				require.Contains(t, flags, c.flags)
			}
		}
		require.ElementsMatch(t, c.kinds, kinds)
	}
	absolute, err := filepath.Abs(chart)
	require.NoError(t, err)
	for wrong, why := range map[string]string{"driver=both": "one of 'deviceplugin', 'dra'", "devicePlugin.replicas=0": "minimum: got 0, want 1",
		"devicePlugin.pulse=3": "additional properties 'pulse' not allowed", "kubeletDir=kubelet": "does not match pattern"} {
		out, err := runIn(dir, program("helm", "helm"), "template", absolute, "--set="+wrong)
		require.Error(t, err)
		require.Contains(t, out, why)
	}
}
