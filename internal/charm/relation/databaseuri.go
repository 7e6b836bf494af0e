package relation

import (
	"errors"
	"net/url"
	"strings"
)

var errURI = errors.New("want postgresql://user:password@host:port/database")

// parseURI reads the first of several URIs, and of several hosts in it. The
// query says nothing that is used: whether there is TLS has keys of its own.
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
	// The last @ and not the first: a password that was put in as it is may have
	// one, and a host may not.
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
		return Database{}, errURI // the host may be a piece of a password
	}
	return db, nil
}

// decode takes percent-encoding off where it is one; a text that was never
// encoded stays.
func decode(s string) string {
	if out, err := url.PathUnescape(s); err == nil {
		return out
	}
	return s
}
