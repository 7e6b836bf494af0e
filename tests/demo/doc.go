// Package demo tests `make demo` as someone new to the project starts it: on a terminal of
// 80 columns, in a pipe that closes, and interrupted. On a terminal the status page is
// served until Ctrl-C.
package demo
