package concourse

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

// WebDatabase describes the web's PostgreSQL database.
type WebDatabase struct {
	Host     string // a name, an address, or the folder of a socket
	Port     int
	User     string
	Password string
	Name     string
	SSLMode  string // disable, require, verify-ca, verify-full
	CAFile   string // for the modes that verify
}

// socket returns the folder of the database's socket, or "" with a host.
func (d WebDatabase) socket() string {
	if path.IsAbs(d.Host) {
		return d.Host
	}
	return ""
}

// databaseVariables has the database's variables, as all commands of Concourse read them.
var databaseVariables = envTable[WebDatabase]{
	{"CONCOURSE_POSTGRES_HOST", func(d WebDatabase) string {
		if d.socket() != "" {
			return ""
		}
		return d.Host
	}},
	{"CONCOURSE_POSTGRES_SOCKET", func(d WebDatabase) string { return d.socket() }},
	{"CONCOURSE_POSTGRES_PORT", func(d WebDatabase) string { return number(d.Port) }},
	// Concourse passes its port only with a host. PostgreSQL's client reads this one.
	{"PGPORT", func(d WebDatabase) string {
		if d.socket() == "" {
			return ""
		}
		return number(d.Port)
	}},
	{"CONCOURSE_POSTGRES_USER", func(d WebDatabase) string { return d.User }},
	{"CONCOURSE_POSTGRES_PASSWORD", func(d WebDatabase) string { return d.Password }},
	{"CONCOURSE_POSTGRES_DATABASE", func(d WebDatabase) string { return d.Name }},
	{"CONCOURSE_POSTGRES_SSLMODE", func(d WebDatabase) string { return d.SSLMode }},
	{"CONCOURSE_POSTGRES_CA_CERT", func(d WebDatabase) string { return d.CAFile }},
}

// WebOptions holds the options of the charm that end in variables of the web. A field has
// the name of its option.
type WebOptions struct {
	InitialAdminUsername string
	MainTeamLocalUser    string // names with commas between them; "": the first user
	ExtraLocalUsers      string // a secret: name:password pairs with commas between them
	EnableMetrics        bool   // of Concourse, and of its jobs
}

// WebConfig holds the input of the web's environment. Concourse's defaults apply to fields
// that are empty, 0 or false.
type WebConfig struct {
	WebOptions
	Paths       WebPaths
	BindPort    int    // of plain HTTP; the charm's own requests use it with TLS too
	LogLevel    string // debug, info, warn, error, fatal
	ExternalURL string
	PeerAddress string // of this machine; all webs reach the workers registered here with it
	// Peers are the PeerAddress of the other webs. They matter only with a Proxy, which
	// would otherwise receive requests to workers registered there.
	Peers       []string
	ClusterName string
	TLSPort     int // 0: no TLS

	AdminPassword string
	TeamKeys      bool // some workers are for one team each

	Database                        WebDatabase
	EncryptionKey, OldEncryptionKey string // 16 or 32 bytes

	// TaskLimit is the number of tasks that the web sends to one worker at once. With 0 the
	// charm sets no limit.
	TaskLimit int
	// Noted are the variables that the operator may set too and that the charm wrote
	// before. Other such variables belong to the operator.
	Noted []string

	// Options and Vault are variables from options and from the relation to Vault. Vault's
	// override the options, and the charm's own override both. OptionKeys are all variables
	// that options can set; the file drops those that are not set (D26).
	Options, Vault map[string]string
	OptionKeys     []string
	LDAP           LDAP
	Proxy          resource.Proxies
	Tracing        Tracing
}

// Env returns the environment by variable, without empty values. It contains secrets.
func (c WebConfig) Env() map[string]string {
	env := map[string]string{}
	if c.LDAP.Host != "" {
		maps.Copy(env, ldapSearch.env(c.LDAP))
	}
	if c.LDAP.Host != "" || c.Options[ldapHost] != "" {
		maps.Copy(env, ldapUsual)
	}
	maps.Copy(env, c.Options)
	maps.Copy(env, ldapServer.env(c.LDAP))
	maps.Copy(env, c.Vault)
	maps.Copy(env, webVariables.env(c))
	maps.Copy(env, databaseVariables.env(c.Database))
	maps.Copy(env, tracingVariables.env(c.Tracing))
	if c.TaskLimit > 0 {
		env[TaskLimitKey] = strconv.Itoa(c.TaskLimit)
		env[StrategyKey] = limited(env[StrategyKey])
	}
	maps.DeleteFunc(env, func(_, value string) bool { return value == "" })
	return env
}

