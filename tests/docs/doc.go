// Package docs keeps README.md and docs/ together with the code: status texts
// that are quoted are ones that the code prints, commands run, paths, options
// and metrics are those of the charm. It judges no prose.
package docs
