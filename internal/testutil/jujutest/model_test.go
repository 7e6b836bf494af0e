package jujutest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func ok(t *testing.T, c *Context, line string) string {
	t.Helper()
	stdout, stderr, code := c.Run(words(line), nil)
	require.Zero(t, code, "%s: %s", line, stderr)
	return stdout
}

// change is one of everything that a hook can change.
func change(t *testing.T, c *Context) {
	ok(t, c, "relation-set -r db:7 a=1")
	ok(t, c, "relation-set -r db:7 --app b=2")
	ok(t, c, "state-set k=v")
	ok(t, c, "open-port 9401")
	ok(t, c, "secret-add --label l token=x")
	ok(t, c, "juju-reboot")
	ok(t, c, "status-set maintenance working")
	ok(t, c, "juju-log hello")
	ok(t, c, "application-version-set 1.2")
}

func TestFailedHookKeepsOnlyWhatWasShown(t *testing.T) {
	m := CaseModel(false)
	before := m.Book.clone()
	c := m.Begin(Hook("config-changed"))
	change(t, c)
	require.Equal(t, before, m.Book.clone(), "nothing is kept while the hook runs")
	c.Rollback()
	require.Equal(t, before, m.Book.clone())
	require.Equal(t, StatusLine{"maintenance", "working"}, m.Status())
	require.Equal(t, []LogLine{{"INFO", "hello"}}, m.Logs)
	require.Equal(t, "1.2", m.Version)
}

func TestGoodHookKeepsAll(t *testing.T) {
	m := CaseModel(false)
	c := m.Begin(Hook("config-changed"))
	change(t, c)
	m.relation(7).Units["db/1"] = map[string]string{} // the other side moves on
	require.NoError(t, c.Commit())
	db := m.relation(7)
	require.Equal(t, map[string]string{"a": "1", "ingress-address": "10.0.0.5"}, db.Local)
	require.Equal(t, map[string]string{"b": "2"}, db.LocalApp)
	require.Contains(t, db.Units, "db/1")
	require.Equal(t, map[string]string{"k": "v"}, m.State)
	require.Equal(t, []OpenPort{{From: 9401, To: 9401, Protocol: "tcp"}}, m.Ports)
	require.Equal(t, "after", m.Reboot)
	require.Len(t, m.Secrets, 1)
	require.Equal(t, map[string]string{"token": "x"}, m.Secrets[0].Revisions[0])
}

func TestEndedHookHasNoTools(t *testing.T) {
	m := CaseModel(false)
	c := m.Begin(Hook("config-changed"))
	require.NoError(t, c.Commit())
	require.Error(t, c.Commit())
	_, stderr, code := c.Run(words("config-get"), nil)
	require.Equal(t, 1, code)
	require.Contains(t, stderr, "ERROR bad request: wrong context ID")
}

func TestUnknownToolIsABadRequest(t *testing.T) {
	_, stderr, code := CaseModel(false).Begin(Hook("start")).Run([]string{"no-such-tool"}, nil)
	require.Equal(t, 1, code)
	require.Equal(t, "ERROR bad request: unknown command: no-such-tool\n", stderr)
}

func TestSecretRevisionsAreSeenOnRefresh(t *testing.T) {
	m := CaseModel(false)
	s := m.AddSecret("db", map[string]string{"token": "one"})
	get := func(flags string) string {
		c := m.Begin(Hook("update-status"))
		defer func() { require.NoError(t, c.Commit()) }()
		return ok(t, c, "secret-get "+flags+" secret:"+s.ID+" token")
	}
	require.Equal(t, "one\n", get(""))
	m.secret(s.ID).Revisions = append(m.secret(s.ID).Revisions, map[string]string{"token": "two"})
	require.Equal(t, "one\n", get(""))
	require.Equal(t, "two\n", get("--peek"))
	require.Equal(t, "one\n", get(""))
	require.Equal(t, "two\n", get("--refresh"))
	require.Equal(t, "two\n", get(""))
	m.secret(s.ID).Granted = false
	_, stderr, code := m.Begin(Hook("start")).Run(words("secret-get secret:"+s.ID), nil)
	require.Equal(t, 1, code)
	require.Equal(t, "ERROR permission denied\n", stderr)
}

