// Package flags lists the environment variables that Concourse knows, as the
// --help of the version in Version names them. Concourse ignores a name that it
// does not know without a word, so tests hold all that the charm writes against
// these lists. Nothing at run time reads them.
package flags

// Version is the version of Concourse that the lists are of.
const Version = "8.2.5"
