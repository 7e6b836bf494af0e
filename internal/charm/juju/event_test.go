package juju_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
)

func lookup(text string) func(string) string {
	env := map[string]string{}
	for _, kv := range strings.Fields(text) {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	return func(k string) string { return env[k] }
}

func TestParseEvent(t *testing.T) {
	const unit = " JUJU_UNIT_NAME=ci/3 JUJU_MODEL_NAME=m JUJU_MODEL_UUID=u JUJU_MACHINE_ID=3/lxd/1 JUJU_VERSION=3.6.11 JUJU_CHARM_DIR=/c"
	base := juju.Event{Unit: "ci/3", ModelName: "m", ModelUUID: "u", MachineID: "3/lxd/1", JujuVersion: "3.6.11", CharmDir: "/c"}
	flight := &juju.RelationRef{Endpoint: "flight", ID: "flight:7"}
	for name, c := range map[string]struct {
		env  string
		want func(*juju.Event)
	}{
		"hook":                      {"JUJU_DISPATCH_PATH=hooks/config-changed JUJU_HOOK_NAME=config-changed", func(e *juju.Event) { e.Name = "config-changed" }},
		"hook by its name alone":    {"JUJU_HOOK_NAME=install", func(e *juju.Event) { e.Name = "install" }},
		"hook that nobody knows":    {"JUJU_DISPATCH_PATH=hooks/pod-brewed", func(e *juju.Event) { e.Name = "pod-brewed" }},
		"hook named like an action": {"JUJU_DISPATCH_PATH=hooks/plan", func(e *juju.Event) { e.Name = "plan" }},
		"action":                    {"JUJU_DISPATCH_PATH=actions/plan JUJU_ACTION_NAME=plan JUJU_ACTION_UUID=12", func(e *juju.Event) { e.Name, e.Action = "plan-action", &juju.ActionRef{Name: "plan", UUID: "12"} }},
		"action by its path alone":  {"JUJU_DISPATCH_PATH=actions/plan", func(e *juju.Event) { e.Name, e.Action = "plan-action", &juju.ActionRef{Name: "plan"} }},
		"secret":                    {"JUJU_DISPATCH_PATH=hooks/secret-changed JUJU_SECRET_ID=secret:x JUJU_SECRET_LABEL=l", func(e *juju.Event) { e.Name, e.SecretID, e.SecretLabel = "secret-changed", "secret:x", "l" }},
		"relation without units":    {"JUJU_DISPATCH_PATH=hooks/flight-relation-created JUJU_RELATION=flight JUJU_RELATION_ID=flight:7 JUJU_REMOTE_UNIT= JUJU_REMOTE_APP=web", func(e *juju.Event) { e.Name, e.Relation, e.RemoteApp = "flight-relation-created", flight, "web" }},
		"relation of a leaving unit": {"JUJU_DISPATCH_PATH=hooks/flight-relation-departed JUJU_RELATION_ID=flight:7 JUJU_REMOTE_UNIT=web/0 JUJU_REMOTE_APP=web JUJU_DEPARTING_UNIT=web/0", func(e *juju.Event) {
			e.Name, e.Relation, e.RemoteUnit, e.RemoteApp, e.DepartingUnit = "flight-relation-departed", flight, "web/0", "web", "web/0"
		}},
		"proxy": {"JUJU_HOOK_NAME=start JUJU_CHARM_HTTP_PROXY=http://p JUJU_CHARM_HTTPS_PROXY=https://p JUJU_CHARM_NO_PROXY=a,b", func(e *juju.Event) {
			e.Name, e.Proxy = "start", juju.Proxy{HTTP: "http://p", HTTPS: "https://p", NoProxy: "a,b"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			want := base
			c.want(&want)
			got, err := juju.ParseEvent(lookup(c.env + unit))
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, "ci", got.App())
		})
	}
}

func TestNotRunByJuju(t *testing.T) {
	_, err := juju.ParseEvent(lookup("HOME=/root PATH=/bin"))
	require.ErrorIs(t, err, juju.ErrNotJuju)
}

func FuzzParseEvent(f *testing.F) {
	f.Add("hooks/install", "install", "", "")
	f.Add("actions/plan", "", "plan", "")
	f.Add("", "", "", "flight:7")
	f.Add("///", "x", "", ":")
	f.Fuzz(func(t *testing.T, dispatch, hook, action, relation string) {
		env := map[string]string{"JUJU_DISPATCH_PATH": dispatch, "JUJU_HOOK_NAME": hook, "JUJU_ACTION_NAME": action, "JUJU_RELATION_ID": relation}
		e, err := juju.ParseEvent(func(k string) string { return env[k] })
		if err != nil {
			require.ErrorIs(t, err, juju.ErrNotJuju)
			return
		}
		require.NotEmpty(t, e.Name)
		require.Equal(t, relation != "", e.Relation != nil)
	})
}
