package web

import (
	"fmt"

	"concourse-ci-machine/internal/charm/juju"
	"concourse-ci-machine/internal/charm/relation"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/concourse"
)

// ldapOf returns the server of the relation ldap, which has priority over the options that
// name a server. The causes report its problems.
func ldapOf(o Observed) (concourse.LDAP, []status.Cause) {
	l := o.Facts.Web.LDAP
	if l == nil {
		var causes []status.Cause
		for _, text := range o.Config.Web.LDAPNotes {
			causes = append(causes, status.Cause{Kind: status.Active, Text: text})
		}
		return concourse.LDAP{}, causes
	}
	server, ok, problems := relation.ParseLDAP(l.Remote, l.Secrets)
	cause := func(kind status.Kind, format string, args ...any) []status.Cause {
		return []status.Cause{{Kind: kind, Text: fmt.Sprintf("ldap: "+format, args...)}}
	}
	var causes []status.Cause
	for _, p := range problems {
		causes = append(causes, cause(status.Waiting,
			"%s; %s has to mend it, or run juju remove-relation %s:ldap %s", p, l.App,
			juju.AppOf(o.Facts.Unit), l.App)...)
	}
	switch {
	case len(problems) > 0:
		return concourse.LDAP{}, causes
	case !ok:
		return concourse.LDAP{}, cause(status.Waiting,
			"%s has no account for this application yet; see juju status %s", l.App, l.App)
	case server.Clear:
		causes = cause(status.Active,
			"%s offers neither LDAPS nor StartTLS, so passwords are sent in clear; switch one on there", l.App)
	}
	return concourse.LDAP(server), causes
}
