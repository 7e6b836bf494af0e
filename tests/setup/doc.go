// Package setup tests what a fresh machine meets first: the check for Go that
// every target makes, with programs of its own named go on PATH.
package setup
