package web

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/roletest"
)

// The remedy in the status replaces the invalid part.
func TestInvalidSecretNamesTheKeyToRotate(t *testing.T) {
	for part, which := range map[string]string{model.TSAHostKey: "tsa-host", model.SessionKey: "session", model.AdminPassword: "admin-password"} {
		o := observedWeb(t, nil)
		o.Facts.Web.Secret = roletest.WebSecrets().Content()
		o.Facts.Web.Secret[part] = "a,b"
		d := Desire(o, nil)
		require.Len(t, d.Causes, 1)
		require.Equal(t, status.Blocked, d.Causes[0].Kind)
		require.Contains(t, d.Causes[0].Text, "cannot use the secret of the web: "+part+": ")
		require.Equal(t, []string{"run: juju run concourse-ci-machine/leader rotate-keys keys=" + which}, d.Causes[0].Commands)
		require.Equal(t, []string{part}, Rotated[which])
	}
}

// A service of the Python charm that runs is left as it is until this charm can
// run it; one that does not run has nothing to lose.
func TestTakeoverIsRefusedOnlyIfAServiceRuns(t *testing.T) {
	keyless := func(o *Observed) {
		o.Refused = []error{&concourse.KeyError{Path: "/k", Problem: "it is broken"}}
	}
	for name, c := range map[string]struct {
		change  func(*Observed)
		refused bool
	}{
		"all there":                    {func(*Observed) {}, false},
		"no credentials yet":           {func(o *Observed) { o.Facts.Web.Database.Secrets = nil }, true},
		"no relation to a database":    {func(o *Observed) { o.Facts.Web.Database = nil }, false},
		"no address":                   {func(o *Observed) { o.Facts.Web.Address = "" }, true},
		"nothing from the leader":      {func(o *Observed) { o.Facts.Web.Secret = nil }, true},
		"a key":                        {keyless, true},
		"a key, and nothing runs":      {func(o *Observed) { keyless(o); o.Units = nil }, true},
		"no credentials, nothing runs": {func(o *Observed) { o.Facts.Web.Database.Secrets = nil; o.Units = nil }, false},
		"no credentials, this charm's": {func(o *Observed) { o.Facts.Web.Database.Secrets = nil; o.TakesOver = false }, false},
	} {
		o := observedWeb(t, nil)
		o.TakesOver = true
		o.Units = map[string]resource.UnitState{concourse.WebUnit: {Active: "active"}}
		c.change(&o)
		require.Equal(t, c.refused, len(Desire(o, nil).Refused) > 0, name)
	}
}

// After a downgrade to the Python charm and back, its password is the one in use.
func TestPasswordOfThePythonCharmHasPriority(t *testing.T) {
	o := observedWeb(t, nil)
	for bag, want := range map[string]string{"": roletest.WebSecrets().AdminPassword, "New!pass": "New!pass", "of,no,use": roletest.WebSecrets().AdminPassword} {
		o.Facts.Peer = &model.Relation{Remote: map[string]string{model.AdminPassword: bag}}
		require.Equal(t, want, Desire(o, nil).Secret[model.AdminPassword], bag)
	}
	require.Equal(t, roletest.WebSecrets().AdminPassword, o.Facts.Web.Secret[model.AdminPassword], "what Juju has is not touched, so that it is told")
}
