package relation

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// transferred has the databags that the provider's libraries wrote.
type transferred struct {
	App   map[string]string            `json:"app"`
	Units map[string]map[string]string `json:"units"`
}

func recordedTransfer(t testing.TB, which string) (bags transferred) {
	t.Helper()
	data, err := os.ReadFile("testdata/certificate_transfer.json")
	require.NoError(t, err)
	var recorded map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &recorded))
	require.NoError(t, json.Unmarshal(recorded[which], &bags), which)
	return bags
}

func fingerprints(all []Authority) (f []string) {
	for _, a := range all {
		f = append(f, a.Fingerprint)
	}
	return f
}

// listOf is a bag of version 1.
func listOf(t testing.TB, texts ...string) map[string]string {
	t.Helper()
	data, err := json.Marshal(texts)
	require.NoError(t, err)
	return map[string]string{"certificates": string(data)}
}

func TestAuthoritiesOfBothVersionsAreRead(t *testing.T) {
	two := recordedTransfer(t, "two")
	both, problems := ParseAuthorities(two.App, two.Units)
	require.Empty(t, problems)
	require.Len(t, both, 2)
	require.True(t, slices.IsSorted(fingerprints(both)))
	for _, a := range both {
		certs, err := certificates(a.PEM)
		require.NoError(t, err)
		require.Len(t, certs, 1)
		require.Len(t, a.Fingerprint, 64)
	}
	first := recordedTransfer(t, "v1")
	one, problems := ParseAuthorities(first.App, nil)
	require.Empty(t, problems)
	require.Len(t, one, 1)
	for which, want := range map[string][]Authority{
		"before": one, // as JSON, each key
		"both":   one,
		"v0":     one, // and not the server's certificate that is before it in the chain
		"empty":  {},
	} {
		bags := recordedTransfer(t, which)
		got, problems := ParseAuthorities(bags.App, bags.Units)
		require.Empty(t, problems, which)
		require.ElementsMatch(t, want, got, which)
	}
	none, problems := ParseAuthorities(nil, map[string]map[string]string{"ca/0": {"egress-subnets": "10.0.0.9/32"}})
	require.Empty(t, none)
	require.Empty(t, problems)
	// A list from a previous provider is no longer valid.
	stale := recordedTransfer(t, "before")
	none, problems = ParseAuthorities(map[string]string{"certificates": "[]", "version": "1"}, stale.Units)
	require.Empty(t, none)
	require.Empty(t, problems)
}

func TestAuthorityDoesNotDependOnFormAndOrder(t *testing.T) {
	text := caPEM(t)
	want, problems := ParseAuthorities(listOf(t, text), nil)
	require.Empty(t, problems)
	require.Len(t, want, 1)
	other := recordedTransfer(t, "v0").Units["ca/0"]["ca"]
	for name, list := range map[string][]string{
		"twice":        {text, text},
		"with remarks": {"Our CA\n" + text + "# its end\n"},
		"one text":     {text + other},
		"reversed":     {other, text},
	} {
		got, problems := ParseAuthorities(listOf(t, list...), nil)
		require.Empty(t, problems, name)
		require.Contains(t, got, want[0], name)
		require.Equal(t, Distinct(got), got, name)
	}
	a, _ := ParseAuthorities(listOf(t, text, other), nil)
	b, _ := ParseAuthorities(listOf(t, other, text), nil)
	require.Equal(t, a, b)
}

func TestOtherCertificatesAreNotAuthorities(t *testing.T) {
	const notPEM = "it is not a certificate in PEM form"
	v0 := recordedTransfer(t, "v0").Units["ca/0"]
	const noCA = "it is not an authority's certificate (no basic constraint CA:TRUE)"
	for name, c := range map[string]struct {
		app, unit map[string]string
		want      []string
		some      int
	}{
		"no list":             {app: map[string]string{"certificates": `{"a": 1}`}, want: []string{"certificates: want a JSON list of certificates in PEM form"}},
		"no JSON":             {app: map[string]string{"certificates": v0["ca"]}, want: []string{"certificates: want a JSON list of certificates in PEM form"}},
		"endless":             {app: map[string]string{"certificates": strings.Repeat(" ", maxAuthorities+1)}, want: []string{"certificates: it is longer than 1048576 bytes"}},
		"an endless one":      {app: listOf(t, strings.Repeat("x", maxPEM+1)), want: []string{"certificates: it is longer than 262144 bytes"}},
		"empty":               {app: listOf(t, ""), want: []string{"certificates: " + notPEM}},
		"a server's":          {app: listOf(t, v0["certificate"]), want: []string{"certificates: " + noCA}},
		"a key":               {app: listOf(t, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), want: []string{"certificates: it holds more than certificates in PEM form"}},
		"damaged":             {app: listOf(t, damaged), want: []string{"certificates: one of its certificates can't be read"}},
		"some":                {app: listOf(t, "x", v0["ca"], "y"), want: []string{"certificates: 2 of 3 are left out: " + notPEM}, some: 1},
		"a server's as ca":    {unit: map[string]string{"ca": v0["certificate"]}, want: []string{"ca: " + noCA}},
		"a server's alone":    {unit: map[string]string{"certificate": v0["certificate"], "ca": ""}},
		"a chain of text":     {unit: map[string]string{"ca": v0["ca"], "chain": v0["ca"]}, want: []string{"chain: want a JSON list of certificates in PEM form"}, some: 1},
		"one that is a chain": {unit: map[string]string{"chain": `["` + strings.ReplaceAll(v0["ca"], "\n", `\n`) + `"]`}, some: 1},
	} {
		got, problems := ParseAuthorities(c.app, map[string]map[string]string{"ca/0": c.unit})
		require.Equal(t, c.want, problems, name)
		require.Len(t, got, c.some, name)
	}
}
