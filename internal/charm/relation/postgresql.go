package relation

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// databaseName is the name of the requested database.
const databaseName = "concourse"

// postgresPort is PostgreSQL's port, for providers that do not publish one.
const postgresPort = 5432

// requestedSecrets lists the values that a provider must put into secrets. Order and form
// are as in the library data_interfaces and in the Python charm, so that a migration
// changes nothing for the provider.
const requestedSecrets = `["username", "password", "tls", "tls-ca", "uris", ` +
	`"read-only-uris", "entity-name", "entity-password"]`

// Database holds the web's database and its login.
type Database struct {
	Host     string // a name, an address (IPv6 without brackets) or the folder of a socket
	Port     int
	User     string
	Password string
	Name     string
	TLS      bool   // the server speaks TLS
	CA       string // PEM of the authority of its certificate; may be "" with TLS
}

// SSLMode returns the mode for Concourse and libpq. A server with TLS and a CA must prove
// its host name. Without a CA it cannot, and the connection is only encrypted.
func (d Database) SSLMode() string {
	switch {
	case d.TLS && d.CA != "":
		return "verify-full"
	case d.TLS:
		return "require"
	}
	return "disable"
}

// DatabaseRequest returns the application's databag of postgresql_client (library
// data_interfaces v0, requirer). requested-secrets must be set no later than database.
// Otherwise the provider writes the password into its databag.
func DatabaseRequest() map[string]string {
	return map[string]string{"database": databaseName, "requested-secrets": requestedSecrets}
}

// DatabaseUnitRequest returns the unit's databag, in which the library repeats the list.
func DatabaseUnitRequest() map[string]string {
	return map[string]string{"requested-secrets": requestedSecrets}
}

var databaseSecrets = []string{"secret-user", "secret-tls"}

