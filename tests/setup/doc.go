// Package setup tests what a fresh machine meets first: the check for Go that every target
// makes, with its own programs named go on PATH.
package setup
