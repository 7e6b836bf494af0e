package relation

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	userID = "secret:d2qv1fvmp25c7bq5v2hg"
	tlsID  = "secret:d2qv1fvmp25c7bq5v2i0"
	pass   = "pAsSw0rd"
)

// bags returns the databags of a provider with secrets. change makes a variant.
type bags struct {
	app       map[string]string
	user, tls map[string]string
}

func provider() bags {
	return bags{
		app: map[string]string{"secret-user": userID, "secret-tls": tlsID, "endpoints": "10.0.0.9:5432", "read-only-endpoints": "10.0.0.8:5432",
			"database": "concourse", "version": "14.15", "data": `{"database": "concourse"}`},
		user: map[string]string{"username": "relation-5", "password": pass, "uris": "postgresql://relation-5:" + pass + "@10.0.0.9:5432/concourse"},
		tls:  map[string]string{"tls": "False", "tls-ca": ""},
	}
}

func (b bags) parse() (Database, bool, []string) {
	return ParseDatabase(b.app, nil, map[string]map[string]string{userID: b.user, tlsID: b.tls})
}

func TestDatabaseIsReadFromTheProvider(t *testing.T) {
	require.Equal(t, []string{userID, tlsID}, DatabaseSecrets(provider().app))
	db, ok, problems := provider().parse()
	require.Empty(t, problems)
	require.True(t, ok)
	require.Equal(t, Database{Host: "10.0.0.9", Port: 5432, User: "relation-5", Password: pass, Name: "concourse"}, db)
	require.Equal(t, "disable", db.SSLMode())
}

func TestDatabaseIsFoundInEachForm(t *testing.T) {
	plain := Database{Host: "10.0.0.9", Port: 5432, User: "relation-5", Password: pass, Name: "concourse"}
	uri := func(s string) func(*bags) {
		return func(b *bags) {
			b.user = map[string]string{"uris": s}
			delete(b.app, "endpoints")
			delete(b.app, "database")
		}
	}
	with := func(change func(*Database)) Database { db := plain; change(&db); return db }
	for name, row := range map[string]struct {
		change func(*bags)
		want   Database
	}{
		"no secret for TLS": {func(b *bags) { delete(b.app, "secret-tls") }, plain},
		"plain bag of old provider": {func(b *bags) {
			b.app = merged(b.app, b.user, b.tls)
			delete(b.app, "secret-user")
			delete(b.app, "secret-tls")
		}, plain},
		"several endpoints":        {func(b *bags) { b.app["endpoints"] = "10.0.0.9:5432,10.0.0.7:5432" }, plain},
		"endpoint with spaces":     {func(b *bags) { b.app["endpoints"] = " 10.0.0.9:5432 , x:1" }, plain},
		"endpoint without port":    {func(b *bags) { b.app["endpoints"] = "10.0.0.9" }, plain},
		"endpoint of a PgBouncer":  {func(b *bags) { b.app["endpoints"] = "localhost:6432" }, with(func(d *Database) { d.Host, d.Port = "localhost", 6432 })},
		"IPv6":                     {func(b *bags) { b.app["endpoints"] = "[fd00::9]:5432" }, with(func(d *Database) { d.Host = "fd00::9" })},
		"IPv6 without brackets":    {func(b *bags) { b.app["endpoints"] = "fd00::9:5432" }, with(func(d *Database) { d.Host = "fd00::9" })},
		"IPv6 without port":        {func(b *bags) { b.app["endpoints"] = "[fd00::9]" }, with(func(d *Database) { d.Host = "fd00::9" })},
		"database of another name": {func(b *bags) { b.app["database"] = "ci 1" }, with(func(d *Database) { d.Name = "ci 1" })},
		"no database named":        {func(b *bags) { delete(b.app, "database") }, plain},
		"URI alone":                {uri("postgresql://relation-5:" + pass + "@10.0.0.9:5432/concourse"), plain},
		"URI of the short scheme":  {uri("postgres://relation-5:" + pass + "@10.0.0.9/concourse?sslmode=require"), plain},
		"URI with several hosts":   {uri("postgresql://relation-5:" + pass + "@10.0.0.9:5432,10.0.0.8:5432/concourse"), plain},
		"several URIs":             {uri("postgresql://relation-5:" + pass + "@10.0.0.9:5432/concourse,postgresql://x:y@10.0.0.8:5432/concourse"), plain},
		"URI with IPv6":            {uri("postgresql://relation-5:" + pass + "@[fd00::9]:5433/ci"), with(func(d *Database) { d.Host, d.Port, d.Name = "fd00::9", 5433, "ci" })},
		"URI without a database":   {uri("postgresql://relation-5:" + pass + "@10.0.0.9"), plain},
		"TLS":                      {func(b *bags) { b.tls = map[string]string{"tls": "True", "tls-ca": caPEM(t)} }, with(func(d *Database) { d.TLS, d.CA = true, caPEM(t) })},
		"TLS without CA":           {func(b *bags) { b.tls = map[string]string{"tls": "true"} }, with(func(d *Database) { d.TLS = true })},
		"CA without TLS":           {func(b *bags) { b.tls = map[string]string{"tls": "False", "tls-ca": caPEM(t)} }, plain},
	} {
		t.Run(name, func(t *testing.T) {
			b := provider()
			row.change(&b)
			db, ok, problems := b.parse()
			require.Empty(t, problems)
			require.True(t, ok)
			require.Equal(t, row.want, db)
		})
	}
}

