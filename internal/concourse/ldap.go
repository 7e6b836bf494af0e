package concourse

import "strconv"

// LDAP is the server of the relation ldap, by which people log in. Without a Host there
// is none, and options may name one.
type LDAP struct {
	Host                     string // host:port
	StartTLS, Clear          bool   // with neither it speaks TLS from the start
	BaseDN, BindDN, Password string
}

// The variables of the server. No option says how it is spoken to: without the relation
// those two are the operator's own.
const (
	ldapHost     = "CONCOURSE_LDAP_HOST"
	ldapStartTLS = "CONCOURSE_LDAP_START_TLS"
	ldapClear    = "CONCOURSE_LDAP_INSECURE_NO_SSL"
)

// ldapServer says where to log in, and comes before the options.
var ldapServer = envTable[LDAP]{
	{ldapHost, func(l LDAP) string { return l.Host }},
	{"CONCOURSE_LDAP_BIND_DN", func(l LDAP) string { return l.BindDN }},
	{"CONCOURSE_LDAP_BIND_PW", func(l LDAP) string { return l.Password }},
	// Both, as one of the operator's would make it another way for this server.
	{ldapStartTLS, func(l LDAP) string { return when(l.Host != "", strconv.FormatBool(l.StartTLS)) }},
	{ldapClear, func(l LDAP) string { return when(l.Host != "", strconv.FormatBool(l.Clear)) }},
}

// ldapSearch is how people and groups are found, where no option says it: with the
// attributes of RFC 2307, which GLAuth's entries have. The relation does not tell, and
// without these Concourse finds nobody. A person's name is uid, too, as teams may name
// people by it, and a cn may be anybody's.
var ldapSearch = envTable[LDAP]{
	{"CONCOURSE_LDAP_USER_SEARCH_BASE_DN", func(l LDAP) string { return l.BaseDN }},
	{"CONCOURSE_LDAP_USER_SEARCH_USERNAME", fixed[LDAP]("uid")},
	{"CONCOURSE_LDAP_USER_SEARCH_NAME_ATTR", fixed[LDAP]("uid")},
	{"CONCOURSE_LDAP_GROUP_SEARCH_BASE_DN", func(l LDAP) string { return l.BaseDN }},
	{"CONCOURSE_LDAP_GROUP_SEARCH_USER_ATTR", fixed[LDAP]("uid")},
	{"CONCOURSE_LDAP_GROUP_SEARCH_GROUP_ATTR", fixed[LDAP]("memberUid")},
	{"CONCOURSE_LDAP_GROUP_SEARCH_NAME_ATTR", fixed[LDAP]("cn")},
}

// ldapUsual are needed with any server, whoever names it. The help of concourse web calls them the defaults,
// and without them nobody can log in (dex, connector/ldap: identityFromEntry).
var ldapUsual = map[string]string{
	"CONCOURSE_LDAP_USER_SEARCH_ID_ATTR":    "uid",
	"CONCOURSE_LDAP_USER_SEARCH_EMAIL_ATTR": "mail",
}
