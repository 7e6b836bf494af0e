// The command noop is in for the real runc if there is not a busybox.
package main

func main() {}
