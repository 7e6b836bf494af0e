// Package docs keeps README.md and docs/ together with the code: status texts that are
// quoted are ones that the code prints, commands are run or held to the charm's own files
// and the help of the programs, paths, options and metrics are the charm's, links lead
// somewhere and pictures name real files and ports. It judges no prose.
package docs