// DatabaseSecrets returns the ids of the secrets in the databag of the provider's
// application. Invalid ids are left out.
func DatabaseSecrets(app map[string]string) (ids []string) {
	for _, key := range databaseSecrets {
		if id := app[key]; id != "" && checkSecretID(id) == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// ParseDatabase reads the databag of the provider's application, and the contents of its
// secrets by id. From providers without both it reads the units' databags. It returns false
// without problems if the provider has not answered yet. A problem names the key, never a
// password.
func ParseDatabase(app map[string]string, units map[string]map[string]string,
	secrets map[string]map[string]string) (db Database, ok bool, problems []string) {
	r := reader{secrets: secrets}
	user, tls := r.secret(app, "secret-user"), r.secret(app, "secret-tls")
	if len(r.problems) > 0 {
		return Database{}, false, r.problems
	}
	from := source(app, user, tls)
	if from.get("username") == "" && from.get("uris") == "" {
		if from = legacyUnit(units); from == nil {
			return Database{}, false, nil
		}
	}
	db = r.database(from)
	if len(r.problems) > 0 {
		return Database{}, false, r.problems
	}
	return db, db != Database{}, nil
}

// values holds databags and contents of secrets. The first one with a key is used.
type values []map[string]string

func source(app, user, tls map[string]string) values { return values{user, tls, app} }

func (v values) get(key string) string {
	for _, m := range v {
		if s := m[key]; s != "" {
			return s
		}
	}
	return ""
}

// legacyUnit returns the first complete databag in the order of units. Old providers had no
// databag of the application, and other names for keys.
func legacyUnit(units map[string]map[string]string) values {
	for _, u := range unitsInOrder(units) {
		bag := units[u]
		if bag["host"] == "" || bag["user"] == "" || bag["password"] == "" {
			continue
		}
		port := bag["port"]
		port = cmp.Or(port, "5432")
		return values{{"endpoints": joinHostPort(bag["host"], port), "username": bag["user"],
			"password": bag["password"], "database": bag["database"]}}
	}
	return nil
}

// reader collects the problems of a databag.
type reader struct {
	secrets  map[string]map[string]string
	problems []string
}

// addProblem adds err as a problem of a key, unless err is nil.
func (r *reader) addProblem(key string, err error) {
	if err != nil {
		r.problems = append(r.problems, key+": "+err.Error())
	}
}

func (r *reader) secret(app map[string]string, key string) map[string]string {
	id := app[key]
	if id == "" {
		return nil
	}
	if err := checkSecretID(id); err != nil {
		r.addProblem(key, err)
		return nil
	}
	content, ok := r.secrets[id]
	if !ok {
		r.addProblem(key, errors.New("the secret can't be read"))
	}
	return content
}

// database takes each part from its own key, in which a password is not encoded. The URI
// only fills in missing parts. Providers write it without encoding, so a password in it
// may read differently (D30).
func (r *reader) database(from values) (db Database) {
	var fromURI Database
	if uri := from.get("uris"); uri != "" && (from.get("username") == "" || from.get("password") == "" ||
		from.get("endpoints") == "") {
		var err error
		fromURI, err = parseURI(uri)
		r.addProblem("uris", err)
	}
	pick := func(own, uri string) string {
		if own != "" {
			return own
		}
		return uri
	}
	db.User, db.Password = pick(from.get("username"), fromURI.User), pick(from.get("password"), fromURI.Password)
	db.Name = pick(pick(from.get("database"), fromURI.Name), databaseName)
	db.Host, db.Port = fromURI.Host, fromURI.Port
	if list := from.get("endpoints"); list != "" {
		first, _, _ := strings.Cut(list, ",")
		var err error
		db.Host, db.Port, err = serverOf(strings.TrimSpace(first))
		r.addProblem("endpoints", err)
	}
	r.addProblem("username", plainText(db.User))
	r.addProblem("password", plainText(db.Password))
	r.addProblem("database", plainText(db.Name))
	r.tls(from, &db)
	if len(r.problems) == 0 && (db.Host == "" || db.User == "" || db.Password == "") {
		return Database{} // the rest is still to come
	}
	return db
}

func (r *reader) tls(from values, db *Database) {
	switch strings.ToLower(from.get("tls")) {
	case "", "false":
		return
	case "true":
		db.TLS = true
	default:
		r.addProblem("tls", errors.New("want True or False"))
	}
	if text := from.get("tls-ca"); db.TLS && text != "" {
		certs, err := certificates(text)
		r.addProblem("tls-ca", err)
		db.CA = pemOf(certs...)
	}
}

// serverOf splits host:port, or folder:port of a socket on this machine.
func serverOf(s string) (host string, port int, err error) {
	dir, number, _ := strings.Cut(s, ":")
	if path.IsAbs(dir) && path.Clean(dir) == dir && plainText(dir) == nil {
		if port, err = strconv.Atoi(number); err != nil || port < 1 || port > 65535 {
			return "", 0, fmt.Errorf("%.100q has no port between 1 and 65535", s)
		}
		return dir, port, nil
	}
	return hostPort(s, postgresPort)
}

var errURI = errors.New("want postgresql://user:password@host:port/database")

// parseURI reads the first URI of a list, and the first host in it. The query is ignored,
// because TLS has separate keys.
func parseURI(list string) (db Database, err error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(list), "postgresql://")
	if !ok {
		if rest, ok = strings.CutPrefix(rest, "postgres://"); !ok {
			return db, errURI
		}
	}
	for _, next := range []string{",postgresql://", ",postgres://"} {
		rest, _, _ = strings.Cut(rest, next)
	}
	// The last @ separates the host: a password that is not encoded may contain an @, and
	// a host may not.
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return db, errURI
	}
	user, password, _ := strings.Cut(rest[:at], ":")
	address, _, _ := strings.Cut(rest[at+1:], "?")
	hosts, name, _ := strings.Cut(address, "/")
	db.User, db.Password, db.Name = decode(user), decode(password), decode(name)
	host, _, _ := strings.Cut(hosts, ",")
	if db.Host, db.Port, err = hostPort(host, postgresPort); err != nil {
		return Database{}, errURI // no detail: the host may be a piece of a password
	}
	return db, nil
}

// decode removes percent-encoding. A text that was never encoded is returned unchanged.
func decode(s string) string {
	if out, err := url.PathUnescape(s); err == nil {
		return out
	}
	return s
}