func merged(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// D30: the password of the secret is not decoded, and the password in a URI is. The Python
// charm did neither, and supported neither TLS nor several hosts.
func TestD30PasswordsAreNotDecoded(t *testing.T) {
	odd := `p%41@:/?#[]'"\$ &=;,ü%`
	b := provider()
	b.user["password"] = odd
	b.user["uris"] = "postgresql://relation-5:" + odd + "@10.0.0.9:5432/concourse"
	db, ok, problems := b.parse()
	require.Empty(t, problems)
	require.True(t, ok)
	require.Equal(t, odd, db.Password)

	for encoded, want := range map[string]string{"p%40ss%2Fw%3Ard": "p@ss/w:rd", "100%25": "100%", "a+b": "a+b", "it@home": "it@home", "50%": "50%", "%zz": "%zz", "%C3%BC": "ü"} {
		b := provider()
		b.user = map[string]string{"uris": "postgresql://us%65r:" + encoded + "@10.0.0.9:5432/c%69"}
		delete(b.app, "database")
		db, ok, problems := b.parse()
		require.Empty(t, problems, encoded)
		require.True(t, ok)
		require.Equal(t, Database{Host: "10.0.0.9", Port: 5432, User: "user", Password: want, Name: "ci"}, db)
	}

	b = provider()
	b.tls = map[string]string{"tls": "True", "tls-ca": caPEM(t)}
	db, _, _ = b.parse()
	require.Equal(t, "verify-full", db.SSLMode())
	require.Equal(t, "require", Database{TLS: true}.SSLMode())
}

func TestInvalidDatabaseIsAProblemWithoutSecrets(t *testing.T) {
	for name, row := range map[string]struct {
		change func(*bags)
		want   string
	}{
		"secret that can't be read": {func(b *bags) { b.app["secret-user"] = "secret:other" }, "secret-user: the secret can't be read"},
		"TLS that can't be read":    {func(b *bags) { b.app["secret-tls"] = "secret:other" }, "secret-tls: the secret can't be read"},
		"option for an id":          {func(b *bags) { b.app["secret-user"] = "--help" }, "secret-user: it is not the id of a secret (secret:...)"},
		"space in an id":            {func(b *bags) { b.app["secret-user"] = "secret:a b" }, "secret-user: it is not the id of a secret (secret:...)"},
		"line break in password":    {func(b *bags) { b.user["password"] = pass + "\nX=1" }, "password: it has a line break or another control character"},
		"NUL in password":           {func(b *bags) { b.user["password"] = pass + "\x00" }, "password: it has a line break or another control character"},
		"password in latin 1":       {func(b *bags) { b.user["password"] = pass + "\xfc" }, "password: it is not text in UTF-8"},
		"password without end":      {func(b *bags) { b.user["password"] = strings.Repeat(pass, 1000) }, "password: it is longer than 4096 bytes"},
		"line break in user":        {func(b *bags) { b.user["username"] = "a\nb" }, "username: it has a line break or another control character"},
		"line break in database":    {func(b *bags) { b.app["database"] = "a\nb" }, "database: it has a line break or another control character"},
		"line break in host":        {func(b *bags) { b.app["endpoints"] = "10.0.0.9\nX=1:5432" }, "endpoints: "},
		"zone with a line break":    {func(b *bags) { b.app["endpoints"] = "[fe80::1%\nX=1]:5432" }, "endpoints: "},
		"socket for a host":         {func(b *bags) { b.app["endpoints"] = "/run/../postgresql:5432" }, "endpoints: "},
		"no port":                   {func(b *bags) { b.app["endpoints"] = "10.0.0.9:" }, `endpoints: "10.0.0.9:" has no port between 1 and 65535`},
		"port of 6 digits":          {func(b *bags) { b.app["endpoints"] = "10.0.0.9:543200" }, "has no port between 1 and 65535"},
		"port 0":                    {func(b *bags) { b.app["endpoints"] = "10.0.0.9:0" }, "has no port between 1 and 65535"},
		"first endpoint empty":      {func(b *bags) { b.app["endpoints"] = ",10.0.0.9:5432" }, "endpoints: "},
		"TLS of another word":       {func(b *bags) { b.tls["tls"] = "enabled" }, "tls: want True or False"},
		"CA that is a key":          {func(b *bags) { b.tls = map[string]string{"tls": "True", "tls-ca": fixedKey(t)} }, "tls-ca: it holds more than certificates in PEM form"},
		"CA that is text":           {func(b *bags) { b.tls = map[string]string{"tls": "True", "tls-ca": "trust me"} }, "tls-ca: it is not a certificate in PEM form"},
		"CA that is damaged":        {func(b *bags) { b.tls = map[string]string{"tls": "True", "tls-ca": damaged} }, "tls-ca: one of its certificates can't be read"},
		"URI of another kind":       {func(b *bags) { b.user = map[string]string{"uris": "mysql://u:" + pass + "@h/d"} }, "uris: want postgresql://user:password@host:port/database"},
		"URI without login":         {func(b *bags) { b.user = map[string]string{"uris": "postgresql://" + pass} }, "uris: want postgresql://user:password@host:port/database"},
		"URI with a bad host":       {func(b *bags) { b.user = map[string]string{"uris": "postgresql://u:" + pass + "@" + pass + "~:1/d"} }, "uris: want postgresql://user:password@host:port/database"},
	} {
		t.Run(name, func(t *testing.T) {
			b := provider()
			row.change(&b)
			db, ok, problems := b.parse()
			require.False(t, ok)
			require.Zero(t, db)
			require.Len(t, problems, 1)
			require.Contains(t, problems[0], row.want)
			require.NotContains(t, problems[0], pass)
			require.NotContains(t, problems[0], "\n")
		})
	}
}

const damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

func TestMissingDatabaseIsNotAProblem(t *testing.T) {
	for name, app := range map[string]map[string]string{
		"no bag":                                 nil,
		"empty":                                  {},
		"the database is there, the user is not": {"database": "concourse", "version": "14.15"},
		"endpoints alone":                        {"endpoints": "10.0.0.9:5432"},
	} {
		db, ok, problems := ParseDatabase(app, map[string]map[string]string{"postgresql/0": {"ingress-address": "10.0.0.9"}}, nil)
		require.Empty(t, problems, name)
		require.False(t, ok, name)
		require.Zero(t, db)
		require.Empty(t, DatabaseSecrets(app))
	}
	b := provider()
	delete(b.user, "password")
	delete(b.user, "uris")
	_, ok, problems := b.parse()
	require.False(t, ok)
	require.Empty(t, problems)
}

func TestUnitDatabagsOfOldProvidersAreReadInOrder(t *testing.T) {
	units := map[string]map[string]string{
		"postgresql/10": {"host": "10.0.0.10", "user": "u", "password": pass, "database": "ten"},
		"postgresql/9":  {"host": "fd00::9", "port": "5433", "user": "u", "password": pass, "database": "nine"},
		"postgresql/1":  {"host": "10.0.0.1", "user": "u"},
	}
	for range 10 {
		db, ok, problems := ParseDatabase(map[string]string{}, units, nil)
		require.Empty(t, problems)
		require.True(t, ok)
		require.Equal(t, Database{Host: "fd00::9", Port: 5433, User: "u", Password: pass, Name: "nine"}, db)
	}
	delete(units, "postgresql/9")
	db, _, _ := ParseDatabase(nil, units, nil)
	require.Equal(t, 5432, db.Port)
	units["postgresql/10"]["port"] = "x"
	_, ok, problems := ParseDatabase(nil, units, nil)
	require.False(t, ok)
	require.Equal(t, []string{`endpoints: "10.0.0.10:x" has no port between 1 and 65535`}, problems)
}

// D33: this side publishes no secret in a databag, and requests all values in secrets.
func TestD33DatabaseIsRequestedWithSecrets(t *testing.T) {
	for _, bag := range []map[string]string{DatabaseRequest(), DatabaseUnitRequest()} {
		for _, key := range []string{"username", "password", "uris", "tls", "tls-ca"} {
			require.Contains(t, bag["requested-secrets"], `"`+key+`"`)
		}
	}
}
