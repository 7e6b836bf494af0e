package concourse

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/base/wellknown"
)

// WebDatabase is the PostgreSQL that the web keeps everything in.
type WebDatabase struct {
	Host     string
	Port     int
	User     string
	Password string
	Name     string
	SSLMode  string // disable, require, verify-ca, verify-full
	CAFile   string // for the modes that verify
}

// databaseVariables are the database as all commands of Concourse read it.
var databaseVariables = envTable[WebDatabase]{
	{"CONCOURSE_POSTGRES_HOST", func(d WebDatabase) string { return d.Host }},
	{"CONCOURSE_POSTGRES_PORT", func(d WebDatabase) string { return number(d.Port) }},
	{"CONCOURSE_POSTGRES_USER", func(d WebDatabase) string { return d.User }},
	{"CONCOURSE_POSTGRES_PASSWORD", func(d WebDatabase) string { return d.Password }},
	{"CONCOURSE_POSTGRES_DATABASE", func(d WebDatabase) string { return d.Name }},
	{"CONCOURSE_POSTGRES_SSLMODE", func(d WebDatabase) string { return d.SSLMode }},
	{"CONCOURSE_POSTGRES_CA_CERT", func(d WebDatabase) string { return d.CAFile }},
}

// WebConfig is what the web's environment is made of. What is empty, 0 or
// false is left to Concourse.
type WebConfig struct {
	Paths       WebPaths
	BindPort    int    // of plain HTTP; the charm's own requests go there with TLS too
	LogLevel    string // debug, info, warn, error, fatal
	ExternalURL string
	PeerAddress string // this machine's, at which all webs reach the workers that registered here
	// Peers are the PeerAddress of the other webs. They matter with a Proxy only,
	// which would be asked for workers that registered there.
	Peers       []string
	ClusterName string
	TLSPort     int // 0: no TLS

	AdminUser, AdminPassword string
	MainTeamUser             string // "": the first user
	ExtraLocalUsers          string // name:password,name:password
	TeamKeys                 bool   // some workers are for one team each

	Database                        WebDatabase
	EncryptionKey, OldEncryptionKey string // 16 or 32 bytes
	Metrics                         bool

	// TaskLimit is how many tasks the web sends to one worker at once, whichever
	// it is; 0 is none of the charm's.
	TaskLimit int
	// Noted are the variables that the operator may have as well and that the charm
	// wrote before: one that is not noted is the operator's own.
	Noted []string
	// Rerun has steps run again whose error says that something of a worker disappeared: the
	// worker, or as the wrapper says GPUs of it.
	Rerun bool

	// Options and Vault are variables that options and the relation to Vault
	// set; Vault's come before those of the options, and the charm's own before
	// both. OptionKeys are all that options can ever set: one of them that is
	// not set is taken out of the file (D26).
	Options, Vault map[string]string
	OptionKeys     []string
	LDAP           LDAP
	Proxy          resource.Proxies
	Tracing        Tracing
}

// Env is the environment, by variable. Nothing that is empty is in it. It
// holds secrets.
func (c WebConfig) Env() map[string]string {
	env := map[string]string{}
	if c.LDAP.Host != "" {
		maps.Copy(env, ldapSearch.of(c.LDAP))
	}
	if c.LDAP.Host != "" || c.Options[ldapHost] != "" {
		maps.Copy(env, ldapUsual)
	}
	maps.Copy(env, c.Options)
	maps.Copy(env, ldapServer.of(c.LDAP))
	maps.Copy(env, c.Vault)
	maps.Copy(env, webVariables.of(c))
	maps.Copy(env, databaseVariables.of(c.Database))
	maps.Copy(env, tracingVariables.of(c.Tracing))
	if c.TaskLimit > 0 {
		env[TaskLimitKey] = strconv.Itoa(c.TaskLimit)
		env[StrategyKey] = limited(env[StrategyKey])
	}
	maps.DeleteFunc(env, func(_, value string) bool { return value == "" })
	return env
}

