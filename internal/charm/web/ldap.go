package web

import (
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// ldapOf returns the server of the relation ldap, which has priority over the options that
// name a server. The causes report its problems.
func ldapOf(o Observed) (concourse.LDAP, []status.Cause) {
	l := o.Facts.Web.LDAP
	if l == nil {
		return concourse.LDAP{}, status.Warnings(o.Config.Web.LDAPNotes)
	}
	server, ok, problems := relation.ParseLDAP(l.Remote, l.Secrets)
	var causes []status.Cause
	for _, p := range problems {
		causes = append(causes, role.WrongData(status.Waiting, juju.AppOf(o.Facts.Unit), "ldap", l.App, p))
	}
	switch {
	case len(problems) > 0:
		return concourse.LDAP{}, causes
	case !ok:
		return concourse.LDAP{}, []status.Cause{status.Wait("ldap: %s has no account for this application yet",
			l.App).
			Run("juju status " + l.App)}
	case server.Clear:
		causes = []status.Cause{status.Warn("ldap: %s has no TLS, and passwords are sent in clear", l.App).
			Explain("it offers neither LDAPS nor StartTLS; switch one on there")}
	}
	return concourse.LDAP(server), causes
}
