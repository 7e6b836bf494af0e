package relation

import (
	"errors"
	"strings"
)

// databaseName is the name of the database that is asked for.
const databaseName = "concourse"

// postgresPort is PostgreSQL's, for providers that give none.
const postgresPort = 5432

// What a provider is asked to put into secrets, in the order and form of the
// library data_interfaces: so it reads the same as that of the Python charm, and
// nothing changes for the provider with it.
const requestedSecrets = `["username", "password", "tls", "tls-ca", "uris", "read-only-uris", "entity-name", "entity-password"]`

// Database is where the web keeps its data.
type Database struct {
	Host     string // a name or an address; IPv6 without brackets
	Port     int
	User     string
	Password string
	Name     string
	TLS      bool   // the server speaks TLS
	CA       string // PEM of who signed its certificate; may be "" with TLS
}

// SSLMode is the word for it that Concourse and libpq have. A server with TLS
// and a CA has to prove that it is the host that was named; one without a CA
// can't, and the connection is only encrypted.
func (d Database) SSLMode() string {
	switch {
	case d.TLS && d.CA != "":
		return "verify-full"
	case d.TLS:
		return "require"
	}
	return "disable"
}

// DatabaseRequest is the application's bag of postgresql_client (library
// data_interfaces v0, requirer). requested-secrets has to be there at the latest
// with database, or the provider writes the password into its bag.
func DatabaseRequest() map[string]string {
	return map[string]string{"database": databaseName, "requested-secrets": requestedSecrets}
}

// DatabaseUnitRequest is the unit's bag, where the library has the list again.
func DatabaseUnitRequest() map[string]string {
	return map[string]string{"requested-secrets": requestedSecrets}
}

var databaseSecrets = []string{"secret-user", "secret-tls"}

// DatabaseSecrets are the ids of the secrets that the provider's application
// bag names, as it writes them. One that is no id is left out.
func DatabaseSecrets(app map[string]string) (ids []string) {
	for _, key := range databaseSecrets {
		if id := app[key]; id != "" && checkSecretID(id) == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

// ParseDatabase reads what the provider gave: its application's bag, the content
// of the secrets that this names, by id, and, of providers without either, the
// bags of its units. ok without a database and without problems is a provider
// that has not answered yet. A problem names the key, never a password.
func ParseDatabase(app map[string]string, units map[string]map[string]string, secrets map[string]map[string]string) (db Database, ok bool, problems []string) {
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

// values are bags and contents of secrets, the first that has a key counts.
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

// legacyUnit is the first complete bag of a unit in the units' order. Those who
// wrote such bags had no application's bag, and other names for keys.
func legacyUnit(units map[string]map[string]string) values {
	for _, u := range unitsInOrder(units) {
		bag := units[u]
		if bag["host"] == "" || bag["user"] == "" || bag["password"] == "" {
			continue
		}
		port := bag["port"]
		if port == "" {
			port = "5432"
		}
		return values{{"endpoints": joinHostPort(bag["host"], port), "username": bag["user"], "password": bag["password"], "database": bag["database"]}}
	}
	return nil
}

// reader collects problems.
type reader struct {
	secrets  map[string]map[string]string
	problems []string
}

func (r *reader) bad(key string, err error) {
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
		r.bad(key, err)
		return nil
	}
	content, ok := r.secrets[id]
	if !ok {
		r.bad(key, errors.New("the secret can't be read"))
	}
	return content
}

// database takes each part from its own key, where a password stands as it is.
// The URI is for what is missing: providers write it without encoding, so a
// password in it may read differently (D30).
func (r *reader) database(from values) (db Database) {
	var fromURI Database
	if uri := from.get("uris"); uri != "" && (from.get("username") == "" || from.get("password") == "" || from.get("endpoints") == "") {
		var err error
		fromURI, err = parseURI(uri)
		r.bad("uris", err)
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
		db.Host, db.Port, err = hostPort(strings.TrimSpace(first), postgresPort)
		r.bad("endpoints", err)
	}
	r.bad("username", plainText(db.User))
	r.bad("password", plainText(db.Password))
	r.bad("database", plainText(db.Name))
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
		r.bad("tls", errors.New("want True or False"))
	}
	if text := from.get("tls-ca"); db.TLS && text != "" {
		certs, err := certificates(text)
		r.bad("tls-ca", err)
		db.CA = pemOf(certs...)
	}
}
