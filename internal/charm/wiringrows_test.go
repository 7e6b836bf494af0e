package charm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fourdollars/concourse-ci-machine/internal/kube/nodelabels"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/fixedclocks"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/quarantine"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// wire is the way of one option to a resource.
type wire struct {
	fixture, option string
	value           any
	// resource is the name of a resource of the unit. line is a part of its text that is
	// there only with the option. A line that begins with ! is there only without it.
	resource, line string
	with           set // options that this one needs
}

const (
	webFile    = "/var/lib/concourse/config.env"
	workerFile = "/var/lib/concourse-worker/worker-config.env"
	wrapper    = "/etc/concourse-ci-machine/wrapper.json"
	exporter   = "/var/lib/concourse-ci-machine/pebble/layers/001-rocm-exporter.yaml"
	jobLayer   = "/var/lib/concourse-ci-machine/pebble/layers/002-concourse-exporter.yaml"
	fleet      = "/etc/concourse-ci-machine/fleet.json"
	recorder   = "/etc/systemd/system/concourse-task-recorder.service"
	keys       = "/var/lib/concourse/keys/"
	defaults   = keys + "base-resource-type-defaults.yml"
	webUnit    = "/etc/systemd/system/concourse-server.service"
)

func commonWires() []wire {
	sum := strings.Repeat("a", 64)
	proxy := "http://proxy.example:3128"
	return []wire{
		{"web", "mode", "all", "concourse-worker.service", "up=true", nil},
		{"web", "version", "8.2.1", "release", "Version:8.2.1 ", nil},
		{"worker", "version", "8.2.1", "release", "Version:8.2.1 ", nil},
		{"worker", "version", "8.3.0", "status", "a worker of Concourse 8.3.0 gets no work", nil},
		{"web", "auto-upgrade", true, "release", "Version:8.9.0 ", nil},
		{"web", "github-token", "ghp_1", "release", "Token:ghp_1 ", nil},
		{"web", "release-mirror", "https://mirror.example", "release", "Mirror:https://mirror.example ", nil},
		{"web", "release-sha256", sum, "release", "SHA256:" + sum, nil},
		{"web", "shared-storage", "lxc", webUnit, "=/var/lib/concourse-web\n", nil},
		{"worker", "shared-storage", "lxc", workerFile, "CONCOURSE_WORK_DIR=/var/lib/concourse-work\n", nil},
		{"worker", "shared-storage", "lxc", recorder, "--volumes=/var/lib/concourse-work ", nil},
		{"web", "log-level", "debug", webFile, "CONCOURSE_LOG_LEVEL=debug\n", nil},
		{"worker", "log-level", "debug", workerFile, "CONCOURSE_LOG_LEVEL=debug\n", nil},
		{"worker", "log-level", "debug", "worker", "LogLevel:debug ", nil},
		{"web", "http-proxy", proxy, webFile, "http_proxy=" + proxy + "\n", nil},
		{"worker", "http-proxy", proxy, workerFile, "http_proxy=" + proxy + "\n", nil},
		{"worker", "http-proxy", proxy, "release", "Proxy:{HTTP:" + proxy, nil},
		{"worker", "http-proxy", proxy, "resource.Chain", "Proxies:{HTTP:" + proxy, nil},
		{"web", "https-proxy", proxy, webFile, "https_proxy=" + proxy + "\n", nil},
		{"worker", "https-proxy", proxy, workerFile, "https_proxy=" + proxy + "\n", nil},
		{"web", "no-proxy", "10.1.2.3", webFile, "10.1.2.3", nil},
		{"worker", "no-proxy", "10.1.2.3", workerFile, "10.1.2.3", nil},
	}
}