// webVariables is what the fields of WebConfig come to, in the web's environment.
var webVariables = envTable[WebConfig]{
	{"CONCOURSE_BIND_PORT", func(c WebConfig) string { return number(c.BindPort) }},
	{"CONCOURSE_LOG_LEVEL", func(c WebConfig) string { return c.LogLevel }},
	{"CONCOURSE_TSA_LOG_LEVEL", func(c WebConfig) string { return c.LogLevel }},
	{"CONCOURSE_EXTERNAL_URL", func(c WebConfig) string { return c.ExternalURL }},
	{"CONCOURSE_PEER_ADDRESS", func(c WebConfig) string { return c.PeerAddress }},
	{"CONCOURSE_CLUSTER_NAME", func(c WebConfig) string { return c.ClusterName }},
	{"CONCOURSE_TSA_HOST_KEY", func(c WebConfig) string { return c.Paths.TSAHostKey() }},
	{"CONCOURSE_TSA_AUTHORIZED_KEYS", func(c WebConfig) string { return c.Paths.AuthorizedKeys() }},
	{"CONCOURSE_TSA_TEAM_AUTHORIZED_KEYS_FILE", func(c WebConfig) string { return when(c.TeamKeys, c.Paths.TeamKeys()) }},
	{"CONCOURSE_SESSION_SIGNING_KEY", func(c WebConfig) string { return c.Paths.SessionKey() }},
	{"CONCOURSE_ADD_LOCAL_USER", WebConfig.localUsers},
	{"CONCOURSE_MAIN_TEAM_LOCAL_USER", func(c WebConfig) string { return cmp.Or(c.MainTeamUser, c.AdminUser) }},
	{"CONCOURSE_ENCRYPTION_KEY", func(c WebConfig) string { return c.EncryptionKey }},
	{"CONCOURSE_OLD_ENCRYPTION_KEY", func(c WebConfig) string { return c.OldEncryptionKey }},
	{"CONCOURSE_TLS_BIND_PORT", func(c WebConfig) string { return number(c.TLSPort) }},
	{"CONCOURSE_TLS_CERT", func(c WebConfig) string { return when(c.TLSPort != 0, c.Paths.TLSCert()) }},
	{"CONCOURSE_TLS_KEY", func(c WebConfig) string { return when(c.TLSPort != 0, c.Paths.TLSKey()) }},
	{"CONCOURSE_ENABLE_RERUN_WHEN_WORKER_DISAPPEARS", func(c WebConfig) string { return when(c.Rerun, "true") }},
	{"CONCOURSE_PROMETHEUS_BIND_IP", func(c WebConfig) string { return when(c.Metrics, "0.0.0.0") }},
	{"CONCOURSE_PROMETHEUS_BIND_PORT", func(c WebConfig) string { return when(c.Metrics, number(wellknown.WebMetricsPort)) }},
	{"http_proxy", func(c WebConfig) string { return c.Proxy.HTTP }},
	{"https_proxy", func(c WebConfig) string { return c.Proxy.HTTPS }},
	{"no_proxy", WebConfig.noProxy},

	// What the relation to Vault sets, so that it goes with the relation.
	{"CONCOURSE_VAULT_URL", nil},
	{"CONCOURSE_VAULT_AUTH_BACKEND", nil},
	{"CONCOURSE_VAULT_AUTH_PARAM", nil},
	{"CONCOURSE_VAULT_CA_CERT", nil},
	{"CONCOURSE_VAULT_PATH_PREFIX", nil},

	// The predecessor wrote these, and the web has no use for them.
	{"CONCOURSE_TSA_PUBLIC_KEY", nil},
	{"CONCOURSE_ENABLE_METRICS", nil},
	{"HTTP_PROXY", nil},
	{"HTTPS_PROXY", nil},
	{"NO_PROXY", nil},
}

// noProxy is the operator's list and the webs themselves: a web asks a worker
// by HTTP at the PeerAddress of the web where it registered, and with a proxy
// in between no worker is ever accepted.
func (c WebConfig) noProxy() string {
	if c.Proxy.HTTP == "" && c.Proxy.HTTPS == "" {
		return c.Proxy.No
	}
	var all []string
	for entry := range strings.SplitSeq(c.Proxy.No, ",") {
		all = append(all, strings.TrimSpace(entry))
	}
	for _, web := range append([]string{c.PeerAddress}, slices.Sorted(slices.Values(c.Peers))...) {
		if !slices.Contains(all, web) {
			all = append(all, web)
		}
	}
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), ",")
}

// localUsers never names a user without a password (D24).
func (c WebConfig) localUsers() string {
	if c.AdminUser == "" || c.AdminPassword == "" {
		return c.ExtraLocalUsers
	}
	users := c.AdminUser + ":" + c.AdminPassword
	if c.ExtraLocalUsers != "" {
		users += "," + c.ExtraLocalUsers
	}
	return users
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// File is the environment file with this configuration; existing is what is
// there now. Only root reads it: systemd does, before it starts the web.
func (c WebConfig) File(existing []byte) (resource.File, error) {
	data, err := renderEnv(existing, c.Env(), func(key string) bool { return c.owns(key) || ownsTracing(existing, key) })
	return resource.File{Path: c.Paths.Env(), Data: data, Mode: 0o600, Owner: "root"}, err
}

// owns reports whether the charm or its predecessor ever wrote the key.
func (c WebConfig) owns(key string) bool {
	if slices.Contains([]string{TaskLimitKey, ldapStartTLS, ldapClear}, key) {
		return slices.Contains(c.Noted, key) || slices.Contains(c.ToNote(), key)
	}
	return webVariables.owns(key) || databaseVariables.owns(key) || slices.Contains(c.OptionKeys, key)
}
