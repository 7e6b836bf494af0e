package concourse

import "strconv"

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