func webWires(t *testing.T) []wire {
	metrics, authority, vault := set{"enable-metrics": true}, hosttest.NewAuthority(t, "ca").PEM, vault()
	_, worker := hosttest.Key("wiring")
	return []wire{
		{"web", "web-port", 80, webFile, "CONCOURSE_BIND_PORT=80\n", nil},
		{"web", "web-port", 80, "ports", "[80/tcp", nil},
		{"web", "web-port", 80, "web", "LocalURL:http://127.0.0.1:80 ", nil},
		{"web", "web-port", 80, "web", " URL:http://10.0.0.5:80 ", nil},
		{"web", "external-url", "https://ci.example.com", webFile, "CONCOURSE_EXTERNAL_URL=https://ci.example.com\n", nil},
		{"web", "tls-enabled", true, "status", "tls-enabled: a certificate is missing", nil},
		{"certified", "tls-enabled", true, webFile, "CONCOURSE_TLS_BIND_PORT=8443\n", nil},
		{"certified", "tls-port", 443, webFile, "CONCOURSE_TLS_BIND_PORT=443\n", set{"tls-enabled": true}},
		{"certified", "tls-port", 443, "ports", " 443/tcp", set{"tls-enabled": true}},
		{"certified", "tls-port", 443, "web", "URL:https://10.0.0.5:443 ", set{"tls-enabled": true}},
		{"web", "initial-admin-username", "root", webFile, "CONCOURSE_MAIN_TEAM_LOCAL_USER=root\n", nil},
		{"web", "initial-admin-username", "root", "/etc/concourse-ci-machine/concourse-exporter.json", `"root"`, metrics},
		{"web", "main-team-local-user", "admin,ann", webFile, "CONCOURSE_MAIN_TEAM_LOCAL_USER=admin,ann\n", nil},
		{"web", "extra-local-users", "ann:pw", webFile, ",ann:pw\n", nil},
		{"web", "enable-metrics", true, webFile, "CONCOURSE_PROMETHEUS_BIND_PORT=", nil},
		{"web", "enable-metrics", true, jobLayer, "command: ", nil},
		{"web", "fleet-page", "off", jobLayer, "!--fleet.file=", metrics},
		{"web", "fleet-page", "anonymous", fleet, `"hide-names": true`, metrics},
		{"web", "encryption-key", "0123456789abcdef", webFile, "CONCOURSE_ENCRYPTION_KEY=0123456789abcdef\n", nil},
		{"web", "extra-worker-keys", worker, keys + "authorized_worker_keys", "ssh-rsa ", nil},
		{"web", "extra-web-flags", "--enable-across-step", webUnit, `web "--enable-across-step"`, nil},
		{"web", "registry-mirror", "mirror.example:5000", defaults, "mirror.example:5000", nil},
		{"web", "registry-ca-cert", authority, defaults, "BEGIN CERTIFICATE", nil},
		{"web", "required-archs", "gfx90a", "status", "no worker has gfx90a", nil},
		{"web", "required-archs", "gfx90a", jobLayer, "--required-archs=gfx90a", metrics},
		{"web", "required-archs", "gfx90a", fleet, "gfx90a", metrics},
		{"web", "vault-ca-cert", authority, keys + "vault-ca-cert.pem", "BEGIN CERTIFICATE", vault},
		{"web", "oidc-ca-cert", authority, keys + "oidc-ca-cert.pem", "BEGIN CERTIFICATE", oidc()},
	}
}

// The options that a login or Vault needs.
func vault() set { return set{"vault-url": "https://vault.example", "vault-client-token": "t"} }

func ldap() set {
	return set{"ldap-host": "ldap.example.com", "ldap-bind-dn": "cn=reader,dc=example", "ldap-bind-pw": "pw",
		"ldap-user-search-base-dn": "ou=people,dc=example", "ldap-user-search-username": "uid"}
}

func oauth() set {
	return set{"oauth-client-id": "ci", "oauth-client-secret": "pw", "oauth-auth-url": "https://o.example/auth",
		"oauth-token-url": "https://o.example/token", "oauth-userinfo-url": "https://o.example/me"}
}

func oidc() set {
	return set{"oidc-issuer": "https://oidc.example.com", "oidc-client-id": "ci", "oidc-client-secret": "pw"}
}