// webVariables maps the fields of WebConfig to the web's environment.
var webVariables = envTable[WebConfig]{
	{"CONCOURSE_BIND_PORT", func(c WebConfig) string { return number(c.BindPort) }},
	{"CONCOURSE_LOG_LEVEL", func(c WebConfig) string { return c.LogLevel }},
	{"CONCOURSE_TSA_LOG_LEVEL", func(c WebConfig) string { return c.LogLevel }},
	{"CONCOURSE_EXTERNAL_URL", func(c WebConfig) string { return c.ExternalURL }},
	{"CONCOURSE_PEER_ADDRESS", func(c WebConfig) string { return c.PeerAddress }},
	{"CONCOURSE_CLUSTER_NAME", func(c WebConfig) string { return c.ClusterName }},
	{"CONCOURSE_TSA_HOST_KEY", func(c WebConfig) string { return c.Paths.TSAHostKey() }},
	{"CONCOURSE_TSA_AUTHORIZED_KEYS", func(c WebConfig) string { return c.Paths.AuthorizedKeys() }},
	{"CONCOURSE_TSA_TEAM_AUTHORIZED_KEYS_FILE",
		func(c WebConfig) string { return when(c.TeamKeys, c.Paths.TeamKeys()) }},
	{"CONCOURSE_SESSION_SIGNING_KEY", func(c WebConfig) string { return c.Paths.SessionKey() }},
	{"CONCOURSE_ADD_LOCAL_USER", WebConfig.localUsers},
	{"CONCOURSE_MAIN_TEAM_LOCAL_USER", func(c WebConfig) string {
		return cmp.Or(c.MainTeamLocalUser, c.InitialAdminUsername)
	}},
	{"CONCOURSE_ENCRYPTION_KEY", func(c WebConfig) string { return c.EncryptionKey }},
	{"CONCOURSE_OLD_ENCRYPTION_KEY", func(c WebConfig) string { return c.OldEncryptionKey }},
	{"CONCOURSE_TLS_BIND_PORT", func(c WebConfig) string { return number(c.TLSPort) }},
	{"CONCOURSE_TLS_CERT", func(c WebConfig) string { return when(c.TLSPort != 0, c.Paths.TLSCert()) }},
	{"CONCOURSE_TLS_KEY", func(c WebConfig) string { return when(c.TLSPort != 0, c.Paths.TLSKey()) }},
	// It repeats steps with an error about a disappeared worker. The wrapper reports missing
	// GPUs with such an error, too.
	{"CONCOURSE_ENABLE_RERUN_WHEN_WORKER_DISAPPEARS", func(c WebConfig) string {
		return when(c.BindPort != 0, "true")
	}},
	{"CONCOURSE_PROMETHEUS_BIND_IP", func(c WebConfig) string { return when(c.EnableMetrics, "0.0.0.0") }},
	{"CONCOURSE_PROMETHEUS_BIND_PORT", func(c WebConfig) string {
		return when(c.EnableMetrics, number(wellknown.WebMetricsPort))
	}},
	{"http_proxy", func(c WebConfig) string { return c.Proxy.HTTP }},
	{"https_proxy", func(c WebConfig) string { return c.Proxy.HTTPS }},
	{"no_proxy", WebConfig.noProxy},

	// The relation to Vault sets these, so they are removed with the relation.
	{"CONCOURSE_VAULT_URL", nil},
	{"CONCOURSE_VAULT_AUTH_BACKEND", nil},
	{"CONCOURSE_VAULT_AUTH_PARAM", nil},
	{"CONCOURSE_VAULT_CA_CERT", nil},
	{"CONCOURSE_VAULT_PATH_PREFIX", nil},

	// The predecessor wrote these, and the web does not use them.
	{"CONCOURSE_TSA_PUBLIC_KEY", nil},
	{"CONCOURSE_ENABLE_METRICS", nil},
	{"HTTP_PROXY", nil},
	{"HTTPS_PROXY", nil},
	{"NO_PROXY", nil},
}