func TestSecretOfOursGetsOneRevisionAHook(t *testing.T) {
	m := CaseModel(false)
	c := m.Begin(Hook("install"))
	id := strings.TrimSpace(ok(t, c, "secret-add --label l token=one"))
	ok(t, c, "secret-set "+id+" token=uno")
	require.NoError(t, c.Commit())
	require.Equal(t, []map[string]string{{"token": "uno"}}, m.Secrets[0].Revisions)

	c = m.Begin(Hook("start"))
	ok(t, c, "secret-set "+id+" token=uno")
	require.NoError(t, c.Commit())
	require.Len(t, m.Secrets[0].Revisions, 1, "the same content is no new revision")

	c = m.Begin(Hook("start"))
	ok(t, c, "secret-set "+id+" token=two")
	ok(t, c, "secret-set "+id+" token=three")
	ok(t, c, "secret-grant "+id+" -r db:7")
	ok(t, c, "secret-grant "+id+" -r db:7")
	require.NoError(t, c.Commit())
	require.Equal(t, []map[string]string{{"token": "uno"}, {"token": "three"}}, m.Secrets[0].Revisions)
	require.Equal(t, []Grant{{"db:7", "db"}}, m.Secrets[0].Grants)

	m.Leader = false
	c = m.Begin(Hook("start"))
	ok(t, c, "secret-set "+id+" token=four")
	require.EqualError(t, c.Commit(), `"gpu/0" is not leader of "gpu"`)
	require.Len(t, m.Secrets[0].Revisions, 2)
}

func TestRefusedCommitChangesNothing(t *testing.T) {
	m := CaseModel(false)
	for name, line := range map[string]string{
		"a secret that is not there": "secret-set secret:d0000000000000000000 token=x",
		"a label that is taken":      "secret-add --label taken token=x",
	} {
		t.Run(name, func(t *testing.T) {
			m.Secrets = []*Secret{{ID: "e0000000000000000000", Label: "taken", Owner: "gpu", Revisions: []map[string]string{{"token": "y"}}}}
			c := m.Begin(Hook("start"))
			ok(t, c, "state-set k=v")
			ok(t, c, line)
			require.Error(t, c.Commit())
			require.Empty(t, m.State)
		})
	}
}

func TestActionKeepsItsResults(t *testing.T) {
	m := CaseModel(false)
	c := m.BeginAction("diagnose", CaseParams())
	ok(t, c, "action-set foo.bar=2 foo.baz=1 foo.bar.zab=4")
	ok(t, c, "action-log step")
	require.NoError(t, c.Commit())
	a := m.Actions[0]
	require.Equal(t, map[string]any{"foo": map[string]any{"bar": map[string]any{"zab": "4"}, "baz": "1"}}, a.Results)
	require.Equal(t, "completed", a.Status)
	require.Equal(t, []string{"step"}, a.Log)

	c = m.BeginAction("diagnose", nil)
	ok(t, c, "action-fail broken")
	require.NoError(t, c.Commit())
	require.Equal(t, "failed", m.Actions[1].Status)
	require.Equal(t, "broken", m.Actions[1].Message)
}

func TestLogCarriesTheRelation(t *testing.T) {
	m := CaseModel(false)
	ok(t, m.Begin(RelationHook(m.relation(7), "joined", "db/0")), "juju-log -l warn hello there")
	require.Equal(t, []LogLine{{"WARNING", "db:7: hello there"}}, m.Logs)
}

func TestConfigIsTypedAsInJuju(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte("options:\n  n: {type: int, default: 5}\n  b: {type: boolean, default: false}\n  s: {type: string}\n  f: {type: float, default: 1}\n"), 0o644))
	m := New("gpu/0")
	require.NoError(t, m.LoadConfig(path))
	require.Equal(t, map[string]any{"n": int64(5), "b": false, "s": nil, "f": 1.0}, m.Config)
	require.NoError(t, m.SetConfig("n", "7"))
	require.NoError(t, m.SetConfig("b", "true"))
	require.NoError(t, m.SetConfig("s", "x"))
	require.Equal(t, map[string]any{"n": int64(7), "b": true, "s": "x", "f": 1.0}, m.Config)
	require.NoError(t, m.SetConfig("n", nil))
	require.Equal(t, int64(5), m.Config["n"])
	require.ErrorContains(t, m.SetConfig("n", "seven"), `option "n" expected int, got "seven"`)
	require.ErrorContains(t, m.SetConfig("s", 3), `option "s" expected string, got 3`)
	require.ErrorContains(t, m.SetConfig("nosuch", 1), `unknown option "nosuch"`)
	require.Error(t, m.Declare("x", Option{Type: "int", Default: "five"}), "a charm with a wrong default")
}
