package juju_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/jujutest"
)

const pem = "-----BEGIN KEY-----\ns3cret==\n-----END KEY-----\n"

func TestSecretIsCreatedReadAndChanged(t *testing.T) {
	both(t, hook, func(t *testing.T, m *jujutest.Model, c *jujutest.Context, tools *juju.Tools) {
		_, err := tools.SecretGet(ctx, "secret:9m4e2mr0ui3e8a215n4g")
		require.ErrorIs(t, err, juju.ErrNotFound)
		id, err := tools.SecretAdd(ctx, juju.Secret{Label: "key", Description: "d", Content: map[string]string{"private": pem, "user": "u"}})
		require.NoError(t, err)
		require.Regexp(t, "^secret://[0-9a-f-]{36}/[0-9a-v]{20}$", id, "without the newline that the tool prints")
		content, err := tools.SecretGet(ctx, id)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"private": pem, "user": "u"}, content)
		require.NoError(t, tools.SecretSet(ctx, id, juju.Secret{Content: map[string]string{"private": pem + "2"}}))
		require.NoError(t, tools.SecretSet(ctx, id, juju.Secret{Label: "other"}))
		content, err = tools.SecretRefresh(ctx, id)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"private": pem + "2"}, content)

		for _, argv := range c.Calls {
			require.NotContains(t, strings.Join(argv, " "), "s3cret")
		}

		require.NoError(t, c.Commit())
		require.Len(t, m.Secrets, 1)
		require.Equal(t, []string{"other", "d"}, []string{m.Secrets[0].Label, m.Secrets[0].Description})
	})
}

// The texts are from Juju's code: the first three from 3.6, which tests/juju verifies, and the
// others from 4.1.
func TestRefusalsOfSecretGetDifferFromFailures(t *testing.T) {
	for text, refused := range map[string]bool{
		`permission denied`: true,
		`secret "secret:d0000000000000000000" not found`:                                 true,
		`secret URI "secret:xyz" not valid`:                                              false, // exit 2 below
		`"web/0" is not allowed to read this secret`:                                     true,
		`secret not found`:                                                               true,
		`getting latest secret revision: secret "secret:d0000000000000000000" not found`: true,
		`connection is shut down`:                                                        false,
		`api connection is broken`:                                                       false,
		`dial tcp 10.0.0.1:17070: connect: connection refused`:                           false,
		`secret backend "vault" not found`:                                               false,
		`state changing too quickly; try again soon`:                                     false,
		"Error making API request.\n\nURL: GET https://vault\nCode: 403. Errors:\n\n* permission denied": false,
	} {
		err := fmt.Errorf("cannot read it: %w", &juju.ToolError{Tool: "secret-get", Code: 1, Text: text})
		require.Equal(t, refused, juju.SecretRefusal(err) != "", text)
		require.Equal(t, text, juju.SecretRefusal(&juju.ToolError{Tool: "secret-get", Code: 2, Text: text}), "a wrong call stays wrong")
		require.Empty(t, juju.SecretRefusal(&juju.ToolError{Tool: "secret-get", Code: -1, Text: text}), "it did not run")
	}
	require.Empty(t, juju.SecretRefusal(nil))
}

// watcher looks at the file while the tool has it.
type watcher struct {
	host.Runner
	see func(path string)
}

func (w watcher) Run(ctx context.Context, c host.Command) ([]byte, error) {
	for k, a := range c.Argv {
		if a == "--file" {
			w.see(c.Argv[k+1])
		}
	}
	return w.Runner.Run(ctx, c)
}

// Memory that only this process and root can open, and that goes with the
// process, however that ends.
func TestSecretContentIsInNoFile(t *testing.T) {
	var seen []string
	c := hook(jujutest.CaseModel(false))
	tools := juju.New(watcher{c.Runner(nil), func(path string) {
		seen = append(seen, path)
		st, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), st.Mode().Perm())
		to, err := os.Readlink(path)
		require.NoError(t, err)
		require.Equal(t, "/memfd:secret (deleted)", to)
	}})
	_, err := tools.SecretAdd(ctx, juju.Secret{Content: map[string]string{"key": pem}})
	require.NoError(t, err)
	_, err = tools.SecretAdd(ctx, juju.Secret{Content: map[string]string{"K": pem}})
	require.EqualError(t, err, `cannot run secret-add: key "K" not valid`)
	require.Len(t, seen, 2)
	for _, path := range seen {
		if to, err := os.Readlink(path); err == nil { // the number may be another file's by now
			require.NotContains(t, to, "secret", "nor after a refusal")
		}
	}
}
