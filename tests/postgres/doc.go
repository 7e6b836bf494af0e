// Package postgres shows internal/concourse/postgres at work on a real PostgreSQL server of
// its unit (build tag e2e): logins, TLS, and privileges that were lost and come back. The
// server's programs come from the package postgresql; no cluster of the machine is used or
// changed.
package postgres
