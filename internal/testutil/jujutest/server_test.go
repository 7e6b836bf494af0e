package jujutest

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
)

func TestCommandOfAnotherHookIsRefused(t *testing.T) {
	socket, tools := install(t)
	m := CaseModel(false)
	old := m.Begin(Hook("install"))
	require.NoError(t, old.Commit())
	now := m.Begin(Hook("start"))
	s, err := Serve(socket, func() *Context { return now })
	require.NoError(t, err)
	_, stderr, code := real(t, socket, tools)(old, words("config-get"), "")
	require.Equal(t, 1, code)
	require.Equal(t, "ERROR bad request: wrong context ID; got \""+old.ID+"\"\n", stderr)
	require.NoError(t, s.Close())
	require.NoFileExists(t, socket)
}

func TestCommandOutsideAHookFails(t *testing.T) {
	var out, errb bytes.Buffer
	code := ToolMain([]string{"/x/config-get"}, strings.NewReader(""), &out, &errb, func(string) string { return "" })
	require.Equal(t, 1, code)
	require.Empty(t, out.String())
	require.Equal(t, "ERROR JUJU_CONTEXT_ID not set\n", errb.String())
}

// untouchable fails the test when stdin is read: a person's terminal would hang.
type untouchable struct{ t *testing.T }

func (u untouchable) Read([]byte) (int, error) {
	u.t.Error("stdin was read")
	return 0, os.ErrClosed
}

func TestStdinIsReadOnlyWhenAskedFor(t *testing.T) {
	socket, tools := install(t)
	c := CaseModel(false).Begin(Hook("start"))
	s, err := Serve(socket, func() *Context { return c })
	require.NoError(t, err)
	defer s.Close()
	env := map[string]string{}
	for _, kv := range c.HookEnv(socket, tools) {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	var out, errb bytes.Buffer
	code := ToolMain(words("config-get name"), untouchable{t}, &out, &errb, func(k string) string { return env[k] })
	require.Zero(t, code, errb.String())
	require.Equal(t, "x\n", out.String())
}

func TestHookEnvironmentIsJujus(t *testing.T) {
	m := CaseModel(false)
	m.Proxy = juju.Proxy{HTTP: "http://proxy:3128"}
	names := func(c *Context) (out []string) {
		for _, kv := range c.HookEnv("/s", "/tools") {
			k, _, _ := strings.Cut(kv, "=")
			out = append(out, k)
		}
		return out
	}
	common := strings.Fields(`CHARM_DIR JUJU_CHARM_DIR JUJU_CONTEXT_ID JUJU_HOOK_NAME JUJU_DISPATCH_PATH
		JUJU_AGENT_SOCKET_ADDRESS JUJU_AGENT_SOCKET_NETWORK JUJU_UNIT_NAME JUJU_MODEL_UUID JUJU_MODEL_NAME
		JUJU_API_ADDRESSES JUJU_SLA JUJU_MACHINE_ID JUJU_PRINCIPAL_UNIT JUJU_AVAILABILITY_ZONE JUJU_VERSION
		CLOUD_API_VERSION JUJU_CHARM_HTTP_PROXY JUJU_CHARM_HTTPS_PROXY JUJU_CHARM_FTP_PROXY JUJU_CHARM_NO_PROXY
		LANG TERM PATH DEBIAN_FRONTEND APT_LISTCHANGES_FRONTEND`)
	with := func(more string) []string { return append(strings.Fields(more), common...) }
	const relation = "JUJU_RELATION JUJU_RELATION_ID JUJU_REMOTE_UNIT JUJU_REMOTE_APP "
	secret := Hook("secret-changed")
	secret.SecretID = "secret:d0000000000000000000"
	for name, c := range map[string]struct {
		ctx  *Context
		more string
	}{
		"hook":     {m.Begin(Hook("install")), ""},
		"created":  {m.Begin(RelationHook(m.relation(7), "created", "")), relation},
		"departed": {m.Begin(RelationHook(m.relation(7), "departed", "db/0")), relation + "JUJU_DEPARTING_UNIT"},
		"action":   {m.BeginAction("diagnose", nil), "JUJU_ACTION_NAME JUJU_ACTION_UUID JUJU_ACTION_TAG"},
		"secret":   {m.Begin(secret), "JUJU_SECRET_ID JUJU_SECRET_LABEL"},
	} {
		t.Run(name, func(t *testing.T) { require.ElementsMatch(t, with(c.more), names(c.ctx)) })
	}
}

// What the model puts into the environment is what the charm reads out of it.
func TestEventSurvivesTheEnvironment(t *testing.T) {
	m := CaseModel(false)
	m.Proxy = juju.Proxy{HTTP: "http://proxy:3128", NoProxy: "10.0.0.0/8"}
	for _, c := range []*Context{
		m.Begin(Hook("install")),
		m.Begin(RelationHook(m.relation(7), "departed", "db/0")),
		m.Begin(RelationHook(m.relation(7), "broken", "")),
		m.BeginAction("diagnose", nil),
	} {
		env := map[string]string{}
		for _, kv := range c.HookEnv("/s", "/tools") {
			k, v, _ := strings.Cut(kv, "=")
			env[k] = v
		}
		e, err := juju.ParseEvent(func(k string) string { return env[k] })
		require.NoError(t, err)
		require.Equal(t, c.Event, e)
	}
}
