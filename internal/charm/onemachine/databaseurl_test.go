package onemachine

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/relation"
)

// A URL that the web could not use is refused when it is set. The web would wait for ever.
func TestIncompleteURLsOfADatabaseAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"postgresql://ci:s3cret@db":                              "",
		"postgres://ci:s3cret@[fd00::1]:5433/ci?sslmode=require": "",
		"postgresql://ci@db/ci":                                  "want postgresql://user:password@host",
		"postgresql://ci:@db/ci":                                 "want postgresql://",
		"postgresql://:s3cret@db/ci":                             "want postgresql://",
		"postgresql://ci:s3cret@db:99999/ci":                     "want postgresql://",
		"postgresql://ci:s3cret@db/ci?sslmode=verify%0Afull":     `sslmode="verify\nfull" is not supported`,
		"mysql://ci:s3cret@db/ci":                                "want postgresql://",
		"":                                                       "want postgresql://",
	} {
		_, err := externalDatabase(text)
		if want == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "s3cret")
	}
}

func FuzzExternalDatabase(f *testing.F) {
	f.Add("postgresql://ci:p%40w@db:5433/ci?sslmode=require")
	f.Add("postgres://u:p@h1,h2/d?sslmode=%0a")
	f.Fuzz(func(t *testing.T, text string) {
		bag, err := externalDatabase(text)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			if u, _ := url.Parse(text); u != nil && u.User != nil {
				if password, _ := u.User.Password(); len(password) > 50 { // longer than any part of the error
					require.NotContains(t, err.Error(), password)
				}
			}
			return
		}
		db, ok, problems := relation.ParseDatabase(bag, nil, nil)
		require.Empty(t, problems)
		require.True(t, ok && db.Host != "" && db.User != "" && db.Password != "")
	})
}