// variableWires are the options that are the variable of the web with their name.
func variableWires() (all []wire) {
	backend := set{"vault-url": "https://vault.example", "vault-auth-backend": "approle"}
	for _, group := range []struct{ with, samples set }{
		{nil, set{"container-placement-strategy": "random", "default-build-logs-to-retain": 9,
			"default-days-to-retain-build-logs": 9, "max-build-logs-to-retain": 9, "max-days-to-retain-build-logs": 9,
			"gc-failed-grace-period": "1h", "secret-cache-enabled": false, "secret-cache-duration": "1h",
			"secret-cache-duration-notfound": "1h"}},
		{vault(), set{"vault-url": "https://other.example", "vault-client-token": "other",
			"vault-ca-cert": "/etc/a.pem", "vault-lookup-templates": "/{{.Team}}/{{.Secret}}", "vault-namespace": "ns",
			"vault-path-prefix": "/ci", "vault-shared-path": "shared", "vault-enable-kv-mount-cache": false}},
		{with(vault(), set{"vault-client-cert": "/etc/a.pem", "vault-client-key": "/etc/b.pem"}),
			set{"vault-client-cert": "/etc/c.pem", "vault-client-key": "/etc/d.pem"}},
		{backend, set{"vault-auth-backend": "cert", "vault-auth-backend-max-ttl": "1h",
			"vault-auth-param": "role_id:a,secret_id:b"}},
		{ldap(), set{"ldap-display-name": "Staff", "ldap-host": "other.example:636", "ldap-bind-dn": "cn=other,dc=example",
			"ldap-bind-pw": "other", "ldap-user-search-base-dn": "ou=other", "ldap-user-search-username": "mail",
			"ldap-user-search-id-attr": "id", "ldap-user-search-email-attr": "rfc822", "ldap-user-search-name-attr": "cn",
			"ldap-user-search-filter": "(a=b)", "ldap-group-search-base-dn": "ou=groups",
			"ldap-group-search-name-attr": "group", "ldap-group-search-user-attr": "user",
			"ldap-group-search-group-attr": "members", "ldap-group-search-filter": "(c=d)",
			"main-team-ldap-group": "admins"}},
		{oauth(), set{"oauth-display-name": "SSO", "oauth-client-id": "other", "oauth-client-secret": "other",
			"oauth-auth-url": "https://o.example/1", "oauth-token-url": "https://o.example/2",
			"oauth-userinfo-url": "https://o.example/3", "oauth-scope": "openid", "oauth-groups-key": "groups",
			"oauth-user-id-key": "id", "oauth-user-name-key": "name", "oauth-ca-cert": "/etc/a.pem",
			"oauth-skip-ssl-validation": true, "main-team-oauth-user": "ann", "main-team-oauth-group": "admins"}},
		{oidc(), set{"oidc-display-name": "SSO", "oidc-issuer": "https://other.example", "oidc-client-id": "other",
			"oidc-client-secret": "other", "oidc-scope": "openid", "oidc-groups-key": "groups",
			"oidc-user-name-key": "name", "oidc-ca-cert": "/etc/a.pem", "oidc-skip-ssl-validation": true,
			"main-team-oidc-user": "ann", "main-team-oidc-group": "admins"}},
	} {
		for option, value := range group.samples {
			variable := "CONCOURSE_" + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
			line := fmt.Sprintf("\n%s=%v\n", variable, value)
			all = append(all, wire{"web", option, value, webFile, line, group.with})
		}
	}
	return all
}

