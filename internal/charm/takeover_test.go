package charm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/resource"
	"concourse-ci-machine/internal/status"
)

// What the status says to run makes the part anew that is of no use.
func TestSecretThatIsOfNoUseNamesTheKeyToRotate(t *testing.T) {
	for part, which := range map[string]string{model.TSAHostKey: "tsa-host", model.SessionKey: "session", model.AdminPassword: "admin-password"} {
		o := observedWeb(t, nil)
		o.Facts.Web.Secret = webSecrets().Content()
		o.Facts.Web.Secret[part] = "a,b"
		d := DesireWeb(o)
		require.Len(t, d.Causes, 1)
		require.Equal(t, status.Blocked, d.Causes[0].Kind)
		require.Contains(t, d.Causes[0].Text, "cannot use the secret of the web: "+part+": ")
		require.Contains(t, d.Causes[0].Text, "; run juju run concourse-ci-machine/leader rotate-keys keys="+which)
		require.Equal(t, []string{part}, Rotated[which])
	}
}

// A service of the Python charm that runs is left as it is until this charm can
// run it; one that does not run has nothing to lose.
func TestTakeoverIsRefusedOnlyWhereSomethingRuns(t *testing.T) {
	keyless := func(o *WebObserved) {
		o.Refused = []error{&concourse.KeyError{Path: "/k", Problem: "it is broken"}}
	}
	for name, c := range map[string]struct {
		change  func(*WebObserved)
		refused bool
	}{
		"all there":                      {func(*WebObserved) {}, false},
		"no credentials yet":             {func(o *WebObserved) { o.Facts.Web.Database.Secrets = nil }, true},
		"no relation to a database":      {func(o *WebObserved) { o.Facts.Web.Database = nil }, false},
		"no address":                     {func(o *WebObserved) { o.Facts.Web.Address = "" }, true},
		"nothing from the leader":        {func(o *WebObserved) { o.Facts.Web.Secret = nil }, true},
		"a key":                          {keyless, true},
		"a key, and nothing runs":        {func(o *WebObserved) { keyless(o); o.Units = nil }, true},
		"no credentials, nothing runs":   {func(o *WebObserved) { o.Facts.Web.Database.Secrets = nil; o.Units = nil }, false},
		"no credentials, this charm's":   {func(o *WebObserved) { o.Facts.Web.Database.Secrets = nil; o.TakesOver = false }, false},
	} {
		o := observedWeb(t, nil)
		o.TakesOver = true
		o.Units = map[string]resource.UnitState{concourse.WebUnit: {Active: "active"}}
		c.change(&o)
		require.Equal(t, c.refused, len(DesireWeb(o).Refused) > 0, name)
	}
}

// A password that the Python charm made while it was gone back to is the one
// that people use by now.
func TestPasswordOfThePythonCharmIsTheOneInUse(t *testing.T) {
	o := observedWeb(t, nil)
	for bag, want := range map[string]string{"": webSecrets().AdminPassword, "New!pass": "New!pass", "of,no,use": webSecrets().AdminPassword} {
		o.Facts.Peer = &model.Relation{Remote: map[string]string{model.AdminPassword: bag}}
		require.Equal(t, want, DesireWeb(o).Secret[model.AdminPassword], bag)
	}
	require.Equal(t, webSecrets().AdminPassword, o.Facts.Web.Secret[model.AdminPassword], "what Juju has is not touched, so that it is told")
}
