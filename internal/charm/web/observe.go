package web

import (
	"context"
	"strings"
	"time"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/predecessor"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// Observed holds everything that a web's state is decided from.
type Observed struct {
	role.Observed

	// BeforeSwitch runs before another release replaces the current one. It prepares the
	// worker of the same unit, and is nil without one.
	BeforeSwitch plan.Resource

	// OldStorage removes the Python charm's keys on shared storage, after they are in the
	// secret.
	OldStorage []plan.Resource
	WebEnv     []byte         // current config.env
	OtherKeys  []string       // lines that others added to the file of workers' keys
	Retired    []string       // workers that left and have retired, by name
	Windows    []model.Worker // running workers on Windows, if required-archs depends on them
	Noted      []string       // variables in WebEnv that the charm noted
	Flags      checkedFlags   // of extra-web-flags
	Certify    Certify
	TLS        bool // the web has a certificate

	Installed, InstalledID string    // running release
	HeldUntil              time.Time // end of the hold of builds; zero if they are not held
}

// Observe reads everything that a web depends on, in addition to u.
func Observe(ctx context.Context, h host.Host, u role.Observed) (Observed, error) {
	o := Observed{Observed: u}
	var err error
	if o.Programs, err = role.Programs(o.CharmDir, "pebble", "concourse-exporter"); err != nil {
		return o, jujuerrors.Annotate(err, "cannot observe the charm's own programs")
	}
	paths := predecessor.WebFiles(h.Root, concourse.WebFiles(o.Shared()))
	env, err := role.ReadOptional(h.Root, paths.Env())
	if err != nil {
		return o, err
	}
	o.WebEnv = []byte(env)
	o.TakesOver = predecessor.WroteWeb(o.WebEnv)
	if o.OtherKeys, err = otherKeys(h.Root, paths, o.Facts.Web); err != nil {
		return o, err
	}
	noted, err := role.ReadOptional(h.Root, NoteFile)
	if err != nil {
		return o, err
	}
	o.Noted = strings.Fields(noted)
	if o.Facts.Leader && o.Facts.Web.SecretID != "" {
		o.OldStorage = predecessor.SharedKeys(h.Root)
	}
	if o.Certify, err = observeCertify(h.Root, o.Config, o.Facts.Web); err != nil {
		return o, err
	}
	_, o.TLS, _ = certificateOf(o)
	o.Retired = retired(ctx, h, o)
	o.Windows = windowsWorkers(ctx, o)
	o.Installed, o.InstalledID, _ = release.Installed(h.Root)
	if err := o.observeFlags(ctx, h); err != nil {
		return o, err
	}
	if o.HeldUntil, err = heldUntil(h.Root, o.Facts); err != nil {
		return o, jujuerrors.Annotate(err, "cannot observe whether builds are held")
	}
	return o, nil
}

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