func workerWires() []wire {
	return []wire{
		{"worker", "tag", "big,{unit}", workerFile, "CONCOURSE_TAG=big,gpu-0,", nil},
		{"worker", "srv-folders", "models", wrapper, `["models"]`, nil},
		{"worker", "srv-folders", "none", "resource.Nosuid", "!/srv", nil},
		{"worker", "srv-folders", "none", wrapper, `!"folders"`, nil},
		{"worker", "srv-folders", "none", "worker", "!(1 folder: read-only)", nil},
		{"worker", "srv-folders-containers", "all", wrapper, `"containers":"all"`, nil},
		{"worker", "containerd-dns-proxy-enable", true, workerFile, "CONCOURSE_CONTAINERD_DNS_PROXY_ENABLE=true\n", nil},
		{"worker", "containerd-dns-server", "10.0.0.53", workerFile, "CONCOURSE_CONTAINERD_DNS_SERVER=10.0.0.53\n", nil},
		{"worker", "worker-drain-timeout", "1h", "worker", "Drain:1h0m0s ", nil},
		{"alone", "worker-drain-timeout", "1h", "concourse.Drain", "Limit:1h0m0s ", nil},
		{"running", "worker-drain-timeout", "1h", "release", "Limit:1h0m0s ", nil},
		{"running", "worker-drain-timeout", "1h", "/var/lib/concourse-ci-machine/tags-held", "T04:04:05Z", set{"tag": "new"}},
		{"worker", "task-record-size", 9, recorder, "--size=9 ", nil},
		{"worker", "task-record-size", 0, "concourse-task-recorder.service", "task-record-size=0", nil},
		{"worker", "task-record-size", 0, exporter, "!--tasks.report=", nil},

		{"worker", "compute-runtime", "none", "published", "!Runtime:rocm", nil},
		{"worker", "compute-runtime", "cuda", "status", "no NVIDIA GPU", nil},
		{"worker", "enable-gpu", true, "published", "Runtime:rocm", set{"compute-runtime": "none"}},
		{"worker", "gpu-device-ids", "0", wrapper, "!GPU-2f90ab16c8e7431d", nil},
		{"worker", "gpu-device-ids", "0", workerFile, "gpu-count=1,", nil},
		{"worker", "gpu-sharing", "exclusive", wrapper, `"leases"`, nil},
		{"worker", "gpu-sharing", "exclusive", exporter, "--leases.report=", nil},
		{"worker", "gpu-sharing", "exclusive", "published", "Exclusive:true", nil},
		{"worker", "gpu-fixed-clocks", true, wrapper, string(fixedclocks.Standard), set{"gpu-sharing": "exclusive"}},
		{"worker", "container-engines", "docker,podman", "engines.Unit", "Engines:[docker podman]", nil},
		{"worker", "container-engines", "docker", wrapper, `"containers":"requested"`, nil},
		{"worker", "kubernetes", "off", "concourse-gpu-device-plugin.service", "kubernetes=off", nil},
		{"worker", "kubernetes", "claims", "concourse-gpu-device-plugin.service", "kubernetes=claims", nil},
		{"worker", "kubernetes", "off", nodelabels.File, "!amd.com/gpu=true", nil},
		{"worker", "gpu-quarantine", "off", wrapper, "!" + quarantine.AdmissionFile, nil},
		{"worker", "task-env", "A=b", wrapper, `"A":"b"`, nil},
		{"worker", "amd-container-toolkit", "skip", "resource.Chain", "!amd-container-toolkit", nil},
		{"worker", "amd-container-toolkit", "1.1.0", "resource.Chain", "Version:1.1.0 ", nil},
		{"worker", "rocm-base-url", "https://mirror.example", "resource.Chain", "https://mirror.example/", nil},
		{"metal", "rocm-base-url", "https://mirror.example", "driver", "BaseURL:https://mirror.example ", nil},
		{"metal", "rocm-version", "6.4.3", "driver", "ROCm:6.4.3 ", nil},
		{"metal", "rocm-usecases", "rocm", "driver", "Usecases:[rocm]", nil},
		{"metal", "install-driver", "never", "driver", "!Install:true", nil},
		{"metal", "allow-reboot", true, "driver", "AllowReboot:true", nil},
		{"metal", "amdgpu-module-params", "gpu_recovery=1", "driver", "ModuleParams:gpu_recovery=1", nil},
		{"nvidia", "nvidia-container-toolkit", "1.17.8", "resource.Chain", "1.17.8", nil},
		{"worker", "gpu-metrics", "pcie-bandwidth", exporter, "--collect.usage=false", nil},
		{"worker", "gpu-metrics", "pcie-bandwidth", recorder, "!--usage.report=", nil},
		{"worker", "gpu-metrics", "usage,pcie-bandwidth", exporter, "!--collect.pcie-bandwidth=false", nil},
		{"worker", "gpu-metrics", "dcgm-aliases", exporter, "--dcgm-aliases", nil},
	}
}

// elsewhere has the options that no desired state depends on, with the program that reads them.
func elsewhere() map[string]string {
	const watch = "dispatch gpu watch reads it from the facts of the last hook"
	return map[string]string{
		"gpu-health-check": watch,
	}
}