// noProxy returns the operator's list and the addresses of the webs. A web sends HTTP
// requests for a worker to the PeerAddress of the web with its registration. Through a
// proxy no worker would ever be accepted.
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
	if c.InitialAdminUsername == "" || c.AdminPassword == "" {
		return c.ExtraLocalUsers
	}
	users := c.InitialAdminUsername + ":" + c.AdminPassword
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

// File returns the environment file with this configuration and the operator's lines of
// existing. Only root reads it, because systemd does so before it starts the web.
func (c WebConfig) File(existing []byte) (resource.File, error) {
	data, err := renderEnv(existing, c.Env(),
		func(key string) bool { return c.owns(key) || ownsTracing(existing, key) })
	return resource.File{Path: c.Paths.Env(), Data: data, Mode: 0o600, Owner: "root"}, err
}

// owns reports whether the charm or its predecessor ever wrote the key.
func (c WebConfig) owns(key string) bool {
	if slices.Contains([]string{TaskLimitKey, ldapStartTLS, ldapClear}, key) {
		return slices.Contains(c.Noted, key) || slices.Contains(c.ToNote(), key)
	}
	return webVariables.owns(key) || databaseVariables.owns(key) || slices.Contains(c.OptionKeys, key)
}

// LDAP describes the server of the relation ldap, with which people log in. An empty Host
// means that the relation is missing. Options may then name a server.
type LDAP struct {
	Host                     string // host:port
	StartTLS, Clear          bool   // with neither, the connection is TLS from the start
	BaseDN, BindDN, Password string
}

// Variables of the server. No option sets the last two, so without the relation they are
// the operator's.
const (
	ldapHost     = "CONCOURSE_LDAP_HOST"
	ldapStartTLS = "CONCOURSE_LDAP_START_TLS"
	ldapClear    = "CONCOURSE_LDAP_INSECURE_NO_SSL"
)

// ldapServer has the address and credentials of the server. They override the options.
var ldapServer = envTable[LDAP]{
	{ldapHost, func(l LDAP) string { return l.Host }},
	{"CONCOURSE_LDAP_BIND_DN", func(l LDAP) string { return l.BindDN }},
	{"CONCOURSE_LDAP_BIND_PW", func(l LDAP) string { return l.Password }},
	// Both are set, because one from the operator would change how this server is reached.
	{ldapStartTLS, func(l LDAP) string { return when(l.Host != "", strconv.FormatBool(l.StartTLS)) }},
	{ldapClear, func(l LDAP) string { return when(l.Host != "", strconv.FormatBool(l.Clear)) }},
}

// ldapSearch sets how people and groups are found, unless an option does. It uses the
// attributes of RFC 2307, which GLAuth's entries have. The relation does not provide them,
// and without them Concourse finds no user. A person's name is also uid, because teams may
// name people by it and a cn is not unique.
var ldapSearch = envTable[LDAP]{
	{"CONCOURSE_LDAP_USER_SEARCH_BASE_DN", func(l LDAP) string { return l.BaseDN }},
	{"CONCOURSE_LDAP_USER_SEARCH_USERNAME", fixed[LDAP]("uid")},
	{"CONCOURSE_LDAP_USER_SEARCH_NAME_ATTR", fixed[LDAP]("uid")},
	{"CONCOURSE_LDAP_GROUP_SEARCH_BASE_DN", func(l LDAP) string { return l.BaseDN }},
	{"CONCOURSE_LDAP_GROUP_SEARCH_USER_ATTR", fixed[LDAP]("uid")},
	{"CONCOURSE_LDAP_GROUP_SEARCH_GROUP_ATTR", fixed[LDAP]("memberUid")},
	{"CONCOURSE_LDAP_GROUP_SEARCH_NAME_ATTR", fixed[LDAP]("cn")},
}

// ldapUsual has variables that every server needs. The help of concourse web calls them
// defaults, but without them no user can log in (dex, connector/ldap: identityFromEntry).
var ldapUsual = map[string]string{
	"CONCOURSE_LDAP_USER_SEARCH_ID_ATTR":    "uid",
	"CONCOURSE_LDAP_USER_SEARCH_EMAIL_ATTR": "mail",
}
